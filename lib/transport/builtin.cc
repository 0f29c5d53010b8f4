// SPDX-License-Identifier: Apache-2.0
#include "transport/builtin.h"

#include <algorithm>

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

bool builtin_knows(std::string_view name) {
    return name == "loopback" || name == "tcp" || name == "unix" || name == "shm";
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
