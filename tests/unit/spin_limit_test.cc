// SPDX-License-Identifier: Apache-2.0
#include "loop/spin_limit.h"

#include <doctest/doctest.h>

#include "util/cpus.h"

using namespace xfer;

namespace {

constexpr uint64_t kUs = 1000, kMs = 1000 * kUs;

// A loop that found something to do at times with so much between them.
struct Loop {
    SpinLimit limit = SpinLimit::adaptive();
    uint64_t now = 3'600'000 * kMs;
    void work(int times, uint64_t gap) {
        for (int i = 0; i < times; ++i)
            limit.worked(now += gap);
    }
};

}  // namespace

TEST_CASE("a limit that is given stays as it is") {
    for (const uint64_t ns : {uint64_t{0}, 20 * kUs}) {
        SpinLimit limit = SpinLimit::fixed(ns);
        CHECK(limit.ns() == ns);
        for (uint64_t at = kMs; at < 100 * kMs; at += kUs)
            limit.worked(at);
        CHECK(limit.ns() == ns);
    }
}

TEST_CASE("it spins twice the average interval, once there were some short ones") {
    Loop loop;
    CHECK(loop.limit.ns() == 0);
    loop.work(1, kUs);
    CHECK(loop.limit.ns() == 0);
    loop.work(100, 10 * kUs);
    CHECK(loop.limit.ns() >= 18 * kUs);
    CHECK(loop.limit.ns() <= 22 * kUs);
    loop.work(100, 30 * kUs);
    CHECK(loop.limit.ns() == 50 * kUs);
    loop.work(100, 200);
    CHECK(loop.limit.ns() == 5 * kUs);
}

TEST_CASE("it does not spin for what comes too seldom to be worth it") {
    for (const uint64_t gap : {60 * kUs, 200 * kUs, 5 * kMs, 10'000 * kMs}) {
        CAPTURE(gap);
        Loop loop;
        loop.work(1000, gap);
        CHECK(loop.limit.ns() == 0);
    }
}

TEST_CASE("one idle millisecond ends it, and it comes back with the work") {
    Loop loop;
    loop.work(100, 10 * kUs);
    REQUIRE(loop.limit.ns() > 0);
    loop.work(1, kMs);
    CHECK(loop.limit.ns() == 0);
    loop.work(5, 10 * kUs);
    CHECK(loop.limit.ns() == 0);
    loop.work(30, 10 * kUs);
    CHECK(loop.limit.ns() > 0);
}

TEST_CASE("the processors of a control group") {
    CHECK(cpus_of_quota("max 100000\n") == UINT32_MAX);
    CHECK(cpus_of_quota("200000 100000\n") == 2);
    CHECK(cpus_of_quota("250000 100000") == 2);
    CHECK(cpus_of_quota("50000 100000") == 1);
    CHECK(cpus_of_quota("18446744073709551615 1") == UINT32_MAX);
    for (const char *wrong : {"", "max", "-1 100000", "100000", "100000 ", "100000 0", "x y"}) {
        CAPTURE(wrong);
        CHECK(cpus_of_quota(wrong) == UINT32_MAX);
    }
    CHECK(usable_cpus() >= 1);
}
