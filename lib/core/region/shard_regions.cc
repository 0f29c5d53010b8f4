// SPDX-License-Identifier: Apache-2.0
#include "core/region/shard_regions.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/region/registry.h"
#include "util/memory.h"

namespace xfer {

void ShardRegions::add(Region &region, RegionTable::Places &places) {
    table_.add(region, places);
    if (shard_.index == 0 && region.lease_ms) lease(region);
    lend(region);
    shard_.region_added(region);
}

// An adapter that lacks memory to know of it does without: what concerns it goes by requests. Of a
// grant it hears when a peer asks for its key, and never of memory that migrates.
void ShardRegions::lend(Region &region) {
    RegionChange &coming = region.comings[shard_.index];
    coming.lent = region.is_grant();
    const bool stays = region.memory.kind == XFER_MEM_HOST && !region.memory.migrates();
    if (coming.lent || !stays || shard_.closing()) return;
    coming.lent = true;
    for (const auto &fabric : shard_.fabrics)
        [[maybe_unused]] const bool told =
            catch_bad_alloc([&] { fabric->add_region({region.id}, region.exported()); });
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
    if (region.goings[shard_.index].lanes == 0) let_go(region);
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
        let_go(region);
        return region.release();  // may destroy both
    }
}

// No peer has an export of it any more: honest ones never meet a key that does not work. After this
// there is none that works, whoever has it.
void ShardRegions::let_go(Region &region) {
    if (leave_adapters(region)) return quiet(region);
    region.goings[shard_.index].waits = true;
}

// False: on_released follows.
bool ShardRegions::leave_adapters(Region &region) {
    RegionChange &coming = region.comings[shard_.index];
    if (!std::exchange(coming.lent, false)) return coming.adapters == 0;
    for (const auto &fabric : shard_.fabrics)
        if (!fabric->remove_region({region.id})) ++coming.adapters;
    if (coming.adapters == 0) return true;
    region.retain();
    releasing_.push_back(coming);
    return false;
}

void ShardRegions::on_released(RegionId id) {
    for (LentMemory &lent : leaving_) {
        if (lent.memory != id || --lent.adapters) continue;
        lent.ListNode<InLeavingAdapters>::unlink();
        lent.memory = {};
        return lent.on_left();
    }
    for (RegionChange &coming : releasing_) {
        Region &region = *coming.region;
        if (region.id != id.value || --coming.adapters) continue;
        coming.ListNode<InRetiring>::unlink();
        if (region.goings[shard_.index].waits) quiet(region);
        shard_.loop.defer(shard_);
        return region.release();  // may destroy both
    }
}

// Each of the adapters is told, or none: what is to be exported is known to all of them.
bool ShardRegions::lend(LentMemory &lent, const ExportedMemory &memory) {
    const RegionId number = shard_.engine.regions().take_number();
    size_t told = 0;
    const auto tell_all = [&] {
        for (; told < shard_.fabrics.size(); ++told)
            shard_.fabrics[told]->add_region(number, memory);
    };
    if (catch_bad_alloc(tell_all)) return lent.memory = number, true;
    while (told > 0)
        shard_.fabrics[--told]->remove_region(number);
    return false;
}

bool ShardRegions::take_back(LentMemory &lent) {
    for (const auto &fabric : shard_.fabrics)
        if (!fabric->remove_region(lent.memory)) ++lent.adapters;
    if (!lent.is_leaving()) return lent.memory = {}, true;
    leaving_.push_back(lent);
    return false;
}

bool ShardRegions::leave_adapters() {
    if (!std::exchange(left_adapters_, true))
        table_.each([this](Region &region) { leave_adapters(region); });
    return releasing_.empty();
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
