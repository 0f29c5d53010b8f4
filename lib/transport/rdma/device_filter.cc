// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/device_filter.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace xfer::rdma {

namespace {

std::string_view trim(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Up to the separator, which `rest` then begins behind; nullopt: the text had ended.
std::optional<std::string_view> next(std::optional<std::string_view> &rest, char separator) {
    if (!rest) return std::nullopt;
    const std::string_view text = *rest;
    const size_t at = text.find(separator);
    rest.reset();
    if (at != std::string_view::npos) rest = text.substr(at + 1);
    return text.substr(0, at);
}

bool is_device_name(std::string_view name) {
    constexpr std::string_view kAlso = "_-.";
    return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               kAlso.find(c) != std::string_view::npos;
    });
}

bool read_number(std::string_view text, uint8_t least, std::optional<uint8_t> &to) {
    uint8_t number = 0;
    const char *const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < least) return false;
    to = number;
    return true;
}

Failure bad_part(std::string_view part, const char *why) {
    return {XFER_EINVAL, XFER_ORIGIN_NONE, 0, Text("`") + part.substr(0, 64) + "`: " + why};
}

Result<DeviceFilter::Part> parse_part(std::string_view text, bool except) {
    DeviceFilter::Part part;
    std::optional<std::string_view> rest = text;
    const std::string_view device = *next(rest, ':');
    if (!is_device_name(device))
        return bad_part(text, "the name of a device has letters, digits and `_-.`");
    part.device = device;
    const auto port = next(rest, ':'), gid_index = next(rest, ':');
    if (port && !read_number(*port, 1, part.port))
        return bad_part(text, "the port is a number from 1 to 255");
    if (gid_index && !read_number(*gid_index, 0, part.gid_index))
        return bad_part(text, "the GID index is a number from 0 to 255");
    if (rest) return bad_part(text, "nothing follows the GID index");
    if (except && gid_index) return bad_part(text, "behind `^` no GID index is of use");
    return part;
}

bool names(const DeviceFilter::Part &part, std::string_view device, uint8_t port) {
    return part.device == device && part.port.value_or(port) == port;
}

}  // namespace

bool DeviceFilter::admits(std::string_view device) const {
    const bool named = std::any_of(parts.begin(), parts.end(), [&](const Part &part) {
        return part.device == device && !(except && part.port);
    });
    return named != except;
}

bool DeviceFilter::admits(std::string_view device, uint8_t port) const {
    const bool named = std::any_of(parts.begin(), parts.end(),
                                   [&](const Part &part) { return names(part, device, port); });
    return named != except;
}

std::optional<uint8_t> DeviceFilter::gid_index(std::string_view device, uint8_t port) const {
    std::optional<uint8_t> last;
    for (const Part &part : parts)
        if (names(part, device, port) && part.gid_index) last = part.gid_index;
    return last;
}

Failure not_admitted() {
    return {XFER_ENOTFOUND, XFER_ORIGIN_NONE, 0, "not among those that may be used"};
}

Result<DeviceFilter> parse_device_filter(std::string_view text) {
    DeviceFilter filter;
    text = trim(text);
    if (text.empty()) return filter;
    filter.except = text.front() == '^';
    if (text == "none") return filter;
    std::optional<std::string_view> rest = filter.except ? text.substr(1) : text;
    while (const auto part = next(rest, ',')) {
        if (trim(*part) == "none") return bad_part("none", "stands alone");
        Result<DeviceFilter::Part> parsed = parse_part(trim(*part), filter.except);
        if (!parsed) return parsed.error();
        filter.parts.push_back(std::move(*parsed));
    }
    return filter;
}

}  // namespace xfer::rdma
