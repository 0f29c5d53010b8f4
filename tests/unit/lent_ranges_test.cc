// SPDX-License-Identifier: Apache-2.0
#include "core/region/lent_ranges.h"

#include <doctest/doctest.h>

#include <functional>

#include "interleave.h"

using namespace xfer;
using test::Interleavings;

template <typename Ranges>
static bool holds(const Ranges &ranges, uint64_t address, uint64_t length) {
    return ranges.find(address, length).has_value();
}

TEST_CASE("what lies in a range is held, to its last byte") {
    LentRanges ranges;
    CHECK_FALSE(holds(ranges, 0, 0));
    for (const uint64_t base : {0x4000, 0x1000, 0x3000, 0x2000})
        ranges.add({base, 0x100});
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
        CHECK(holds(ranges, row.address, row.length) == row.held);
    }
    ranges.remove({0x2000, 0x101});  // there is none such
    for (const uint64_t base : {0x2000, 0x1000, 0x4000, 0x3000}) {
        CHECK(holds(ranges, base, 0x100));
        ranges.remove({base, 0x100});
        CHECK_FALSE(holds(ranges, base, 1));
    }
}

TEST_CASE(
    "what lies in the inner of two ranges is held; of the outer, what the inner leaves may not "
    "be") {
    LentRanges ranges;
    ranges.add({0x1000, 0x1000});
    ranges.add({0x1800, 0x10});
    CHECK(holds(ranges, 0x1800, 0x10));
    CHECK(holds(ranges, 0x1000, 0x1000));
    ranges.remove({0x1800, 0x10});
    CHECK(holds(ranges, 0x1801, 0x10));
}

TEST_CASE("of two that are the same one stays, and what there is no room for is not held") {
    RangeTable<std::atomic, 3> ranges;
    ranges.add({0x1000, 16});
    ranges.add({0x1000, 16});
    ranges.remove({0x1000, 16});
    CHECK(holds(ranges, 0x1000, 16));
    ranges.add({0x2000, 16});
    ranges.add({0x3000, 16});
    ranges.add({0x4000, 16});
    CHECK(holds(ranges, 0x3000, 16));
    CHECK_FALSE(holds(ranges, 0x4000, 1));
    ranges.remove({0x4000, 16});
    CHECK(holds(ranges, 0x2000, 16));
    CHECK(holds(ranges, 0x3000, 16));
}

TEST_CASE("whose memory a range is stays with it, whatever comes before it and goes") {
    LentRanges ranges;
    const LentRange host{0x1000, 16}, first{0x3000, 16, 1, 7}, again{0x3000, 16, 1, 9};
    for (const LentRange &range : {first, again, host})
        ranges.add(range);
    CHECK(ranges.find(0x3008, 8) == again);
    CHECK(ranges.find(0x1008, 8) == host);
    ranges.remove(first);  // its memory was freed, and is lent once more
    CHECK(ranges.find(0x3008, 8) == again);
    ranges.remove(host);
    CHECK(ranges.find(0x3008, 8) == again);
    ranges.remove(again);
    CHECK_FALSE(holds(ranges, 0x3008, 8));
}

// A short range comes before a long one, and goes: the base of one with the length of the other
// would hold what is in neither; and the device of one with the place of the other is a fault.
TEST_CASE("ranges that come and go are never mixed, in any interleaving") {
    constexpr uint64_t kLow = 0x1000, kShort = 0x10, kHigh = 0x1100, kLong = 0x100;
    RangeTable<test::Stepped, 2> ranges;
    const auto writer = [&] {
        ranges.add({kHigh, kLong, 2, 3});
        ranges.add({kLow, kShort});
        ranges.remove({kLow, kShort});
        ranges.remove({kHigh, kLong, 2, 3});
    };
    const auto between = [&] { Interleavings::check(!holds(ranges, kLow + kShort, 1)); };
    const auto high = [&] {
        const auto found = ranges.find(kHigh, 1);
        Interleavings::check(!found || *found == LentRange{kHigh, kLong, 2, 3});
    };
    for (const std::function<void()> &reader : {std::function<void()>(between), {high}}) {
        Interleavings all;
        CHECK(all.all_end({writer, reader}));
        CHECK(all.states() > 200);
    }
}
