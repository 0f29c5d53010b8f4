// SPDX-License-Identifier: Apache-2.0
// Grants: parts of a region that are lent one by one, and taken back one by one.
#include "core/base/limits.h"
#include "core/engine/engine.h"

namespace xfer {

// A lease that counts from now on, on its way to the loop that keeps the time.
class Engine::Renewal final : public Message {
public:
    Renewal(Region &grant, uint32_t lease_ms) : grant_(grant), lease_ms_(lease_ms) {}
    void arrive(Shard &shard) override {
        grant_->lease_ms = lease_ms_;
        grant_->renewals.fetch_sub(1);
        if (!grant_->ended.load()) shard.regions.lease(*grant_);
        delete this;
    }

private:
    Ref<Region> grant_;
    const uint32_t lease_ms_;
};

Status Engine::grant(Region &parent, const xfer_grant_options_t &options, RemoteRegion &ref) {
    const uint64_t id = kGrantBit | (last_region_.fetch_add(1) + 1);
    auto grant = Ref<Region>::adopt(
        new Region(*this, id, random_u64(), parent.base + options.offset, options.length));
    grant->access = options.access;
    grant->kind = parent.kind;
    grant->lease_ms = options.lease_ms == XFER_NONE ? 0 : options.lease_ms;
    grant->parent = Ref(parent);
    grant->event.user = options.user;
    grant->event.tag = parent.event.user;
    ref = grant->describe();
    Regions prepared = prepare(*grant);
    std::lock_guard lock(registry_mutex_);
    if (closing_.load() || parent.ended.load()) return XFER_ECLOSED;
    if (regions_.size() >= kMaxRegions) return XFER_ETOOBIG;
    parent.users.fetch_add(1);
    parent.grants.push_back(*grant);
    enter(prepared);
    return XFER_OK;
}

Region *Engine::find_grant(const Region &parent, const RemoteRegion &ref) {
    const auto at = regions_.find(ref.region);
    if (at == regions_.end()) return nullptr;
    Region &grant = *at->second;
    if (grant.ended.load()) return nullptr;  // it is only there to be told with the engine's end
    return grant.parent.get() == &parent && grant.key == ref.key ? &grant : nullptr;
}

Status Engine::renew(Region &parent, const RemoteRegion &ref, uint32_t lease_ms) {
    std::lock_guard lock(registry_mutex_);
    Region *grant = find_grant(parent, ref);
    if (!grant) return XFER_EREVOKED;
    auto *renewal = new Renewal(*grant, lease_ms == XFER_NONE ? 0 : lease_ms);
    grant->renewals.fetch_add(1);
    if (first_shard().enqueue(*renewal)) return XFER_OK;
    grant->renewals.fetch_sub(1);
    delete renewal;
    return XFER_EREVOKED;
}

// One that was renewed in time goes on, also while the word of it is on its way to the loop.
void Engine::end_lease(Region &grant) {
    std::lock_guard lock(registry_mutex_);
    if (!grant.ended.load() && grant.renewals.load() == 0) leave(grant, XFER_ETIMEDOUT);
}

Status Engine::revoke(Region &parent, const RemoteRegion &ref) {
    std::lock_guard lock(registry_mutex_);
    Region *grant = find_grant(parent, ref);
    if (!grant) return XFER_EREVOKED;
    leave(*grant, XFER_OK);
    return XFER_OK;
}

}  // namespace xfer
