// SPDX-License-Identifier: Apache-2.0
#include "util/offset_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace xfer {

namespace {

constexpr uint64_t kNoGap = UINT64_MAX;  // where none can begin, as it ends by UINT64_MAX

// From the offset to the next that is aligned.
uint64_t padding_at(uint64_t offset, uint64_t alignment) {
    return (0 - offset) & (alignment - 1);
}

bool fits(uint64_t offset, uint64_t length, uint64_t size, uint64_t alignment) {
    const uint64_t padding = padding_at(offset, alignment);
    return padding <= length && size <= length - padding;
}

}  // namespace

OffsetAllocator::OffsetAllocator(uint64_t capacity) : capacity_(capacity) {
    ranges_.emplace(0, Range{capacity, {}});
    gaps_.emplace(capacity, 0);
}

OffsetAllocator::Gaps::node_type OffsetAllocator::make_node() {
    Gaps one;
    one.emplace();
    return one.extract(one.begin());
}

void OffsetAllocator::add_gap(Gaps::node_type &&node, uint64_t offset, uint64_t length) {
    node.value() = {length, offset};
    gaps_.insert(std::move(node));
}

// The smallest gap that has the size has it aligned, or else the smallest that has it whatever its
// offset; only if there is none, those between are tried.
uint64_t OffsetAllocator::find_gap(uint64_t size, uint64_t alignment) const {
    const auto smallest = gaps_.lower_bound({size, 0});
    if (smallest == gaps_.end()) return kNoGap;
    if (fits(smallest->second, smallest->first, size, alignment)) return smallest->second;
    const uint64_t most = size > UINT64_MAX - (alignment - 1) ? UINT64_MAX : size + alignment - 1;
    auto found = gaps_.lower_bound({most, 0});
    if (found == gaps_.end())
        found = std::find_if(smallest, gaps_.end(), [&](const auto &gap) {
            return fits(gap.second, gap.first, size, alignment);
        });
    return found == gaps_.end() ? kNoGap : found->second;
}

Result<uint64_t> OffsetAllocator::allocate(uint64_t size, uint64_t alignment) {
    if (!size || !std::has_single_bit(alignment))
        return Failure{XFER_EINVAL, XFER_ORIGIN_NONE, 0, "no size, or no power of two to align to"};
    const uint64_t offset = find_gap(size, alignment);
    if (offset == kNoGap) return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "no gap is as large"};
    Range &gap = ranges_.find(offset)->second;
    const uint64_t length = gap.length, padding = padding_at(offset, alignment);
    const uint64_t start = offset + padding, rest = length - padding - size;
    // All that needs memory comes before anything is changed.
    Ranges made;
    if (padding) made.emplace(start, Range{size, make_node()});
    if (rest) made.emplace(start + size, Range{rest, make_node()});

    Gaps::node_type node = gaps_.extract({length, offset});
    if (padding) {
        gap.length = padding;
        add_gap(std::move(node), offset, padding);
    } else {
        gap.length = size;
        gap.node = std::move(node);
    }
    if (rest) add_gap(std::move(made.find(start + size)->second.node), start + size, rest);
    ranges_.merge(made);
    in_use_ += size;
    high_water_ = std::max(high_water_, start + size);
    return start;
}

Status OffsetAllocator::free(uint64_t offset) {
    const auto range = ranges_.find(offset);
    if (range == ranges_.end() || !range->second.node) return XFER_ENOTFOUND;
    in_use_ -= range->second.length;
    Gaps::node_type node = std::move(range->second.node);
    // A gap behind it becomes part of it, and it becomes part of a gap before it.
    const auto next = std::next(range);
    if (next != ranges_.end() && !next->second.node) {
        gaps_.erase({next->second.length, next->first});
        range->second.length += next->second.length;
        ranges_.erase(next);
    }
    auto gap = range;
    if (range != ranges_.begin() && !std::prev(range)->second.node) {
        gap = std::prev(range);
        gaps_.erase({gap->second.length, gap->first});
        gap->second.length += range->second.length;
        ranges_.erase(range);
    }
    add_gap(std::move(node), gap->first, gap->second.length);
    return XFER_OK;
}

}  // namespace xfer
