// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/export_table.h"

#include "transport/shm/hazard.h"

namespace xfer::shm {

ExportTable::ExportTable(End &mine, End &theirs) : mine_(mine), theirs_(theirs) {}

std::optional<ExportTable::Place> ExportTable::show(RegionId region) {
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

void ExportTable::clear(Region &shown) {
    if (shown.cleared) return;
    shown.cleared = true;
    shown.claimed = shm::retire(mine_.slots[shown.place.slot], theirs_.hazard, shown.place.stamp);
    free_.push_back(shown.place.slot);
}

void ExportTable::clear_all() {
    for (auto &[region, shown] : regions_)
        clear(shown);
}

bool ExportTable::retire(RegionId region, bool leaving) {
    const auto at = regions_.find(region);
    Region &shown = at->second;
    clear(shown);
    shown.retired = true;
    shown.leaving = leaving;
    if (leaving || shown.claimed) return false;
    regions_.erase(at);
    return true;
}

}  // namespace xfer::shm
