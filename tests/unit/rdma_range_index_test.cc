// SPDX-License-Identifier: Apache-2.0
// Ranges by address, beside a plain list of them.
#include "transport/rdma/range_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <random>
#include <vector>

using namespace xfer::rdma;

namespace {

struct Range {
    uint64_t base, length;
    bool holds(uint64_t address) const { return address - base < length; }
};

std::vector<const Range *> found(const RangeIndex<Range> &index, uint64_t address) {
    std::vector<const Range *> all;
    index.find(address, [&](Range &range) {
        if (range.holds(address)) all.push_back(&range);
        return true;
    });
    std::sort(all.begin(), all.end());
    return all;
}

}  // namespace

TEST_CASE("all ranges that hold an address are found, and no others that were removed") {
    for (const uint64_t begin : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX - 4096}) {
        CAPTURE(begin);
        std::mt19937_64 random(begin + 1);
        RangeIndex<Range> index;
        std::list<Range> ranges;
        for (int step = 0; step < 5000; ++step) {
            const uint64_t at = random() % 4096;
            if (ranges.size() < 40 && random() % 2) {
                const uint64_t most = std::min<uint64_t>(4096 - at, uint64_t{1} << random() % 13);
                ranges.push_back({begin + at, 1 + random() % most});
                index.add(ranges.back().base, ranges.back().length, ranges.back());
            } else if (!ranges.empty()) {
                index.remove(ranges.front().base, ranges.front().length, ranges.front());
                ranges.pop_front();
            }
            std::vector<const Range *> right;
            for (const Range &range : ranges)
                if (range.holds(begin + at)) right.push_back(&range);
            std::sort(right.begin(), right.end());
            CHECK(found(index, begin + at) == right);
        }
    }
}

TEST_CASE("a range may be as long as there are addresses") {
    RangeIndex<Range> index;
    Range all{0, UINT64_MAX}, one{5, 1};
    index.add(all.base, all.length, all);
    index.add(one.base, one.length, one);
    CHECK(found(index, 5).size() == 2);
    CHECK(found(index, 6).size() == 1);
    CHECK(found(index, UINT64_MAX - 1).size() == 1);
    std::vector<const Range *> first;
    index.find(5, [&](Range &range) {
        first.push_back(&range);
        return false;
    });
    CHECK(first == std::vector<const Range *>{&one});
}
