// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/fabric.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include "transport/rdma/path.h"
#include "transport/rdma/port_choice.h"
#include "transport/rdma/signal.h"
#include "util/json.h"

namespace xfer::rdma {

namespace {

uint32_t mtu_bytes(ibv_mtu mtu) {
    return 128u << mtu;  // from IBV_MTU_256, which is 1
}

// Of the processor that runs this loop, -1: unknown.
int node_here() {
    unsigned node = 0;
    return ::getcpu(nullptr, &node) == 0 ? static_cast<int>(node) : -1;
}

}  // namespace

AdapterFabric::AdapterFabric(const Verbs &verbs, Devices devices, const QueuePairOptions &options,
                             Loop &loop, const Log &log)
    : worker_(loop), left_out_(std::move(devices.left_out)) {
    MemoryDomainSink &sink = *this;
    for (auto &device : devices.open) {
        if (device->ports().empty()) continue;
        auto adapter =
            std::make_unique<Adapter>(verbs, std::move(device), options, loop, worker_, log, sink);
        if (adapter->follow() != XFER_OK)
            log.warn("{}: its events can't be watched", adapter->device().name());
        adapters_.push_back(std::move(adapter));
    }
    if (adapters_.empty())
        why_none_ = {XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "this host has no adapter of RDMA"};
}

AdapterFabric::~AdapterFabric() = default;

// One for each port: which of them will be active nobody knows.
uint32_t AdapterFabric::most_paths() const {
    size_t ports = 0;
    for (const auto &adapter : adapters_)
        ports += adapter->device().ports().size();
    return static_cast<uint32_t>(ports);
}

Result<std::unique_ptr<AttachedPath>> AdapterFabric::open(const AttachedPathRequest &request,
                                                          AttachedPathSink &sink) {
    if (!is_there())
        return Failure{XFER_EUNSUPPORTED, why_none_.origin, why_none_.native, why_none_.message};
    if (request.beside.size() >= most_paths())
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "each port has a path already"};
    std::optional<PortAddress> other;
    if (!request.offer.empty()) {
        auto offer = decode_signal(request.offer);
        if (!offer) return offer.error();
        const QueuePairParameters &far = offer->queue_pair;
        other = {.layer = far.layer, .lid = far.lid, .gid = far.gid, .mtu = far.mtu};
    }
    std::vector<Adapter *> adapters;
    std::vector<PortCandidate> ports;
    for (const auto &adapter : adapters_) {
        for (const Port &port : adapter->device().ports()) {
            const bool taken = std::any_of(
                request.beside.begin(), request.beside.end(), [&port](const AttachedPath *path) {
                    return &static_cast<const Path *>(path)->port() == &port;
                });
            adapters.push_back(adapter.get());
            ports.push_back({&port, adapter->paths_on(port), taken});
        }
    }
    const auto chosen =
        choose_port(ports, other ? &*other : nullptr, node_here(), request.failures);
    if (!chosen)
        return Failure{XFER_EUNREACHABLE, XFER_ORIGIN_VERBS, 0,
                       "no port of an adapter is active and free"};
    return Path::open(*adapters[*chosen], *ports[*chosen].port, request.first, sink);
}

void AdapterFabric::describe(JsonWriter &out) const {
    out.add("why_none", why_none_.message);
    out.begin_array("ports");
    for (const auto &adapter : adapters_) {
        for (const Port &port : adapter->device().ports()) {
            out.begin_object();
            out.add("name", port.name);
            out.add("active", port.active);
            out.add("link",
                    port.address.layer == LinkLayer::infiniband ? "infiniband" : "ethernet");
            out.add("gid_index", uint32_t{port.gid_index});
            out.add("mtu", mtu_bytes(port.address.mtu));
            out.add("bits_per_second", port.bits_per_second);
            out.add("numa_node", int32_t{port.numa_node});
            out.add("paths", uint64_t{adapter->paths_on(port)});
            out.end_object();
        }
    }
    out.end_array();
    out.begin_array("left_out");
    for (const LeftOut &left : left_out_) {
        out.begin_object();
        out.add("name", left.name);
        out.add("why", left.why.message);
        out.end_object();
    }
    out.end_array();
}

// ---- regions

void AdapterFabric::add_region(RegionId region, const ExportedMemory &memory) {
    releasing_.reserve((regions_ + 1) * adapters_.size());  // so that their ends need no memory
    size_t added = 0;
    try {
        for (; added < adapters_.size(); ++added)
            adapters_[added]->memory().add(region, memory);
    } catch (...) {
        while (added > 0)
            adapters_[--added]->memory().remove(region);
        throw;
    }
    ++regions_;
}

bool AdapterFabric::remove_region(RegionId region) {
    bool quiet = true;
    for (const auto &adapter : adapters_) {
        if (adapter->memory().remove(region)) continue;
        releasing_.push_back(region);
        quiet = false;
    }
    if (quiet) --regions_;
    return quiet;
}

void AdapterFabric::on_released(RegionId region) {
    releasing_.erase(std::find(releasing_.begin(), releasing_.end(), region));
    if (std::find(releasing_.begin(), releasing_.end(), region) != releasing_.end()) return;
    --regions_;
    sink_->on_released(region);
}

}  // namespace xfer::rdma
