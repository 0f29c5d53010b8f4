// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/fabric.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include "transport/rdma/frame_channel.h"
#include "transport/rdma/path.h"
#include "transport/rdma/signal.h"
#include "util/json.h"
#include "util/memory.h"

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
    : loop_(loop), log_(&log), worker_(loop), left_out_(std::move(devices.left_out)) {
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

Result<AdapterFabric::Place> AdapterFabric::place(const PortAddress *other,
                                                  std::span<AttachedPath *const> beside,
                                                  uint32_t failures) const {
    std::vector<Place> places;
    std::vector<PortCandidate> ports;
    for (const auto &adapter : adapters_) {
        for (const Port &port : adapter->device().ports()) {
            const bool taken =
                std::any_of(beside.begin(), beside.end(), [&port](const AttachedPath *path) {
                    return &static_cast<const Path *>(path)->port() == &port;
                });
            places.push_back({adapter.get(), &port});
            ports.push_back({&port, adapter->paths_on(port) + adapter->links_on(port), taken});
        }
    }
    const auto chosen = choose_port(ports, other, node_here(), failures);
    if (!chosen)
        return Failure{XFER_EUNREACHABLE, XFER_ORIGIN_VERBS, 0,
                       "no port of an adapter is active and free"};
    return places[*chosen];
}

Result<std::unique_ptr<AttachedPath>> AdapterFabric::open(const AttachedPathRequest &request,
                                                          AttachedPathSink &sink) {
    if (!is_there()) return why_none();
    if (request.beside.size() >= most_paths())
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "each port has a path already"};
    std::optional<PortAddress> other;
    if (!request.offer.empty()) {
        auto offer = decode_signal(request.offer);
        if (!offer) return offer.error();
        other = address_of(offer->queue_pair);
    }
    auto at = place(other ? &*other : nullptr, request.beside, request.failures);
    if (!at) return at.error();
    return Path::open(*at->adapter, *at->port, request.first, sink);
}

Result<std::unique_ptr<AttachedChannel>> AdapterFabric::open_channel(
    const AttachedChannelRequest &request, AttachedChannelSink &sink) {
    if (!is_there()) return why_none();
    return FrameChannel::open(*this, loop_, *log_, request, sink);
}

Failure AdapterFabric::why_none() const {
    return {XFER_EUNSUPPORTED, why_none_.origin, why_none_.native, why_none_.message};
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
    const bool has_memory = catch_bad_alloc([&] {
        for (; added < adapters_.size(); ++added)
            adapters_[added]->memory().add(region, memory);
    });
    if (has_memory) {
        ++regions_;
        return;
    }
    while (added > 0)
        adapters_[--added]->memory().remove(region);
    throw std::bad_alloc();
}

bool AdapterFabric::remove_region(RegionId region) {
    bool quiet = true;
    for (const auto &adapter : adapters_) {
        if (adapter->remove(region)) continue;
        if (!is_grant(region)) releasing_.push_back(region);
        quiet = false;
    }
    if (quiet && !is_grant(region)) --regions_;
    return quiet;
}

void AdapterFabric::on_settled() {
    for (const auto &adapter : adapters_)
        adapter->on_settled();
}

// Of a grant, of which nothing was made in advance, a path says that its window is gone.
void AdapterFabric::on_released(RegionId region) {
    if (is_grant(region)) {
        for (const auto &adapter : adapters_)
            if (adapter->has_window_of(region)) return;
        return sink_->on_released(region);
    }
    releasing_.erase(std::find(releasing_.begin(), releasing_.end(), region));
    if (std::find(releasing_.begin(), releasing_.end(), region) != releasing_.end()) return;
    --regions_;
    sink_->on_released(region);
}

}  // namespace xfer::rdma
