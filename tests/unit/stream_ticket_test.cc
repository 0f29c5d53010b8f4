// SPDX-License-Identifier: Apache-2.0
// The word that a stream waits at: each step, and all that streams, the loop and the user can do to
// it in any order. No stream waits for ever, and there is one event.
#include "device/stream_ticket.h"

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <set>
#include <vector>

using namespace xfer;

namespace {

using In = TicketInput;
using Out = TicketOutput;

constexpr uint32_t kGraph = Ticket::kGraph, kLast = Ticket::kLast;

struct Row {
    uint32_t before;
    In input;
    uint32_t after;
    Out output;
};

// Each that changes or orders anything; all others do neither.
const Row kTable[] = {
    {Ticket::waiting, In::arrive, Ticket::arrived, Out::ring},
    {Ticket::waiting, In::end, Ticket::over, Out::tell},
    {Ticket::arrived, In::start, Ticket::running, Out::start},
    {Ticket::arrived, In::end, Ticket::over, Out::tell},
    {Ticket::running, In::end, Ticket::running | kLast, Out::cancel},
    {Ticket::running, In::done, Ticket::over, Out::tell},
    {Ticket::running, In::give_up, Ticket::abandoned | kLast, Out::nothing},
    {Ticket::running | kLast, In::end, Ticket::running | kLast, Out::cancel},
    {Ticket::running | kLast, In::done, Ticket::over | kLast, Out::tell},
    {Ticket::running | kLast, In::give_up, Ticket::abandoned | kLast, Out::nothing},
    {Ticket::abandoned | kLast, In::done, Ticket::over | kLast, Out::tell},

    {Ticket::waiting | kGraph, In::arrive, Ticket::arrived | kGraph, Out::ring},
    {Ticket::waiting | kGraph, In::end, Ticket::over | kGraph, Out::tell},
    {Ticket::waiting | kGraph, In::finish, Ticket::over | kGraph, Out::tell},
    {Ticket::arrived | kGraph, In::start, Ticket::running | kGraph, Out::start},
    {Ticket::arrived | kGraph, In::end, Ticket::over | kGraph, Out::tell},
    {Ticket::arrived | kGraph, In::finish, Ticket::over | kGraph, Out::tell},
    {Ticket::running | kGraph, In::end, Ticket::running | kGraph | kLast, Out::cancel},
    {Ticket::running | kGraph, In::finish, Ticket::running | kGraph | kLast, Out::nothing},
    {Ticket::running | kGraph, In::done, Ticket::waiting | kGraph, Out::again},
    {Ticket::running | kGraph, In::give_up, Ticket::abandoned | kGraph | kLast, Out::nothing},
    // What a drain, or the end of the graph, lets go on, a cancel may still end.
    {Ticket::running | kGraph | kLast, In::end, Ticket::running | kGraph | kLast, Out::cancel},
    {Ticket::running | kGraph | kLast, In::done, Ticket::over | kGraph | kLast, Out::tell},
    {Ticket::running | kGraph | kLast, In::give_up, Ticket::abandoned | kGraph | kLast,
     Out::nothing},
    {Ticket::abandoned | kGraph | kLast, In::done, Ticket::over | kGraph | kLast, Out::tell},
};

constexpr In kInputs[] = {In::arrive, In::start, In::end, In::finish, In::done, In::give_up};

std::vector<uint32_t> reachable_words() {
    std::set<uint32_t> known{Ticket::begin(false), Ticket::begin(true)};
    std::deque<uint32_t> open(known.begin(), known.end());
    for (; !open.empty(); open.pop_front())
        for (const In input : kInputs)
            if (const uint32_t next = step(open.front(), input).word; known.insert(next).second)
                open.push_back(next);
    return {known.begin(), known.end()};
}

// ---- the world around one word

constexpr int kLaunches = 2;  // of each stream

// What a stream is about to do: run its host function, or go on behind the wait.
struct Stream {
    int launches = 0;
    bool waits = false;
    auto operator<=>(const Stream &) const = default;
};

struct World {
    uint32_t word;
    Stream streams[2];       // a graph may wrongly run as two instances at once
    bool message = false;    // for the loop
    bool in_flight = false;  // the batch
    bool canceled = false;
    bool held = false;  // by a rebind
    bool gone = false;  // the graph, as far as the driver has said so
    int told = 0;
    auto operator<=>(const World &) const = default;
};

struct Rules {
    bool graph;
    int streams;
    int launches;
};

void look(World &world);

void perform(World &world, Out output) {
    switch (output) {
    case Out::nothing:
        return;
    case Out::ring:
        world.message = true;
        return;
    case Out::start:
        CHECK_FALSE(world.in_flight);
        CHECK_FALSE(world.held);
        world.in_flight = true;
        return;
    case Out::cancel:
        CHECK(world.in_flight);
        world.canceled = true;
        return;
    case Out::again:
        return;
    case Out::tell:
        CHECK_FALSE(world.in_flight);
        CHECK(++world.told == 1);
        return;
    }
}

void put_in(World &world, In input) {
    const auto [word, output] = step(world.word, input);
    world.word = word;
    perform(world, output);
}

// As StreamSubmission::look(): the word says whether there is something to do.
void look(World &world) {
    world.message = false;
    if (!world.in_flight && !world.held) put_in(world, In::start);
}

void finish(World &world) {
    world.in_flight = world.canceled = false;
    put_in(world, In::done);
    look(world);
}

bool passes(const World &world) {
    return world.word & Ticket::kPasses;
}

// What goes on by itself, in whatever order: streams, messages, batches that end.
std::vector<World> forced(const World &world, const Rules &rules) {
    std::vector<World> next;
    for (int i = 0; i < rules.streams; ++i) {
        World after = world;
        Stream &stream = after.streams[i];
        if (stream.waits && passes(world)) {
            stream.waits = false;
            ++stream.launches;
            next.push_back(after);
        } else if (!stream.waits && stream.launches < rules.launches && !world.gone) {
            stream.waits = true;
            put_in(after, In::arrive);
            next.push_back(after);
        }
    }
    if (world.message) {
        World after = world;
        look(after);
        next.push_back(after);
    }
    if (world.in_flight) {
        World after = world;
        finish(after);
        next.push_back(after);
    }
    if (world.held) {
        World after = world;
        after.held = false;
        look(after);
        next.push_back(after);
    }
    return next;
}

// What may come, or not.
std::vector<World> possible(const World &world, const Rules &rules) {
    std::vector<World> next;
    const auto add = [&](auto change) {
        World after = world;
        change(after);
        next.push_back(after);
    };
    add([](World &w) { put_in(w, In::end); });
    if (world.canceled) add([](World &w) { put_in(w, In::give_up); });
    const bool recorded = rules.graph && !world.in_flight && !world.held && world.told == 0;
    if (recorded) add([](World &w) { w.held = true; });
    bool launched = false;
    for (const Stream &stream : world.streams)
        launched |= stream.waits;
    if (rules.graph && !launched && !world.gone)
        add([](World &w) { w.gone = true, put_in(w, In::finish); });
    return next;
}

void check_world(const World &world) {
    const Ticket::Phase phase = Ticket::phase(world.word);
    CHECK(world.told == (phase == Ticket::over ? 1 : 0));
    CHECK(world.in_flight == (phase == Ticket::running || phase == Ticket::abandoned));
    // Somebody comes for who waits.
    if (phase == Ticket::arrived) CHECK((world.message || world.held));
}

// By what goes on by itself alone, all streams get through.
void check_end(const World &world, const Rules &rules) {
    if (!forced(world, rules).empty()) return;
    for (const Stream &stream : world.streams)
        CHECK_FALSE(stream.waits);
    if (!rules.graph) CHECK(world.told == 1);
    if (world.gone) CHECK(world.told == 1);
}

size_t walk(const Rules &rules) {
    World first{};
    first.word = Ticket::begin(rules.graph);
    std::set<World> known{first};
    for (std::deque<World> open{first}; !open.empty(); open.pop_front()) {
        const World world = open.front();
        check_world(world);
        check_end(world, rules);
        std::vector<World> next = forced(world, rules);
        for (const World &each : possible(world, rules))
            next.push_back(each);
        for (const World &each : next)
            if (known.insert(each).second) open.push_back(each);
    }
    return known.size();
}

}  // namespace

