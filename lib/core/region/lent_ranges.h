// SPDX-License-Identifier: Apache-2.0
// Where the open regions are, and whose memory each is, so that a local pointer into one needs no
// question to a driver: that was asked when the region came. A sequence lock: who reads while
// it is written to finds nothing. (tests/unit/lent_ranges_test.cc goes through all interleavings.)
// Thread: any reads, one at a time writes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace xfer {

struct LentRange {
    uint64_t base = 0, length = 0;
    uint64_t device = 0;      // its number, counted from 1; 0: the host's
    uint64_t allocation = 0;  // of a device's: its id
    bool operator==(const LentRange &) const = default;
};

template <template <typename> class Atomic, size_t kRoom>
class RangeTable {
public:
    // Where there is no room, nothing is held of it.
    void add(const LentRange &range) {
        size_t at = count_.load();
        if (at == kRoom) return;
        const uint64_t version = begin_change();
        const size_t count = at + 1;
        for (; at > 0 && ranges_[at - 1].base.load() > range.base; --at)
            set(ranges_[at], get(ranges_[at - 1]));
        set(ranges_[at], range);
        end_change(version, count);
    }

    void remove(const LentRange &range) {
        const size_t count = count_.load();
        size_t at = 0;
        while (at < count && get(ranges_[at]) != range)
            ++at;
        if (at == count) return;
        const uint64_t version = begin_change();
        for (; at + 1 < count; ++at)
            set(ranges_[at], get(ranges_[at + 1]));
        end_change(version, count - 1);
    }

    // The range that begins last before it: of ranges in each other, the outer is not looked at.
    std::optional<LentRange> find(uint64_t address, uint64_t length) const {
        const uint64_t version = version_.load(std::memory_order_acquire);
        size_t behind = 0;
        for (size_t left = count_.load(std::memory_order_acquire); left > 0;) {
            const size_t half = left / 2;
            const bool begins_before =
                ranges_[behind + half].base.load(std::memory_order_acquire) <= address;
            behind += begins_before ? half + 1 : 0;
            left = begins_before ? left - half - 1 : half;
        }
        if (behind == 0) return {};
        const LentRange found = get(ranges_[behind - 1]);
        const uint64_t offset = address - found.base;
        if (offset > found.length || length > found.length - offset) return {};
        if (version % 2 || version_.load(std::memory_order_relaxed) != version) return {};
        return found;
    }

private:
    struct Range {
        Atomic<uint64_t> base{}, length{}, device{}, allocation{};
    };

    // The version is odd until the end. Who has seen a later store sees that, since each of them is
    // a release, and each load before the second look at the version an acquire.
    uint64_t begin_change() {
        const uint64_t version = version_.load();
        version_.store(version + 1, std::memory_order_relaxed);
        return version;
    }
    static void set(Range &range, const LentRange &to) {
        range.base.store(to.base, std::memory_order_release);
        range.length.store(to.length, std::memory_order_release);
        range.device.store(to.device, std::memory_order_release);
        range.allocation.store(to.allocation, std::memory_order_release);
    }
    static LentRange get(const Range &range) {
        return {range.base.load(std::memory_order_acquire),
                range.length.load(std::memory_order_acquire),
                range.device.load(std::memory_order_acquire),
                range.allocation.load(std::memory_order_acquire)};
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
