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
    {"one dial", {{1, 0}, 0, {0, 0}}, {8, 2, 1, 140}},
    {"a dial that may be cut", {{1, 0}, 1, {0, 0}}, {85, 5, 1, 560}},
    {"both dial", {{1, 1}, 0, {0, 0}}, {140, 8, 7, 140}},
    {"both dial, each may be cut", {{1, 1}, 2, {0, 0}}, {8787, 54, 20, 4760}},
    {"one dials three times", {{3, 0}, 0, {0, 0}}, {4028, 17, 16, 140}},
    {"both dial twice", {{2, 2}, 0, {0, 0}}, {119128, 96, 95, 140}},
    {"the smaller dials twice, one is cut", {{2, 1}, 1, {0, 0}}, {75897, 142, 107, 4900}},
    {"the larger dials twice, one is cut", {{1, 2}, 1, {0, 0}}, {72300, 135, 102, 4620}},
    {"the dialed one starts anew, two are cut", {{2, 0}, 2, {0, 1}}, {22810, 75, 22, 7420}},
    {"the smaller starts anew, one is cut", {{1, 1}, 1, {1, 0}}, {87556, 152, 77, 10500}},
    {"the larger starts anew, one is cut", {{1, 1}, 1, {0, 1}}, {87273, 154, 77, 10780}},
    {"the larger starts anew, the smaller dials twice",
     {{2, 1}, 0, {0, 1}},
     {230677, 155, 119, 5040}},
    {"the smaller starts anew, the larger dials twice",
     {{1, 2}, 0, {1, 0}},
     {207462, 137, 116, 2940}},
    {"both start anew", {{1, 1}, 0, {1, 1}}, {27392, 108, 78, 4200}},
    {"channels take time to come up",
     {.dials = {1, 1}, .cuts = 1, .slow = true},
     {2954, 32, 20, 2208}},
    {"a channel never comes up, one closes",
     {.dials = {2, 1}, .closes = 1, .hangs = 1, .slow = true},
     {63738, 180, 106, 14104}},
    {"one closes", {.dials = {1, 1}, .closes = 1}, {1108, 18, 10, 1120}},
    {"one closes, the smaller dials twice", {.dials = {2, 1}, .closes = 1}, {41415, 84, 55, 4060}},
    {"one closes, the larger dials twice", {.dials = {1, 2}, .closes = 1}, {39620, 80, 53, 3780}},
    {"one closes, both dial twice", {.dials = {2, 2}, .closes = 1}, {1338883, 355, 259, 13440}},
    {"one closes, one starts anew",
     {.dials = {1, 1}, .restarts = {0, 1}, .closes = 1},
     {36527, 102, 49, 7420}},
    {"data, and both close", {.dials = {1, 1}, .closes = 2, .data = 2}, {10049, 97, 39, 8120}},
    {"two handshakes take too long", {.dials = {1, 1}, .expiries = 2}, {4494, 60, 27, 4620}},
    {"a handshake takes too long, the smaller dials twice",
     {.dials = {2, 1}, .expiries = 1},
     {40810, 129, 104, 3500}},
    {"a handshake takes too long, the larger dials twice",
     {.dials = {1, 2}, .expiries = 1},
     {39065, 127, 102, 3500}},
    {"both dial twice, one is cut", {{2, 2}, 1, {0, 0}}, {2363913, 586, 482, 14560}},
    {"the larger forgets, one is cut",
     {.dials = {1, 2}, .cuts = 1, .forgets = 1},
     {98316, 269, 171, 13720}},
    {"the smaller forgets, one is cut",
     {.dials = {2, 1}, .cuts = 1, .forgets = 1},
     {103459, 291, 183, 15120}},
    {"both forget, one closes",
     {.dials = {1, 2}, .closes = 1, .forgets = 2},
     {62294, 259, 131, 17920}},
    {"both forget, two close",
     {.dials = {2, 1}, .closes = 2, .forgets = 2},
     {167402, 702, 262, 61600}},
    {"one forgets, a handshake takes too long",
     {.dials = {2, 1}, .expiries = 1, .forgets = 1},
     {55481, 245, 174, 9940}},
    {"one forgets and starts anew",
     {.dials = {1, 1}, .cuts = 1, .restarts = {0, 1}, .forgets = 1},
     {116609, 292, 131, 22540}},
    {"a twin, one is cut and forgets",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin, .forgets = 1},
     {109921, 335, 247, 45584}},
    {"a twin", {.dials = {1, 1, 1}, .third = Third::twin}, {4200, 29, 28, 518}},
    {"a twin, A is larger",
     {.dials = {1, 1, 1}, .third = Third::twin, .a_larger = true},
     {4260, 31, 30, 518}},
    {"a twin, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin},
     {89512, 181, 144, 19166}},
    {"a twin, A is larger, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::twin, .a_larger = true},
     {90602, 183, 144, 20202}},
    {"a twin, A dials twice", {.dials = {2, 1, 0}, .third = Third::twin}, {11497, 65, 64, 518}},
    {"a twin, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::twin},
     {24127, 73, 72, 518}},
    {"a twin, A starts anew",
     {.dials = {0, 1, 1}, .restarts = {1, 0}, .third = Third::twin},
     {812, 22, 12, 5180}},
    {"a twin, B starts anew",
     {.dials = {1, 1, 1}, .restarts = {0, 1}, .third = Third::twin},
     {163149, 143, 118, 12950}},
    {"a zombie", {.dials = {1, 1, 1}, .third = Third::zombie}, {43228, 363, 241, 27286}},
    {"a zombie, A is larger",
     {.dials = {1, 1, 1}, .third = Third::zombie, .a_larger = true},
     {41606, 355, 241, 24654}},
    {"a zombie, A dials twice",
     {.dials = {2, 0, 1}, .third = Third::zombie},
     {62233, 426, 312, 23142}},
    {"a zombie that dials twice",
     {.dials = {0, 2, 1}, .third = Third::zombie},
     {28665, 226, 136, 17892}},
    {"an heir", {.dials = {1, 1, 1}, .third = Third::heir}, {7124, 65, 53, 2296}},
    {"an heir, A is larger",
     {.dials = {1, 1, 1}, .third = Third::heir, .a_larger = true},
     {7068, 63, 52, 2100}},
    {"an heir, one is cut",
     {.dials = {1, 1, 1}, .cuts = 1, .third = Third::heir},
     {106666, 277, 167, 22902}},
    {"an heir, A dials three times",
     {.dials = {3, 0, 0}, .third = Third::heir},
     {22818, 91, 76, 2884}},
};

// With XFER_TEST_QUICK rows with more are left out.
constexpr uint64_t kQuickStates = 250000;

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
