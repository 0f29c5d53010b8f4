// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "two_peers.h"

#include <doctest/doctest.h>

#include <string>

using namespace xfer;

namespace {

struct Row {
    std::string what;
    TwoPeersLimits limits;
    uint64_t states, quiet, connected;
};

// Exact numbers: they change only with a reason, which is a change of the state machine or of what
// the model lets happen.
const Row kRows[] = {
    {"one dial", {{1, 0}, 0, {0, 0}}, 8, 2, 1},
    {"a dial that may be cut", {{1, 0}, 1, {0, 0}}, 85, 5, 1},
    {"both dial", {{1, 1}, 0, {0, 0}}, 197, 8, 7},
    {"both dial, each may be cut", {{1, 1}, 2, {0, 0}}, 12814, 42, 16},
    {"one dials three times", {{3, 0}, 0, {0, 0}}, 6334, 16, 15},
    {"both dial twice", {{2, 2}, 0, {0, 0}}, 448243, 85, 84},
    {"the smaller dials twice, one is cut", {{2, 1}, 1, {0, 0}}, 159242, 100, 71},
    {"the larger dials twice, one is cut", {{1, 2}, 1, {0, 0}}, 150470, 97, 69},
    {"the dialed one starts anew, two are cut", {{2, 0}, 2, {0, 1}}, 28148, 64, 20},
    {"the smaller starts anew, one is cut", {{1, 1}, 1, {1, 0}}, 132906, 108, 53},
    {"the larger starts anew, one is cut", {{1, 1}, 1, {0, 1}}, 131358, 106, 51},
    {"the larger starts anew, the smaller dials twice", {{2, 1}, 0, {0, 1}}, 445936, 110, 83},
    {"the smaller starts anew, the larger dials twice", {{1, 2}, 0, {1, 0}}, 414202, 105, 84},
    {"both start anew", {{1, 1}, 0, {1, 1}}, 40088, 90, 62},
};

}  // namespace

TEST_CASE("however two engines meet, they end on one connection or may dial again") {
    for (const Row &row : kRows) {
        CAPTURE(row.what);
        const TwoPeersResult result = explore_two_peers(row.limits);
        MESSAGE(row.what << ": " << result.states << " states, " << result.quiet << " quiet, "
                         << result.connected << " of them connected");
        CHECK(result.fault == "");
        CHECK(result.states == row.states);
        CHECK(result.quiet == row.quiet);
        CHECK(result.connected == row.connected);
    }
}
