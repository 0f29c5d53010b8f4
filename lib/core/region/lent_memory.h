// SPDX-License-Identifier: Apache-2.0
// Memory that is no region, and that peers' adapters may read for a time: of a message that its
// receiver pulls. To the fabrics it is a region like any other, with a number of its own.
// ShardRegions lends it. Thread: the loop's.
#pragma once

#include <cstdint>

#include "util/list.h"
#include "wire/ids.h"

namespace xfer {

struct InLeavingAdapters;  // a list tag

class LentMemory : public ListNode<InLeavingAdapters> {
public:
    RegionId memory;        // as the fabrics know it; 0: it is not lent
    uint32_t adapters = 0;  // that have not let go of it yet
    bool is_lent() const { return bool(memory); }
    bool is_leaving() const { return adapters != 0; }
    virtual void on_left() = 0;  // what ShardRegions::take_back() had to wait for

protected:
    ~LentMemory() = default;
};

}  // namespace xfer
