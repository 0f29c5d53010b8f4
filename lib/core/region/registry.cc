// SPDX-License-Identifier: Apache-2.0
#include "core/region/registry.h"

#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/region/shard_regions.h"

namespace xfer {

Result<Region *> RegionRegistry::open(const xfer_region_options_t &options, uint8_t *address,
                                      uint64_t length, const Memory &memory,
                                      std::unique_ptr<SharedMemory> own) {
    auto region = Ref<Region>::adopt(
        new Region(engine_, take_number().value, engine_.random_u64(), address, length));
    region->memory = memory;
    region->own = std::move(own);
    region->access = options.access;
    region->event.user = options.user;
    if (options.name) region->name = options.name;
    const auto *blob = static_cast<const uint8_t *>(options.blob);
    if (options.blob_length) region->blob.assign(blob, blob + options.blob_length);
    Regions prepared = prepare(*region);
    std::map<std::string, uint64_t, std::less<>> name;
    if (!region->name.empty()) name.emplace(region->name, region->id);
    std::lock_guard lock(mutex_);
    if (engine_.refuses()) return Failure{XFER_ECLOSED, 0, 0, "the engine is closed or draining"};
    if (regions_.size() >= kMaxRegions) return Failure{XFER_ETOOBIG, 0, 0, "too many regions"};
    names_.merge(name);
    if (!name.empty())
        return Failure{XFER_EEXIST, 0, 0, "a region is called \"" + region->name + "\" already"};
    enter(prepared);
    region->retain();  // the handle's
    return region.get();
}

// All that its coming and going take, so that neither fails half-way.
RegionRegistry::Regions RegionRegistry::prepare(Region &region) {
    region.comings = std::make_unique<RegionChange[]>(engine_.shard_count());
    region.goings = std::make_unique<RegionChange[]>(engine_.shard_count());
    for (size_t i = 0; i < engine_.shard_count(); ++i)
        region.comings[i].places = RegionTable::Places(region);
    Regions prepared;
    prepared.emplace(region.id, Ref(region));
    return prepared;
}

// Of mapped memory, which may be of several devices, the driver is asked for each local pointer,
// and of memory that migrates, which is to be known as such.
bool RegionRegistry::is_lent(const Region &region) {
    if (region.is_grant() || region.memory.migrates()) return false;
    return region.memory.kind == XFER_MEM_HOST || region.memory.one_id();
}

LentRange RegionRegistry::lent_by(const Region &region) {
    LentRange range{reinterpret_cast<uint64_t>(region.base), region.length};
    if (region.memory.kind == XFER_MEM_HOST) return range;
    range.device = static_cast<uint64_t>(region.memory.device) + 1;
    range.allocation = region.memory.id;
    return range;
}

void RegionRegistry::enter(Regions &prepared) {
    Region &region = *prepared.begin()->second;
    region.users = static_cast<uint32_t>(engine_.shard_count());
    regions_.merge(prepared);
    if (is_lent(region)) lent_.add(lent_by(region));
    for (size_t i = 0; i < engine_.shard_count(); ++i) {
        RegionChange &change = region.comings[i];
        change.comes = true;
        post(change, region, engine_.shard(i));
    }
}

bool RegionRegistry::post(RegionChange &change, Region &region, ShardCore &shard) {
    change.region = &region;
    region.retain();
    if (shard.enqueue(change)) return true;
    region.release();
    return false;
}

Region *RegionRegistry::find_entered(RegionId id) {
    std::lock_guard lock(mutex_);
    const auto at = regions_.find(id.value);
    return at == regions_.end() ? nullptr : at->second.get();
}

Region *RegionRegistry::find_entered(std::string_view name) {
    std::lock_guard lock(mutex_);
    const auto at = names_.find(name);
    return at == names_.end() ? nullptr : regions_.at(at->second).get();
}

Status RegionRegistry::end(Region &region) {
    std::lock_guard lock(mutex_);
    if (region.ended.load()) return XFER_ECLOSED;
    for (Region &grant : region.grants)
        leave(grant, XFER_ECLOSED);
    leave(region, XFER_OK);
    return XFER_OK;
}

void RegionRegistry::leave(Region &region, Status why) {
    region.ended.store(true);
    region.event.kind = region.is_grant() ? XFER_EVENT_REVOKED : XFER_EVENT_CLOSED;
    region.event.object = region.is_grant() ? region.parent.get() : &region;
    region.event.status = why;
    region.ListNode<InGrants>::unlink();
    if (!region.name.empty()) names_.erase(region.name);
    if (is_lent(region)) lent_.remove(lent_by(region));
    region.retain();  // for as long as this takes
    regions_.erase(region.id);
    for (size_t i = 0; i < engine_.shard_count(); ++i)
        if (!post(region.goings[i], region, engine_.shard(i))) unused(region);
    region.release();
}

// Its last user was a loop that has ended, and so has every other one: the engine's end tells it.
void RegionRegistry::unused(Region &region) {
    if (region.users.fetch_sub(1) != 1) return;
    region.retain();  // the event's
    unreported_.push_back(region);
}

// No connection is left, so nothing touches the memory of those that are still open. Grants go
// first: a region's own event is its last.
void RegionRegistry::end_all(ShardCore &last) {
    std::lock_guard lock(mutex_);
    while (EventNode *ended = unreported_.pop_front()) {
        last.outbox.post(*ended);
        if (Region &region = static_cast<Region &>(*ended); region.is_grant())
            unused(*region.parent);
    }
    for (const bool grants : {true, false})
        for (auto &[id, region] : regions_) {
            if (region->is_grant() != grants) continue;
            region->ended.store(true);
            region->ListNode<InGrants>::unlink();
            region->event.kind = grants ? XFER_EVENT_REVOKED : XFER_EVENT_CLOSED;
            region->event.object = grants ? region->parent.get() : region.get();
            region->event.status = grants ? XFER_ECLOSED : XFER_OK;
            region->retain();
            last.outbox.post(*region);
        }
    regions_.clear();
    names_.clear();
}

// ---- grants

// A lease that counts from now on, on its way to the loop that keeps the time.
class RegionRegistry::Renewal final : public Message {
public:
    Renewal(Region &grant, uint32_t lease_ms) : grant_(grant), lease_ms_(lease_ms) {}
    void arrive(ShardCore &shard) override {
        grant_->lease_ms = lease_ms_;
        grant_->renewals.fetch_sub(1);
        if (!grant_->ended.load()) shard.regions.lease(*grant_);
        delete this;
    }

private:
    Ref<Region> grant_;
    const uint32_t lease_ms_;
};

Status RegionRegistry::grant(Region &parent, const xfer_grant_options_t &options,
                             RemoteRegion &ref) {
    const uint64_t id = kGrantBit | take_number().value;
    auto grant = Ref<Region>::adopt(new Region(engine_, id, engine_.random_u64(),
                                               parent.base + options.offset, options.length));
    grant->access = options.access;
    grant->memory = parent.memory;
    grant->lease_ms = options.lease_ms == XFER_NONE ? 0 : options.lease_ms;
    grant->parent = Ref(parent);
    grant->event.user = options.user;
    grant->event.tag = parent.event.user;
    ref = grant->describe();
    Regions prepared = prepare(*grant);
    std::lock_guard lock(mutex_);
    if (engine_.refuses() || parent.ended.load()) return XFER_ECLOSED;
    if (regions_.size() >= kMaxRegions) return XFER_ETOOBIG;
    parent.users.fetch_add(1);
    parent.grants.push_back(*grant);
    enter(prepared);
    return XFER_OK;
}

Region *RegionRegistry::find_grant(const Region &parent, const RemoteRegion &ref) {
    const auto at = regions_.find(ref.region);
    if (at == regions_.end()) return nullptr;
    Region &grant = *at->second;
    if (grant.ended.load()) return nullptr;  // it is only there to be told with the engine's end
    return grant.parent.get() == &parent && grant.key == ref.key ? &grant : nullptr;
}

Status RegionRegistry::renew(Region &parent, const RemoteRegion &ref, uint32_t lease_ms) {
    std::lock_guard lock(mutex_);
    Region *grant = find_grant(parent, ref);
    if (!grant) return XFER_EREVOKED;
    auto *renewal = new Renewal(*grant, lease_ms == XFER_NONE ? 0 : lease_ms);
    grant->renewals.fetch_add(1);
    if (engine_.first_shard().enqueue(*renewal)) return XFER_OK;
    grant->renewals.fetch_sub(1);
    delete renewal;
    return XFER_EREVOKED;
}

// One that was renewed in time goes on, also while the word of it is on its way to the loop.
void RegionRegistry::end_lease(Region &grant) {
    std::lock_guard lock(mutex_);
    if (!grant.ended.load() && grant.renewals.load() == 0) leave(grant, XFER_ETIMEDOUT);
}

Status RegionRegistry::revoke(Region &parent, const RemoteRegion &ref) {
    std::lock_guard lock(mutex_);
    Region *grant = find_grant(parent, ref);
    if (!grant) return XFER_EREVOKED;
    leave(*grant, XFER_OK);
    return XFER_OK;
}

}  // namespace xfer
