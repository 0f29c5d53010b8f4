// SPDX-License-Identifier: Apache-2.0
#include "transport/builtin.h"

#include <algorithm>
#include <iterator>

#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/unix/unix.h"
#ifdef XFER_WITH_RDMA
#include "transport/rdma/device_filter.h"
#include "transport/rdma/rdma.h"
#endif

namespace xfer {
namespace {

struct Builtin {
    std::string_view name;
    uint32_t number;
};

constexpr Builtin kBuiltins[] = {
    {"loopback", XFER_TRANSPORT_LOOPBACK}, {"tcp", XFER_TRANSPORT_TCP},
    {"unix", XFER_TRANSPORT_UNIX},         {"shm", XFER_TRANSPORT_SHM},
#ifdef XFER_WITH_RDMA
    {"rdma", XFER_TRANSPORT_RDMA},
#endif
};

bool is_builtin(std::string_view name) {
    return std::any_of(std::begin(kBuiltins), std::end(kBuiltins),
                       [&](const Builtin &builtin) { return builtin.name == name; });
}

bool allows(const std::vector<std::string> &allowed, std::string_view name) {
    return allowed.empty() || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
}

}  // namespace

std::string builtin_names() {
    std::string names;
    for (const Builtin &builtin : kBuiltins)
        names.append(names.empty() ? "" : ", ").append(builtin.name);
    return names;
}

std::string unknown_transport(std::string_view list) {
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view name = list.substr(0, comma);
        if (comma && !is_builtin(name)) return std::string(name);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return {};
}

uint64_t builtin_mask(const std::vector<std::string> &allowed) {
    uint64_t mask = 0;
    for (const Builtin &builtin : kBuiltins)
        if (allows(allowed, builtin.name)) mask |= uint64_t{1} << builtin.number;
    return mask;
}

std::vector<std::unique_ptr<Transport>> builtin_transports(
    Loop &loop, const Log &log, const std::vector<std::string> &allowed) {
    std::vector<std::unique_ptr<Transport>> transports;
    if (allows(allowed, "tcp")) transports.push_back(make_tcp(loop, log));
    if (allows(allowed, "shm")) transports.push_back(make_shm(loop, log));
    if (allows(allowed, "unix")) transports.push_back(make_unix(loop, log));
    return transports;
}

bool has_loopback(const std::vector<std::string> &allowed) {
    return allows(allowed, "loopback");
}

std::unique_ptr<Channel> builtin_loopback(Loop &loop, const std::vector<std::string> &allowed) {
    return has_loopback(allowed) ? make_loopback_channel(loop) : nullptr;
}

#ifdef XFER_WITH_RDMA

bool has_rdma() {
    return true;
}

std::vector<std::unique_ptr<Fabric>> builtin_fabrics(Loop &loop, const Log &log,
                                                     const std::vector<std::string> &allowed,
                                                     const RdmaOptions &options) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    if (allows(allowed, "rdma")) fabrics.push_back(rdma::make_rdma(loop, log, options));
    return fabrics;
}

Failure check_rdma_devices(std::string_view devices) {
    const auto filter = rdma::parse_device_filter(devices);
    return filter ? Failure{} : filter.error();
}

#else

bool has_rdma() {
    return false;
}

std::vector<std::unique_ptr<Fabric>> builtin_fabrics(Loop &, const Log &,
                                                     const std::vector<std::string> &,
                                                     const RdmaOptions &) {
    return {};
}

Failure check_rdma_devices(std::string_view) {
    return {};
}

#endif

}  // namespace xfer
