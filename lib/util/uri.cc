// SPDX-License-Identifier: Apache-2.0
#include "util/uri.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace xfer {

namespace {

constexpr size_t kLongest = 255;  // bytes of a URI
constexpr size_t kLongestName = 64;
constexpr std::string_view kEveryInterface = "0.0.0.0";
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view kHostChars =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
constexpr std::string_view kSchemeChars =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";

bool only(std::string_view text, std::string_view chars) {
    return !text.empty() && text.find_first_not_of(chars) == std::string_view::npos;
}

bool is_address(int family, std::string_view text) {
    in6_addr address;
    return inet_pton(family, std::string(text).c_str(), &address) == 1;
}

std::optional<uint16_t> parse_port(std::string_view text) {
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || text.size() > 5)
        return std::nullopt;
    return port;
}

// The functions below answer with what is wrong, nullptr if nothing is.

const char *parse_ports(std::string_view text, Uri &uri) {
    const size_t dash = text.find('-');
    const auto low = parse_port(text.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : parse_port(text.substr(dash + 1));
    if (!low || !high) return "the port is not a number from 0 to 65535";
    if (*low > *high) return "the port range is upside down";
    if (*low == 0 && *high != 0) return "a port range can't start at 0";
    uri.port_low = *low;
    uri.port_high = *high;
    return nullptr;
}

const char *check_host(std::string_view host) {
    if (host.find(':') != std::string_view::npos) return "an IPv6 address needs brackets";
    if (!only(host, kHostChars)) return "the host has a character that no host name has";
    // Nothing else of this form is a name, so that a mistyped address needs no look-up to be told.
    if (only(host, "0123456789.") && !is_address(AF_INET, host)) return "not an IPv4 address";
    return nullptr;
}

const char *check_host6(std::string_view host) {
    const size_t percent = host.find('%');
    if (!is_address(AF_INET6, host.substr(0, percent))) return "not an IPv6 address";
    if (percent != std::string_view::npos && !only(host.substr(percent + 1), kHostChars)) {
        return "not the zone of an IPv6 address";
    }
    return nullptr;
}

const char *parse_tcp(std::string_view rest, Uri &uri) {
    const bool bracket = rest.starts_with('[');
    const size_t close = bracket ? rest.find(']') : 0;
    if (close == std::string_view::npos) return "a bracket is not closed";
    const size_t colon = bracket ? close + 1 : rest.rfind(':');
    if (colon >= rest.size()) return "the port is missing";
    if (rest[colon] != ':') return "a bracket is not followed by a port";
    std::string_view host = bracket ? rest.substr(1, close - 1) : rest.substr(0, colon);
    if (!bracket && (host.empty() || host == "*")) host = kEveryInterface;
    if (const char *wrong = bracket ? check_host6(host) : check_host(host)) return wrong;
    uri.host = host;
    return parse_ports(rest.substr(colon + 1), uri);
}

const char *parse_unix(std::string_view rest, Uri &uri) {
    if (!rest.starts_with('/')) return "the path is not absolute";
    if (rest.ends_with('/')) return "the path names no file";
    if (rest.find(',') != std::string_view::npos) return "the path has a comma, as lists have";
    if (rest.size() > kLongestPath) return "the path is too long for a socket";
    uri.path = rest;
    return nullptr;
}

const char *parse_shm(std::string_view rest, Uri &uri) {
    if (!only(rest, kHostChars)) return "a name is letters, digits, '.', '_' and '-'";
    if (rest.size() > kLongestName) return "the name is longer than 64 characters";
    uri.host = rest;
    return nullptr;
}

Failure bad(std::string_view what) {
    return {XFER_EADDR, XFER_ORIGIN_NONE, 0, what};
}

}  // namespace

Result<Uri> parse_uri(std::string_view text) {
    if (text.empty()) return bad("the address is empty");
    if (text.size() > kLongest) return bad("the address is longer than 255 bytes");
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
        return bad("the address has a character that is not printable ASCII");
    }
    const std::string quoted = "address \"" + std::string(text) + "\": ";
    const size_t mark = text.find("://");
    if (mark == std::string_view::npos || !only(text.substr(0, mark), kSchemeChars)) {
        return bad(quoted + "it does not start with a scheme such as tcp://");
    }
    Uri uri;
    uri.scheme = text.substr(0, mark);
    const std::string_view rest = text.substr(mark + 3);
    const char *wrong = nullptr;
    if (uri.scheme == "tcp") {
        wrong = parse_tcp(rest, uri);
    } else if (uri.scheme == "unix") {
        wrong = parse_unix(rest, uri);
    } else if (uri.scheme == "shm") {
        wrong = parse_shm(rest, uri);
    } else {
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0,
                       "no transport \"" + uri.scheme + "\""};
    }
    if (wrong) return bad(quoted + wrong);
    return uri;
}

std::string to_string(const Uri &uri) {
    if (uri.scheme == "unix") return "unix://" + uri.path;
    if (uri.scheme == "shm") return "shm://" + uri.host;
    const bool v6 = uri.host.find(':') != std::string::npos;
    std::string text = uri.scheme + (v6 ? "://[" : "://") + uri.host + (v6 ? "]:" : ":");
    text += std::to_string(uri.port_low);
    if (uri.port_high != uri.port_low) text.append("-").append(std::to_string(uri.port_high));
    return text;
}

std::string uri_of(const sockaddr *address, socklen_t size) {
    Uri uri{.scheme = "tcp", .host = {}, .path = {}};
    char host[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
        sockaddr_in in;
        std::memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
        uri.host = host;
        uri.port_low = uri.port_high = ntohs(in.sin_port);
    } else if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
        sockaddr_in6 in;
        std::memcpy(&in, address, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof host);
        uri.host = host;
        if (in.sin6_scope_id != 0) uri.host.append("%").append(std::to_string(in.sin6_scope_id));
        uri.port_low = uri.port_high = ntohs(in.sin6_port);
    } else if (address->sa_family == AF_UNIX && size > offsetof(sockaddr_un, sun_path)) {
        const char *path =
            reinterpret_cast<const char *>(address) + offsetof(sockaddr_un, sun_path);
        if (*path != '/') return {};  // unnamed or abstract
        uri.scheme = "unix";
        uri.path.assign(path, strnlen(path, size - offsetof(sockaddr_un, sun_path)));
        if (!parse_uri(to_string(uri))) return {};
    } else {
        return {};
    }
    return to_string(uri);
}

std::vector<std::string> split_list(std::string_view list) {
    std::vector<std::string> parts;
    for (size_t comma; (comma = list.find(',')) != std::string_view::npos;
         list.remove_prefix(comma + 1))
        parts.emplace_back(list.substr(0, comma));
    parts.emplace_back(list);
    return parts;
}

std::string join_list(const std::vector<std::string> &parts) {
    std::string list;
    for (const std::string &part : parts)
        list.append(list.empty() ? "" : ",").append(part);
    return list;
}

bool is_dialable(const Uri &uri) {
    if (uri.scheme != "tcp") return true;
    in_addr v4;
    in6_addr v6;
    const bool any =
        (::inet_pton(AF_INET, uri.host.c_str(), &v4) == 1 && v4.s_addr == INADDR_ANY) ||
        (::inet_pton(AF_INET6, uri.host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
    return !any && uri.port_low != 0 && uri.port_low == uri.port_high;
}

bool is_loopback(const Uri &uri) {
    if (uri.scheme != "tcp" || uri.host == "localhost") return true;
    in_addr v4;
    if (::inet_pton(AF_INET, uri.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    in6_addr v6;
    return ::inet_pton(AF_INET6, uri.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace xfer
