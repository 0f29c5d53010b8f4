// SPDX-License-Identifier: Apache-2.0
// The slots of the regions that one end has exported to its neighbour, and how they are taken back.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "transport/shm/region_key.h"
#include "transport/shm/segment.h"

namespace xfer::shm {

class SlotTable {
public:
    struct Place {
        uint32_t slot;
        uint64_t stamp;
    };
    // `mine`: who has the table; `theirs`: who claims.
    SlotTable(End &mine, End &theirs);

    // The same again while the region lives. None: the table is full, or the region ends.
    std::optional<Place> give(RegionId region);
    bool has(RegionId region) const { return regions_.contains(region); }
    // The region ends. True: nobody reaches it any more, and it is forgotten; else settle() tells
    // when.
    bool retire(RegionId region);
    void clear_all();
    bool claimed() const { return theirs_.hazard.load() != 0; }
    // Visits, and forgets, those that were retired and are quiet now; all of them if the neighbour
    // is dead. True: there are more.
    template <typename Visit>
    bool settle(bool dead, Visit visit) {
        const uint64_t hazard = dead ? 0 : theirs_.hazard.load();
        bool more = false;
        for (auto at = regions_.begin(); at != regions_.end();) {
            const auto here = at++;
            const Region &exported = here->second;
            if (!exported.retired) continue;
            if (!dead && hazard == exported.place.stamp) {
                more = true;
                continue;
            }
            const RegionId region = here->first;
            regions_.erase(here);
            visit(region);
        }
        return more;
    }

    // Visits the notifications whose puts the neighbour may have copied. Once nobody claims.
    template <typename Visit>
    void begun_notifications(Visit visit) const {
        for (const Noted &noted : theirs_.noted)
            if (const uint64_t number = noted.number.load())
                visit(NotificationId{number}, noted.key.load());
    }

    std::set<MappingId> mappings;  // of which it has a descriptor

private:
    struct Region {
        Place place;
        bool cleared = false, claimed = false, retired = false;
    };
    void clear(Region &exported);
    End &mine_, &theirs_;
    std::map<RegionId, Region> regions_;
    std::vector<uint32_t> free_;
    uint32_t fresh_ = 0;  // slots from here on were never used
    uint64_t last_stamp_ = 0;
};

}  // namespace xfer::shm
