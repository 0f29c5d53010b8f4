// SPDX-License-Identifier: Apache-2.0
// Ranges of a space that lies elsewhere, as registered memory or that of a device: nothing in it is
// read or written. Thread: one at a time; who shares it locks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "util/status.h"

namespace xfer {

class OffsetAllocator {
public:
    // Of offsets from 0 to `capacity`. May throw, as allocate().
    explicit OffsetAllocator(uint64_t capacity);

    // The offset of `size` bytes, divisible by `alignment`: at the beginning of the smallest gap
    // that has them, where one does; what lies before them stays free. XFER_EINVAL: no size, or an
    // alignment that is no power of two. XFER_ENOMEM: no gap has them. Throws std::bad_alloc with
    // nothing changed. As fast as the logarithm of the number of ranges, unless only gaps that are
    // hardly larger than `size` are left.
    Result<uint64_t> allocate(uint64_t size, uint64_t alignment = 1);

    // Gives back what allocate() gave out; it is one gap with those beside it. XFER_ENOTFOUND:
    // nothing in use begins there, as it was freed before or was never given out. Needs no memory.
    Status free(uint64_t offset);

    uint64_t capacity() const { return capacity_; }
    uint64_t in_use() const { return in_use_; }          // bytes
    uint64_t high_water() const { return high_water_; }  // the end of the highest range ever in use

private:
    // Gaps by length. The node of a range that is in use waits in the range, so that freeing it
    // needs no memory.
    using Gaps = std::set<std::pair<uint64_t, uint64_t>>;  // length, offset
    struct Range {
        uint64_t length;
        Gaps::node_type node;  // empty: it is a gap, and in gaps_
    };
    using Ranges = std::map<uint64_t, Range>;  // by offset; without holes

    static Gaps::node_type make_node();
    uint64_t find_gap(uint64_t size, uint64_t alignment) const;
    void add_gap(Gaps::node_type &&node, uint64_t offset, uint64_t length);

    const uint64_t capacity_;
    uint64_t in_use_ = 0, high_water_ = 0;
    Ranges ranges_;
    Gaps gaps_;
};

}  // namespace xfer
