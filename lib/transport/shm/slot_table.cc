// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/slot_table.h"

#include "transport/shm/hazard.h"

namespace xfer::shm {

SlotTable::SlotTable(End &mine, End &theirs) : mine_(mine), theirs_(theirs) {}

std::optional<SlotTable::Place> SlotTable::give(RegionId region) {
    if (const auto at = regions_.find(region); at != regions_.end()) {
        if (at->second.cleared) return std::nullopt;
        return at->second.place;
    }
    if (free_.empty() && fresh_ == kSlots) return std::nullopt;
    free_.reserve(fresh_ + 1);  // giving it back can't fail
    const uint32_t slot = free_.empty() ? fresh_ : free_.back();
    const Place place{slot, last_stamp_ + 1};
    regions_.try_emplace(region, Region{place, false});
    if (free_.empty())
        ++fresh_;
    else
        free_.pop_back();
    mine_.slots[slot].store(++last_stamp_);
    return place;
}

void SlotTable::clear(Region &exported) {
    if (exported.cleared) return;
    exported.cleared = true;
    exported.claimed =
        shm::retire(mine_.slots[exported.place.slot], theirs_.hazard, exported.place.stamp);
    free_.push_back(exported.place.slot);
}

void SlotTable::clear_all() {
    for (auto &[region, exported] : regions_)
        clear(exported);
}

bool SlotTable::retire(RegionId region) {
    const auto at = regions_.find(region);
    Region &exported = at->second;
    clear(exported);
    exported.retired = true;
    if (exported.claimed) return false;
    regions_.erase(at);
    return true;
}

}  // namespace xfer::shm
