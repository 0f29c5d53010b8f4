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
    {"one dial", {{1, 0}, 0, {0, 0}}, {8, 2, 1, 197}},
    {"a dial that may be cut", {{1, 0}, 1, {0, 0}}, {85, 5, 1, 797}},
    {"both dial", {{1, 1}, 0, {0, 0}}, {197, 8, 7, 197}},
    {"both dial, each may be cut", {{1, 1}, 2, {0, 0}}, {12814, 42, 16, 5298}},
    {"one dials three times", {{3, 0}, 0, {0, 0}}, {6334, 16, 15, 197}},
    {"both dial twice", {{2, 2}, 0, {0, 0}}, {448243, 85, 84, 197}},
    {"the smaller dials twice, one is cut", {{2, 1}, 1, {0, 0}}, {159242, 100, 71, 5943}},
    {"the larger dials twice, one is cut", {{1, 2}, 1, {0, 0}}, {150470, 97, 69, 5718}},
    {"the dialed one starts anew, two are cut", {{2, 0}, 2, {0, 1}}, {28148, 64, 20, 8839}},
    {"the smaller starts anew, one is cut", {{1, 1}, 1, {1, 0}}, {132906, 108, 53, 11030}},
    {"the larger starts anew, one is cut", {{1, 1}, 1, {0, 1}}, {131358, 106, 51, 11040}},
    {"the larger starts anew, the smaller dials twice",
     {{2, 1}, 0, {0, 1}},
     {445936, 110, 83, 5400}},
    {"the smaller starts anew, the larger dials twice",
     {{1, 2}, 0, {1, 0}},
     {414202, 105, 84, 4158}},
    {"both start anew", {{1, 1}, 0, {1, 1}}, {40088, 90, 62, 5516}},
    {"links take time to come up",
     {.dials = {1, 1}, .cuts = 1, .slow = true},
     {3990, 28, 16, 3028}},
    {"one closes", {.dials = {1, 1}, .closes = 1}, {1327, 17, 9, 1640}},
    {"one closes, the smaller dials twice", {.dials = {2, 1}, .closes = 1}, {71493, 71, 47, 4958}},
    {"one closes, the larger dials twice", {.dials = {1, 2}, .closes = 1}, {65351, 68, 45, 4733}},
    {"one closes, one starts anew",
     {.dials = {1, 1}, .restarts = {0, 1}, .closes = 1},
     {46454, 75, 36, 7888}},
    {"data, and both close", {.dials = {1, 1}, .closes = 2, .data = 2}, {11051, 82, 33, 10133}},
    {"two handshakes take too long", {.dials = {1, 1}, .expiries = 2}, {6584, 52, 23, 5873}},
    {"a handshake takes too long, the smaller dials twice",
     {.dials = {2, 1}, .expiries = 1},
     {88673, 92, 71, 4260}},
    {"a handshake takes too long, the larger dials twice",
     {.dials = {1, 2}, .expiries = 1},
     {85152, 90, 69, 4254}},
    {"a twin", {.dials = {1, 1, 1}, .third = Third::twin}, {7515, 29, 28, 679}},
    {"a twin, A is larger",
     {.dials = {1, 1, 1}, .third = Third::twin, .a_larger = true},
     {7743, 31, 30, 679}},
    {"a twin, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin},
     {169943, 141, 106, 24063}},
    {"a twin, A is larger, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin, .a_larger = true},
     {174159, 145, 110, 24075}},
    {"a twin, A dials twice", {.dials = {2, 1, 0}, .third = Third::twin}, {18967, 55, 54, 679}},
    {"a twin, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::twin},
     {32375, 57, 56, 679}},
    {"a twin, A starts anew",
     {.dials = {0, 1, 1}, .restarts = {1, 0}, .third = Third::twin},
     {842, 22, 12, 6790}},
    {"a twin, B starts anew",
     {.dials = {1, 1, 1}, .restarts = {0, 1}, .third = Third::twin},
     {375694, 120, 98, 15008}},
    {"a zombie", {.dials = {1, 1, 1}, .third = Third::zombie}, {69698, 404, 261, 38421}},
    {"a zombie, A is larger",
     {.dials = {1, 1, 1}, .third = Third::zombie, .a_larger = true},
     {68955, 394, 260, 36648}},
    {"a zombie, A dials twice",
     {.dials = {2, 0, 1}, .third = Third::zombie},
     {90621, 427, 301, 32669}},
    {"a zombie that dials twice",
     {.dials = {0, 2, 1}, .third = Third::zombie},
     {42654, 232, 134, 25614}},
    {"an heir", {.dials = {1, 1, 1}, .third = Third::heir}, {9794, 63, 52, 3037}},
    {"an heir, A is larger",
     {.dials = {1, 1, 1}, .third = Third::heir, .a_larger = true},
     {9794, 63, 52, 3037}},
    {"an heir, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::heir},
     {147717, 234, 131, 31456}},
    {"an heir, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::heir},
     {31639, 86, 71, 4173}},
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
