// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses, which may overlap, and what they belong to: those that hold an address are
// found. They are kept by the logarithm of their lengths, so that of each kind only those have to
// be looked at that begin within one length of it. Thread: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

namespace xfer::rdma {

template <typename T>
class RangeIndex {
public:
    // Of at least one byte, and without a wrap. May throw, with nothing changed.
    void add(uint64_t base, uint64_t length, T &item) {
        const size_t kind = kind_of(length);
        ranges_[kind].emplace(base, &item);
        kinds_ |= uint64_t{1} << kind;
    }

    void remove(uint64_t base, uint64_t length, T &item) {
        const size_t kind = kind_of(length);
        ranges_[kind].erase({base, &item});
        if (ranges_[kind].empty()) kinds_ &= ~(uint64_t{1} << kind);
    }

    // Those that may hold the address, the shortest first: all that do are among them. Until
    // `visit` returns false.
    template <typename Visit>
    void find(uint64_t address, Visit visit) const {
        for (uint64_t left = kinds_; left; left &= left - 1) {
            const auto kind = static_cast<size_t>(std::countr_zero(left));
            const auto &ranges = ranges_[kind];
            const uint64_t longest = (uint64_t{2} << kind) - 1;  // for the longest kind all ones
            const uint64_t first = address - std::min(address, longest - 1);
            for (auto at = ranges.lower_bound({first, nullptr});
                 at != ranges.end() && at->first <= address; ++at)
                if (!visit(*at->second)) return;
        }
    }

private:
    static size_t kind_of(uint64_t length) {
        return static_cast<size_t>(std::bit_width(length) - 1);
    }

    std::array<std::set<std::pair<uint64_t, T *>>, 64> ranges_;
    uint64_t kinds_ = 0;  // those that there are
};

}  // namespace xfer::rdma
