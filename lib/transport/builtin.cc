// SPDX-License-Identifier: Apache-2.0
#include "transport/builtin.h"

#include <algorithm>
#include <iterator>

#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/unix/unix.h"

namespace xfer {
namespace {

bool allows(const std::vector<std::string> &allowed, std::string_view name) {
    return allowed.empty() || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
}

}  // namespace

std::string unknown_transport(std::string_view list) {
    constexpr std::string_view known[] = {"loopback", "tcp", "unix", "shm"};
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view name = list.substr(0, comma);
        if (comma && std::find(std::begin(known), std::end(known), name) == std::end(known))
            return std::string(name);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return {};
}

std::vector<std::unique_ptr<Transport>> builtin_transports(
    Loop &loop, const Log &log, const std::vector<std::string> &allowed) {
    std::vector<std::unique_ptr<Transport>> transports;
    if (allows(allowed, "tcp")) transports.push_back(make_tcp(loop, log));
    if (allows(allowed, "shm")) transports.push_back(make_shm(loop, log));
    if (allows(allowed, "unix")) transports.push_back(make_unix(loop, log));
    return transports;
}

std::unique_ptr<Link> builtin_loopback(Loop &loop, const std::vector<std::string> &allowed) {
    return allows(allowed, "loopback") ? make_loopback_link(loop) : nullptr;
}

}  // namespace xfer