TEST_CASE("each step of a ticket") {
    std::map<std::pair<uint32_t, In>, TicketStep> table;
    for (const Row &row : kTable)
        table[{row.before, row.input}] = {row.after, row.output};
    CHECK(table.size() == std::size(kTable));
    const std::vector<uint32_t> words = reachable_words();
    CHECK(words.size() == 14);
    for (const uint32_t word : words)
        for (const In input : kInputs) {
            CAPTURE(word);
            CAPTURE(static_cast<int>(input));
            const auto row = table.find({word, input});
            const TicketStep same{word, Out::nothing};
            CHECK(step(word, input) == (row == table.end() ? same : row->second));
        }
}

TEST_CASE("what passes is what no run holds") {
    for (const uint32_t word : reachable_words()) {
        const Ticket::Phase phase = Ticket::phase(word);
        const bool holds = phase == Ticket::arrived || phase == Ticket::running;
        CHECK(((word & Ticket::kPasses) == 0) == holds);
    }
}

// The numbers change only with the machine.
TEST_CASE("whatever comes, no stream waits for ever, and there is one event") {
    CHECK(walk({.graph = false, .streams = 1, .launches = 1}) == 13);
    CHECK(walk({.graph = true, .streams = 1, .launches = kLaunches + 1}) == 87);
    CHECK(walk({.graph = true, .streams = 2, .launches = kLaunches}) == 326);
}
