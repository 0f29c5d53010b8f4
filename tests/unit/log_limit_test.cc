// SPDX-License-Identifier: Apache-2.0
#include "util/log_limit.h"

#include <doctest/doctest.h>

using xfer::LogLimit;

TEST_CASE("so many lines in an interval, and the next one tells of those that were left out") {
    LogLimit limit(3, 100);
    for (const uint64_t now : {1'000u, 1'050u, 1'099u})
        CHECK(limit.admit(now) == 0);
    for (int i = 0; i < 5; ++i)
        CHECK(!limit.admit(1'099));
    CHECK(limit.admit(1'100) == 5);
    CHECK(limit.admit(1'101) == 0);
    CHECK(limit.admit(1'102) == 0);
    CHECK(!limit.admit(1'199));
    // An interval begins with its first line, not where the one before ended.
    CHECK(limit.admit(5'000) == 1);
    CHECK(limit.admit(5'000) == 0);
}
