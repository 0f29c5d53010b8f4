// SPDX-License-Identifier: Apache-2.0
// The regions of an engine as one loop knows them: looked up for a peer's request, lent for a time,
// and taken from every connection when they end, and from the loop's adapters after that.
#pragma once

#include <string_view>

#include "core/region/lent_memory.h"
#include "core/region/region.h"
#include "transport/attached_path.h"

namespace xfer {

class ShardRegions final : public FabricSink {
public:
    explicit ShardRegions(ShardCore &shard) : shard_(shard) {}

    void add(Region &region, RegionTable::Places &places);
    void remove(Region &region);
    Region *find(RegionId id);
    Region *find(std::string_view name);  // not of grants, nor of what nobody may access
    void lease(Region &grant);            // its time counts from now
    void wait_quiet(Region &region, uint32_t lanes);  // on_quiesced follows, once for each of them
    void on_quiesced(RegionId id);
    bool lend(LentMemory &lent, const ExportedMemory &memory);  // false: memory lacks
    // No peer has an export of it any more. True: no key of it works; else on_left() follows.
    bool take_back(LentMemory &lent);
    void on_released(RegionId id) override;
    // At the shard's end, with no connection left: true once no adapter touches any, open or not;
    // else the shard is deferred when that may have changed.
    bool leave_adapters();
    void stop_leases();
    void clear() { table_.clear(); }

private:
    void lend(Region &region);
    void let_go(Region &region);
    bool leave_adapters(Region &region);
    void quiet(Region &region);

    ShardCore &shard_;
    RegionTable table_;
    List<RegionChange, InRetiring> retiring_;   // gone, but some of them is on its way out
    List<RegionChange, InRetiring> releasing_;  // that came, and adapters are letting go of
    List<LentMemory, InLeavingAdapters> leaving_;
    bool left_adapters_ = false;
};

}  // namespace xfer
