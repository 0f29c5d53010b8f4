// SPDX-License-Identifier: Apache-2.0
#include "device/copy_progress.h"

#include <doctest/doctest.h>

namespace xfer {
namespace {

constexpr uint64_t kLimit = 1'000'000'000, kLate = CopyProgress::kLateNs, kFirst = 5'000;

TEST_CASE("nothing is looked at while nothing is under way") {
    CopyProgress progress(kLimit);
    CHECK_FALSE(progress.due());
    progress.began(kFirst);
    CHECK(progress.due() == kFirst + kLimit);
    CHECK_FALSE(progress.ended(kFirst + 1));
    CHECK_FALSE(progress.due());
    CHECK_FALSE(progress.look(kFirst + 9 * kLimit, false));
    CHECK_FALSE(progress.stalled());
}

TEST_CASE("copies that end, however many, are no stall") {
    CopyProgress progress(kLimit);
    uint64_t now = kFirst;
    progress.began(now);
    for (int i = 0; i < 100; ++i) {
        progress.began(now);
        now += kLimit - 1;
        CHECK_FALSE(progress.look(now, false));
        CHECK_FALSE(progress.ended(now));
        CHECK(progress.due() == now + kLimit);
    }
}

TEST_CASE("a stall begins when none has ended for the limit, and ends with the next end") {
    CopyProgress progress(kLimit);
    progress.began(kFirst);
    progress.began(kFirst + 100);
    const uint64_t limit = kFirst + kLimit;
    CHECK_FALSE(progress.look(limit - 1, false));
    CHECK(progress.due() == limit);
    CHECK_FALSE(progress.look(limit, false));
    CHECK(progress.due() == limit + kLate);
    CHECK_FALSE(progress.look(limit + kLate - 1, false));
    CHECK(progress.look(limit + kLate, false));
    CHECK(progress.stalled());
    CHECK_FALSE(progress.due());
    CHECK(progress.look(limit + 2 * kLate, false));  // for who could not tell
    CHECK(progress.ended(limit + 500) == kLimit + 500);
    CHECK_FALSE(progress.stalled());
    CHECK(progress.due() == limit + 500 + kLimit);  // of the other one
}

TEST_CASE("a late loop hears of an end before it takes the device for stalled") {
    CopyProgress progress(kLimit);
    progress.began(kFirst);
    progress.began(kFirst);
    const uint64_t late = kFirst + 3 * kLimit;
    CHECK_FALSE(progress.look(late, false));
    CHECK_FALSE(progress.look(late + kLate, true));
    CHECK(progress.due() == late + 2 * kLate);
    CHECK_FALSE(progress.ended(late + kLate));
    CHECK(progress.due() == late + kLate + kLimit);
    CHECK_FALSE(progress.look(late + 2 * kLate, false));
}

TEST_CASE("what is revoked is no end of a copy, but for the last one") {
    CopyProgress progress(kLimit);
    progress.began(kFirst);
    progress.began(kFirst);
    CHECK_FALSE(progress.revoked(kFirst + kLimit / 2));
    CHECK(progress.due() == kFirst + kLimit);
    CHECK_FALSE(progress.look(kFirst + kLimit, false));
    CHECK(progress.look(kFirst + kLimit + kLate, false));
    CHECK(progress.revoked(kFirst + 2 * kLimit) == 2 * kLimit);
    CHECK_FALSE(progress.due());
}

}  // namespace
}  // namespace xfer
