// SPDX-License-Identifier: Apache-2.0
// Every state that a connection can come to, by whatever comes at whatever time, and what holds in
// all of them. The diagram of lib/README.md is what this saw.
#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "connection_text.h"

using namespace xfer;

namespace {

using State = ConnectionState;
using In = ConnectionInput;
using Out = ConnectionOutput;

constexpr uint64_t kNow = 10'000 * kNsPerMs, kPatience = 1'000 * kNsPerMs;

// What those who carry the orders out have come to.
struct World {
    bool begun = false, offer_armed = false, probe_armed = false, counted = false;
    bool drain_said = false, done_said = false, closed = false, ended = false;
    auto operator<=>(const World &) const = default;
};

struct Node {
    State state;
    World world;
    auto operator<=>(const Node &) const = default;
};

struct Transition {
    State before, after;
    In::Kind cause;
    std::string outputs;  // without the status of a bye
    auto operator<=>(const Transition &) const = default;
};

std::vector<In> all_inputs() {
    std::vector<In> inputs;
    for (int kind = In::proved; kind <= In::lanes_down; ++kind)
        for (const bool idle : {false, true})
            for (const Status status : {XFER_ECLOSED, XFER_EPEERLOST})
                for (const uint64_t use : {kNow - 1, kNow + 1})
                    inputs.push_back(
                        {static_cast<In::Kind>(kind), idle, status, kNow, use, kPatience});
    return inputs;
}

bool says_something(const Out &output) {
    return output.kind >= Out::send_offer && output.kind <= Out::send_ping;
}

void set(bool &flag, bool value) {
    CHECK(flag != value);  // each is ordered once
    flag = value;
}

void perform(World &world, const Out &output) {
    CHECK(!world.ended);
    if (world.closed) CHECK(output.kind == Out::end);
    if (says_something(output)) CHECK(world.begun);
    switch (output.kind) {
    case Out::begin:
        return set(world.begun, true);
    case Out::arm_offer:
        world.offer_armed = true;
        return;
    case Out::disarm_offer:
        return set(world.offer_armed, false);
    case Out::arm_probe:
        return set(world.probe_armed, true);
    case Out::disarm_probe:
        return set(world.probe_armed, false);
    case Out::count_offer:
        return set(world.counted, true);
    case Out::uncount_offer:
        return set(world.counted, false);
    case Out::send_drain:
        return set(world.drain_said, true);
    case Out::send_done:
        CHECK(world.drain_said);
        return set(world.done_said, true);
    case Out::close:
        return set(world.closed, true);
    case Out::end:
        CHECK(world.closed);
        return set(world.ended, true);
    default:
        return;
    }
}

void check_state(const Node &node) {
    const auto &[state, world] = node;
    CHECK(world.begun == state.lived);
    CHECK(world.closed == is_closing(state));
    CHECK(world.ended == (state.phase == State::Phase::ended));
    CHECK(world.counted == state.left_idle);
    CHECK(world.drain_said == (state.ours >= State::Drain::said));
    CHECK(world.done_said == (state.ours == State::Drain::done));
    if (is_open(state)) {
        CHECK(world.offer_armed == (state.phase == State::Phase::offered));
        CHECK(world.probe_armed == state.probing);
        CHECK(state.left_idle == (state.phase == State::Phase::offered));
        CHECK(state.lived);
    }
    CHECK(state.theirs != State::Drain::wanted);
    if (is_usable(state)) CHECK(state.ours != State::Drain::wanted);  // it has been said
    if (takes_new(state)) CHECK(is_usable(state));
    if (is_usable(state)) CHECK(is_open(state));
    if (may_go(state, kNow + kPatience)) CHECK((is_usable(state) && !state.probing));
    if (awaits_quiet(state)) CHECK(!takes_new(state));
}

// The only way back is that of an offer which the peer denies.
void check_step(const Transition &made) {
    const State &before = made.before, &after = made.after;
    if (before.phase == State::Phase::offered && after.phase == State::Phase::live)
        CHECK(made.cause == In::idle_close_denied);
    else
        CHECK(before.phase <= after.phase);
    CHECK(before.ours <= after.ours);
    CHECK(before.theirs <= after.theirs);
    CHECK(before.lived <= after.lived);
    CHECK(before.proved <= after.proved);
    if (!is_closing(before) && is_closing(after)) CHECK(after.phase == State::Phase::closing);
    if (is_closing(before) && made.cause != In::lanes_down) {
        CHECK(before == after);
        CHECK(made.outputs == "");
    }
}

// With all that follows from it at once.
Node after(const Node &node, const In &input, std::set<Transition> &seen) {
    const auto [state, outputs] = step(node.state, input);
    Node next{state, node.world};
    for (const Out &output : outputs)
        perform(next.world, output);
    const Transition made{node.state, state, input.kind, words_of(outputs)};
    check_step(made);
    seen.insert(made);
    for (const Out &output : outputs)
        if (output.kind == Out::drain)
            return after(next, {.kind = In::drain, .idle = input.idle}, seen);
    return next;
}

// Each answer, the time, and an end are ways out of an offer.
void check_offer(const Node &node) {
    if (node.state.phase != State::Phase::offered) return;
    const auto leaves = [&](const In &input) {
        return step(node.state, input).first.phase != State::Phase::offered;
    };
    CHECK(leaves({.kind = In::idle_close_denied, .now = kNow}));
    CHECK(leaves({.kind = In::idle_close_offered, .idle = true}));
    CHECK(leaves({.kind = In::offer_timeout, .now = kNow + 1, .last_use = kNow}));
    CHECK(leaves({.kind = In::close}));
}

std::set<Node> walk(std::set<Transition> &seen) {
    const std::vector<In> inputs = all_inputs();
    std::set<Node> known{Node{}};
    std::deque<Node> open{Node{}};
    while (!open.empty()) {
        const Node node = open.front();
        open.pop_front();
        CAPTURE(text_of(node.state));
        check_state(node);
        check_offer(node);
        for (const In &input : inputs) {
            CAPTURE(kInputNames[input.kind]);
            const Node next = after(node, input, seen);
            if (known.insert(next).second) open.push_back(next);
        }
    }
    return known;
}

// ---- the diagram

using Part = std::function<std::string(const State &)>;

std::string phase_of(const State &state) {
    return std::string(kPhaseNames[static_cast<size_t>(state.phase)]);
}

Part drain_of(const std::string &whose, State::Drain State::*drain) {
    return [=](const State &state) {
        return whose + std::string(kDrainNames[static_cast<size_t>(state.*drain)]);
    };
}

// What changes one part of the state; `also`: what changes nothing, but orders something.
std::string group_of(const std::set<Transition> &seen, const Part &part, bool also) {
    std::map<std::tuple<std::string, std::string, std::string>, std::set<In::Kind>> arrows;
    for (const Transition &one : seen) {
        const std::string from = part(one.before), to = part(one.after);
        const bool same = also && !one.outputs.empty() && one.before.ours == one.after.ours &&
                          one.before.theirs == one.after.theirs;
        if (from != to || same) arrows[{from, to, one.outputs}].insert(one.cause);
    }
    std::string text, open;
    for (const auto &[arrow, causes] : arrows) {
        const auto &[from, to, outputs] = arrow;
        const std::string ends = from + " --> " + to;
        text += open == ends ? "<br/>" : (open.empty() ? "        " : "\n        ") + ends + ": ";
        open = ends;
        std::string_view before = "";
        for (const In::Kind cause : causes)
            text.append(std::exchange(before, ", ")).append(kInputNames[cause]);
        if (!outputs.empty()) text += " / " + outputs;
    }
    return text + "\n";
}

std::string group(const std::string &name, const std::string &first, const std::string &arrows) {
    return "    state \"" + name + "\" as " + first + "_part {\n        [*] --> " + first + "\n" +
           arrows + "    }\n";
}

std::string diagram_of(const std::set<Transition> &seen) {
    return "```mermaid\nstateDiagram-v2\n" +
           group("phase", "handshake", group_of(seen, phase_of, true)) +
           group("drain, ours", "ours_none",
                 group_of(seen, drain_of("ours_", &State::ours), false)) +
           group("drain, the peer's", "theirs_none",
                 group_of(seen, drain_of("theirs_", &State::theirs), false)) +
           "```\n";
}

// It stands there between these two; with XFER_RENEW it is written.
const std::string kReadme = XFER_SOURCE_DIR "/lib/README.md";
const std::string kBegin = "<!-- connection:begin -->\n", kEnd = "<!-- connection:end -->\n";

std::string contents(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("whatever comes, a connection keeps its word") {
    std::set<Transition> seen;
    const std::set<Node> nodes = walk(seen);
    MESSAGE(nodes.size() << " states, " << seen.size() << " transitions");
    // Exact numbers: they change only with the state machine.
    CHECK(nodes.size() == 1386);
    CHECK(seen.size() == 20917);

    const std::string diagram = diagram_of(seen), readme = contents(kReadme);
    const size_t begin = readme.find(kBegin), end = readme.find(kEnd);
    REQUIRE(begin < end);
    REQUIRE(end != std::string::npos);
    const size_t from = begin + kBegin.size();
    if (std::getenv("XFER_RENEW"))
        std::ofstream(kReadme) << readme.substr(0, from) + diagram + readme.substr(end);
    else
        CHECK(readme.substr(from, end - from) == diagram);
}
