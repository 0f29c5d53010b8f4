// SPDX-License-Identifier: Apache-2.0
#include "core/region/lent_ranges.h"

#include <doctest/doctest.h>

#include "interleave.h"

using namespace xfer;
using test::Interleavings;

TEST_CASE("what lies in a range is held, to its last byte") {
    LentRanges ranges;
    CHECK_FALSE(ranges.holds(0, 0));
    for (const uint64_t base : {0x4000, 0x1000, 0x3000, 0x2000})
        ranges.add(base, 0x100);
    const struct {
        uint64_t address, length;
        bool held;
    } rows[] = {
        {0x1000, 0x100, true}, {0x10ff, 1, true},       {0x1000, 0x101, false},
        {0x10ff, 2, false},    {0x1101, 1, false},      {0xfff, 1, false},
        {0x4080, 0x80, true},  {0x1080, 0x3000, false}, {0x1000, UINT64_MAX, false},
    };
    for (const auto &row : rows) {
        CAPTURE(row.address);
        CAPTURE(row.length);
        CHECK(ranges.holds(row.address, row.length) == row.held);
    }
    ranges.remove(0x2000, 0x101);  // there is none such
    for (const uint64_t base : {0x2000, 0x1000, 0x4000, 0x3000}) {
        CHECK(ranges.holds(base, 0x100));
        ranges.remove(base, 0x100);
        CHECK_FALSE(ranges.holds(base, 1));
    }
}

TEST_CASE(
    "what lies in the inner of two ranges is held; of the outer, what the inner leaves may not "
    "be") {
    LentRanges ranges;
    ranges.add(0x1000, 0x1000);
    ranges.add(0x1800, 0x10);
    CHECK(ranges.holds(0x1800, 0x10));
    CHECK(ranges.holds(0x1000, 0x1000));
    ranges.remove(0x1800, 0x10);
    CHECK(ranges.holds(0x1801, 0x10));
}

TEST_CASE("of two that are the same one stays, and what there is no room for is not held") {
    RangeTable<std::atomic, 3> ranges;
    ranges.add(0x1000, 16);
    ranges.add(0x1000, 16);
    ranges.remove(0x1000, 16);
    CHECK(ranges.holds(0x1000, 16));
    ranges.add(0x2000, 16);
    ranges.add(0x3000, 16);
    ranges.add(0x4000, 16);
    CHECK(ranges.holds(0x3000, 16));
    CHECK_FALSE(ranges.holds(0x4000, 1));
    ranges.remove(0x4000, 16);
    CHECK(ranges.holds(0x2000, 16));
    CHECK(ranges.holds(0x3000, 16));
}

// A short range comes before a long one, and goes: the base of one with the length of the other
// would hold what is in neither.
TEST_CASE("ranges that come and go are never mixed, in any interleaving") {
    constexpr uint64_t kLow = 0x1000, kShort = 0x10, kHigh = 0x1100, kLong = 0x100;
    RangeTable<test::Stepped, 2> ranges;
    const auto writer = [&] {
        ranges.add(kHigh, kLong);
        ranges.add(kLow, kShort);
        ranges.remove(kLow, kShort);
        ranges.remove(kHigh, kLong);
    };
    const auto reader = [&] { Interleavings::check(!ranges.holds(kLow + kShort, 1)); };
    Interleavings all;
    CHECK(all.all_end({writer, reader}));
    CHECK(all.states() > 200);
}
