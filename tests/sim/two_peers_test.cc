// SPDX-License-Identifier: Apache-2.0
#include "two_peers.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "two_peers_diagram.h"

using namespace xfer;

namespace {

struct Row {
    std::string what;
    TwoPeersLimits limits;
    struct {
        uint64_t states, quiet, connected, again;
    } counts;
};

// Exact numbers: they change only with a reason, which is a change of the state machine or of what
// the model lets happen.
const Row kRows[] = {
    {"one dial", {{1, 0}, 0, {0, 0}}, {8, 2, 1, 130}},
    {"a dial that may be cut", {{1, 0}, 1, {0, 0}}, {85, 5, 1, 520}},
    {"both dial", {{1, 1}, 0, {0, 0}}, {130, 8, 7, 130}},
    {"both dial, each may be cut", {{1, 1}, 2, {0, 0}}, {8547, 54, 20, 4420}},
    {"one dials three times", {{3, 0}, 0, {0, 0}}, {2598, 17, 16, 130}},
    {"both dial twice", {{2, 2}, 0, {0, 0}}, {74787, 96, 95, 130}},
    {"the smaller dials twice, one is cut", {{2, 1}, 1, {0, 0}}, {61297, 142, 107, 4550}},
    {"the larger dials twice, one is cut", {{1, 2}, 1, {0, 0}}, {59094, 135, 102, 4290}},
    {"the dialed one starts anew, two are cut", {{2, 0}, 2, {0, 1}}, {20946, 75, 22, 6890}},
    {"the smaller starts anew, one is cut", {{1, 1}, 1, {1, 0}}, {80189, 152, 77, 9750}},
    {"the larger starts anew, one is cut", {{1, 1}, 1, {0, 1}}, {80065, 154, 77, 10010}},
    {"the larger starts anew, the smaller dials twice",
     {{2, 1}, 0, {0, 1}},
     {181077, 155, 119, 4680}},
    {"the smaller starts anew, the larger dials twice",
     {{1, 2}, 0, {1, 0}},
     {162166, 137, 116, 2730}},
    {"both start anew", {{1, 1}, 0, {1, 1}}, {24196, 108, 78, 3900}},
    {"channels take time to come up",
     {.dials = {1, 1}, .cuts = 1, .slow = true},
     {2858, 32, 20, 2088}},
    {"a channel never comes up, one closes",
     {.dials = {2, 1}, .closes = 1, .hangs = 1, .slow = true},
     {51785, 180, 106, 13266}},
    {"one closes", {.dials = {1, 1}, .closes = 1}, {1006, 18, 10, 1040}},
    {"one closes, the smaller dials twice", {.dials = {2, 1}, .closes = 1}, {32009, 84, 55, 3770}},
    {"one closes, the larger dials twice", {.dials = {1, 2}, .closes = 1}, {30874, 80, 53, 3510}},
    {"one closes, both dial twice", {.dials = {2, 2}, .closes = 1}, {925156, 355, 259, 12480}},
    {"one closes, one starts anew",
     {.dials = {1, 1}, .restarts = {0, 1}, .closes = 1},
     {31721, 102, 49, 6890}},
    {"data, and both close", {.dials = {1, 1}, .closes = 2, .data = 2}, {9095, 97, 39, 7540}},
    {"two handshakes take too long", {.dials = {1, 1}, .expiries = 2}, {4474, 60, 27, 4290}},
    {"a handshake takes too long, the smaller dials twice",
     {.dials = {2, 1}, .expiries = 1},
     {34319, 129, 104, 3250}},
    {"a handshake takes too long, the larger dials twice",
     {.dials = {1, 2}, .expiries = 1},
     {33261, 127, 102, 3250}},
    {"both dial twice, one is cut", {{2, 2}, 1, {0, 0}}, {1679295, 586, 482, 13520}},
    {"a twin", {.dials = {1, 1, 1}, .third = Third::twin}, {3236, 29, 28, 480}},
    {"a twin, A is larger",
     {.dials = {1, 1, 1}, .third = Third::twin, .a_larger = true},
     {3284, 31, 30, 480}},
    {"a twin, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin},
     {73790, 181, 144, 17760}},
    {"a twin, A is larger, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin, .a_larger = true},
     {74544, 183, 144, 18720}},
    {"a twin, A dials twice", {.dials = {2, 1, 0}, .third = Third::twin}, {9331, 65, 64, 480}},
    {"a twin, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::twin},
     {18343, 73, 72, 480}},
    {"a twin, A starts anew",
     {.dials = {0, 1, 1}, .restarts = {1, 0}, .third = Third::twin},
     {788, 22, 12, 4800}},
    {"a twin, B starts anew",
     {.dials = {1, 1, 1}, .restarts = {0, 1}, .third = Third::twin},
     {117545, 143, 118, 12000}},
    {"a zombie", {.dials = {1, 1, 1}, .third = Third::zombie}, {38073, 355, 237, 24790}},
    {"a zombie, A is larger",
     {.dials = {1, 1, 1}, .third = Third::zombie, .a_larger = true},
     {36516, 347, 237, 22350}},
    {"a zombie, A dials twice",
     {.dials = {2, 0, 1}, .third = Third::zombie},
     {52722, 392, 294, 19390}},
    {"a zombie that dials twice",
     {.dials = {0, 2, 1}, .third = Third::zombie},
     {23952, 226, 136, 16600}},
    {"an heir", {.dials = {1, 1, 1}, .third = Third::heir}, {6748, 65, 53, 2110}},
    {"an heir, A is larger",
     {.dials = {1, 1, 1}, .third = Third::heir, .a_larger = true},
     {6692, 63, 52, 1930}},
    {"an heir, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::heir},
     {102773, 277, 167, 21108}},
    {"an heir, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::heir},
     {18584, 91, 76, 2650}},
};

// With XFER_TEST_QUICK rows with more are left out.
constexpr uint64_t kQuickStates = 200000;

// The state diagram stands there between these two; with XFER_RENEW it is written.
const std::string kReadme = XFER_SOURCE_DIR "/lib/README.md";
const std::string kBegin = "<!-- states:begin -->\n", kEnd = "<!-- states:end -->\n";

std::string contents(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("however two engines meet, they end on one connection or may dial again") {
    const bool quick = std::getenv("XFER_TEST_QUICK");
    std::set<Transition> transitions;
    for (const Row &row : kRows) {
        if (quick && row.counts.states > kQuickStates) {
            MESSAGE("skip " << row.what << ": more than " << kQuickStates << " states");
            continue;
        }
        CAPTURE(row.what);
        TwoPeersResult result = explore_two_peers(row.limits);
        MESSAGE(row.what << ": " << result.states << " states, " << result.quiet << " quiet, "
                         << result.connected << " of them connected, " << result.again
                         << " from the others");
        REQUIRE(result.fault == "");
        CHECK(result.states == row.counts.states);
        CHECK(result.quiet == row.counts.quiet);
        CHECK(result.connected == row.counts.connected);
        CHECK(result.again == row.counts.again);
        transitions.merge(result.transitions);
    }
    if (quick) {
        MESSAGE("skip the state diagram: it takes all rows");
        return;
    }
    const std::string diagram = diagram_of(transitions), readme = contents(kReadme);
    const size_t begin = readme.find(kBegin), end = readme.find(kEnd);
    REQUIRE(begin < end);
    REQUIRE(end != std::string::npos);
    const size_t from = begin + kBegin.size();
    if (std::getenv("XFER_RENEW"))
        std::ofstream(kReadme) << readme.substr(0, from) + diagram + readme.substr(end);
    else
        CHECK(readme.substr(from, end - from) == diagram);
}
