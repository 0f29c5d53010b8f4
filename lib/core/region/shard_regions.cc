// SPDX-License-Identifier: Apache-2.0
#include "core/region/shard_regions.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/region/registry.h"

namespace xfer {

void ShardRegions::add(Region &region, RegionTable::Places &places) {
    table_.add(region, places);
    if (shard_.index == 0 && region.lease_ms) lease(region);
    shard_.region_added(region);
}

void ShardRegions::lease(Region &grant) {
    if (grant.lease_ms && !shard_.closing())
        shard_.loop.arm(grant.lease, shard_.now() + grant.lease_ms * kNsPerMs);
    else
        shard_.loop.disarm(grant.lease);
}

// A peer may have got the ref, by the user's own means, before the region's message came to this
// loop. The engine knows it already, and it stays until its end has come here as a message,
// too.
Region *ShardRegions::find(RegionId id) {
    Region *region = table_.find(id.value);
    return region ? region : shard_.engine.regions().find_entered(id);
}

Region *ShardRegions::find(std::string_view name) {
    Region *region = table_.find(name);
    if (!region) region = shard_.engine.regions().find_entered(name);
    return region && region->access ? region : nullptr;
}

void ShardRegions::remove(Region &region) {
    Ref<Region> hold(region);
    if (shard_.index == 0) shard_.loop.disarm(region.lease);
    table_.remove(region);
    shard_.region_ended(region);
    if (region.goings[shard_.index].lanes == 0) quiet(region);
}

void ShardRegions::wait_quiet(Region &region, uint32_t lanes) {
    RegionChange &going = region.goings[shard_.index];
    if (going.lanes == 0) {
        region.retain();
        retiring_.push_back(going);
    }
    going.lanes += lanes;
}

void ShardRegions::on_quiesced(RegionId id) {
    for (RegionChange &going : retiring_) {
        Region &region = *going.region;
        if (region.id != id.value || --going.lanes) continue;
        going.ListNode<InRetiring>::unlink();
        quiet(region);
        return region.release();  // may destroy both
    }
}

void ShardRegions::quiet(Region &region) {
    if (region.users.fetch_sub(1) != 1) return;
    Ref<Region> parent = region.parent;
    region.retain();  // the event's
    shard_.outbox.post(region);
    if (!parent) return;
    // Another loop may tell the end of the whole, which must not overtake this.
    shard_.outbox.hand_over();
    quiet(*parent);
}

void ShardRegions::stop_leases() {
    table_.each([this](Region &region) { shard_.loop.disarm(region.lease); });
}

}  // namespace xfer
