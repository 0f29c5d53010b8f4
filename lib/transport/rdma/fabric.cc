// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/fabric.h"

#include <algorithm>

#include "transport/rdma/path.h"
#include "util/json.h"

namespace xfer::rdma {

namespace {

uint32_t mtu_bytes(ibv_mtu mtu) {
    return 128u << mtu;  // from IBV_MTU_256, which is 1
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

// The fastest port that is active; of equals the one with the fewest paths.
Result<std::unique_ptr<AttachedPath>> AdapterFabric::open(bool first, AttachedPathSink &sink) {
    Adapter *best = nullptr;
    const Port *on = nullptr;
    size_t paths = 0;
    for (const auto &adapter : adapters_) {
        for (const Port &port : adapter->device().ports()) {
            if (!port.active) continue;
            const size_t there = adapter->paths_on(port);
            const bool faster = !on || port.bits_per_second > on->bits_per_second;
            const bool freer = on && port.bits_per_second == on->bits_per_second && there < paths;
            if (!faster && !freer) continue;
            best = adapter.get();
            on = &port;
            paths = there;
        }
    }
    if (!is_there())
        return Failure{XFER_EUNSUPPORTED, why_none_.origin, why_none_.native, why_none_.message};
    if (!on)
        return Failure{XFER_EUNREACHABLE, XFER_ORIGIN_VERBS, 0, "no port of an adapter is active"};
    return Path::open(*best, *on, first, sink);
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
