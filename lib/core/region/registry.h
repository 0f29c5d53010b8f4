// SPDX-License-Identifier: Apache-2.0
// The regions and grants of an engine, by number and by name: how they come to its loops, and how
// they end. Thread: any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/region/lent_ranges.h"
#include "core/region/region.h"
#include "util/status.h"

namespace xfer {

class EngineCore;

class RegionRegistry {
public:
    explicit RegionRegistry(EngineCore &engine) : engine_(engine) {}

    // Of memory that is the user's, or the region's own.
    Result<Region *> open(const xfer_region_options_t &options, uint8_t *address, uint64_t length,
                          const Memory &memory = {}, std::unique_ptr<SharedMemory> own = nullptr);
    Status end(Region &region);

    RegionId take_number() { return {last_.fetch_add(1) + 1}; }

    // A part of `parent`, with an end of its own.
    Status grant(Region &parent, const xfer_grant_options_t &options, RemoteRegion &ref);
    Status renew(Region &parent, const RemoteRegion &ref, uint32_t lease_ms);
    Status revoke(Region &parent, const RemoteRegion &ref);
    void end_lease(Region &grant);

    // Regions and grants that loops are told of, and of whose end not.
    Region *find_entered(RegionId id);
    Region *find_entered(std::string_view name);
    template <typename Visit>
    void each(Visit visit) const {
        std::lock_guard lock(mutex_);
        for (const auto &[id, region] : regions_)
            visit(*region);
    }
    void end_all(ShardCore &last);  // on the last loop, when it ends

    // Of memory of the application's: the open region in which it lies. Needs no lock.
    std::optional<LentRange> find_lent(uint64_t address, uint64_t length) const {
        return lent_.find(address, length);
    }

private:
    class Renewal;
    using Regions = std::map<uint64_t, Ref<Region>>;

    Regions prepare(Region &region);
    static bool is_lent(const Region &region);
    static LentRange lent_by(const Region &region);
    // These need the lock.
    void enter(Regions &prepared);
    bool post(RegionChange &change, Region &region, ShardCore &shard);  // false: it has ended
    void leave(Region &region, Status why);
    void unused(Region &region);
    Region *find_grant(const Region &parent, const RemoteRegion &ref);

    EngineCore &engine_;
    std::atomic<uint64_t> last_{0};
    mutable std::mutex mutex_;  // names are unique in the engine; not on the way of data
    Regions regions_;
    std::map<std::string, uint64_t, std::less<>> names_;
    LentRanges lent_;
    EventList unreported_;  // regions that ended after the last loop could tell
};

}  // namespace xfer
