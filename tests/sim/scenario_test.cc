// SPDX-License-Identifier: Apache-2.0
// A scenario is its seed: run twice, it is the same to the last event.
#include <doctest/doctest.h>

#include "scenario.h"

using namespace xfer;

TEST_CASE("equal seeds, equal scenarios") {
    const auto digest = [](uint64_t seed) {
        Scenario scenario(seed);
        CHECK(scenario.run() == "");
        return scenario.digest();
    };
    for (uint64_t seed = 1; seed <= 25; ++seed) {
        INFO("seed=" << seed);
        CHECK(digest(seed) == digest(seed));
    }
    CHECK(digest(1) != digest(2));
}
