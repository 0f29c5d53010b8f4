// SPDX-License-Identifier: Apache-2.0
// Where the open regions are, so that a local pointer into one needs no question to a driver: what
// it is was asked when the region came, and the region keeps it. A sequence lock: who reads while
// it is written to finds nothing. (tests/unit/lent_ranges_test.cc goes through all interleavings.)
// Thread: any reads, one at a time writes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xfer {

template <template <typename> class Atomic, size_t kRoom>
class RangeTable {
public:
    // Where there is no room, nothing is held of it.
    void add(uint64_t base, uint64_t length) {
        size_t at = count_.load();
        if (at == kRoom) return;
        const uint64_t version = begin_change();
        const size_t count = at + 1;
        for (; at > 0 && ranges_[at - 1].base.load() > base; --at)
            set(ranges_[at], ranges_[at - 1].base.load(), ranges_[at - 1].length.load());
        set(ranges_[at], base, length);
        end_change(version, count);
    }

    void remove(uint64_t base, uint64_t length) {
        const size_t count = count_.load();
        size_t at = 0;
        while (at < count &&
               (ranges_[at].base.load() != base || ranges_[at].length.load() != length))
            ++at;
        if (at == count) return;
        const uint64_t version = begin_change();
        for (; at + 1 < count; ++at)
            set(ranges_[at], ranges_[at + 1].base.load(), ranges_[at + 1].length.load());
        end_change(version, count - 1);
    }

    // In the range that begins last before it: of ranges in each other, the outer is not looked at.
    bool holds(uint64_t address, uint64_t length) const {
        const uint64_t version = version_.load(std::memory_order_acquire);
        size_t behind = 0;
        for (size_t left = count_.load(std::memory_order_acquire); left > 0;) {
            const size_t half = left / 2;
            const bool begins_before =
                ranges_[behind + half].base.load(std::memory_order_acquire) <= address;
            behind += begins_before ? half + 1 : 0;
            left = begins_before ? left - half - 1 : half;
        }
        if (behind == 0) return false;
        const Range &range = ranges_[behind - 1];
        const uint64_t offset = address - range.base.load(std::memory_order_acquire);
        const uint64_t all = range.length.load(std::memory_order_acquire);
        if (offset > all || length > all - offset) return false;
        return version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
    }

private:
    struct Range {
        Atomic<uint64_t> base{}, length{};
    };

    // The version is odd until the end. Who has seen a later store sees that, since each of them is
    // a release, and each load before the second look at the version an acquire.
    uint64_t begin_change() {
        const uint64_t version = version_.load();
        version_.store(version + 1, std::memory_order_relaxed);
        return version;
    }
    void set(Range &range, uint64_t base, uint64_t length) {
        range.base.store(base, std::memory_order_release);
        range.length.store(length, std::memory_order_release);
    }
    void end_change(uint64_t version, size_t count) {
        count_.store(count, std::memory_order_release);
        version_.store(version + 2, std::memory_order_release);
    }

    Atomic<uint64_t> version_{};
    Atomic<size_t> count_{};
    std::array<Range, kRoom> ranges_{};
};

using LentRanges = RangeTable<std::atomic, 256>;

}  // namespace xfer
