// SPDX-License-Identifier: Apache-2.0
#include "two_peers.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/peer_state.h"

namespace xfer {
namespace {

using Word = HelloKind;
constexpr Word kSilence{};

enum class End : uint8_t { waiting, open, closing, gone };  // waiting: in the listener's queue
enum class Probe : uint8_t { none, asked, answered };

// One attempt. What one end says waits for the other in `said`; the protocol never has more than
// one message under way in one direction.
struct Attempt {
    uint64_t number = 0;
    uint8_t from = 0;
    bool anonymous = false;  // dialed by an address: whose it is, its side learns from the reply
    bool cut = false;        // what is said from now on is lost
    uint64_t sequence = 0;
    std::array<uint64_t, 2> incarnation{};
    std::array<End, 2> end{};
    std::array<Probe, 2> probe{};
    std::array<bool, 2> live{};
    std::array<Word, 2> said{};  // on its way to this side
    std::array<Statement, 2> statement{};
};

struct Engine {
    PeerState state;
    uint64_t incarnation = 1;
    uint64_t live = 0;  // Peer::live_: which attempt carries data
    uint8_t dials = 0;
    uint8_t restarts = 0;
};

struct World {
    std::array<Engine, 2> engines;
    std::vector<Attempt> attempts;
    uint8_t cuts = 0;
    bool disturbed = false;  // something was cut, or started anew
};

struct Happening {
    enum Kind : uint8_t { dial, dial_address, deliver, notice, end, pong, answer, cut, restart };
    Kind kind;
    uint8_t side = 0;
    uint64_t number = 0;
};

constexpr std::array<std::string_view, 9> kNames = {
    "dials",        "dials an address", "hears", "sees the end of", "has ended",
    "is probed on", "is answered on",   "loses", "restarts"};

std::string text_of(const Happening &what) {
    std::string text = what.side ? "B " : "A ";
    text += kNames[what.kind];
    if (what.number)
        text +=
            std::string(" ") + (what.number / 100 ? "B" : "A") + std::to_string(what.number % 100);
    return text;
}

// ---- what happens

class Move {
public:
    explicit Move(World &world) : world_(world) {}
    void make(const Happening &what);
    std::string fault;

private:
    void dial(uint8_t side, bool anonymous);
    void deliver(Attempt &attempt, uint8_t to);
    void restart(uint8_t side);
    void hear(uint8_t side, const Input &input);
    void perform(uint8_t side, const Output &output);
    void go_live(uint8_t side, Attempt &attempt);
    void say(Attempt &attempt, uint8_t from, Word word);
    void ended(Attempt &attempt, uint8_t side);
    Attempt *find(uint64_t number) {
        for (Attempt &attempt : world_.attempts)
            if (attempt.number == number) return &attempt;
        return nullptr;
    }

    World &world_;
};

void Move::make(const Happening &what) {
    Attempt *attempt = find(what.number);
    switch (what.kind) {
    case Happening::dial:
        dial(what.side, false);
        break;
    case Happening::dial_address:
        dial(what.side, true);
        break;
    case Happening::deliver:
        deliver(*attempt, what.side);
        break;
    case Happening::notice:
        attempt->end[what.side] =
            attempt->end[what.side] == End::waiting ? End::gone : End::closing;
        break;
    case Happening::end:
        ended(*attempt, what.side);
        break;
    case Happening::pong:
        attempt->probe[1 - what.side] = Probe::answered;
        break;
    case Happening::answer:
        attempt->probe[what.side] = Probe::none;
        hear(what.side, {Input::answered, attempt->number, 0, 0, {}});
        break;
    case Happening::cut:
        attempt->cut = world_.disturbed = true;
        ++world_.cuts;
        break;
    case Happening::restart:
        restart(what.side);
        break;
    }
    std::erase_if(world_.attempts, [](const Attempt &over) {
        return over.end[0] == End::gone && over.end[1] == End::gone;
    });
}

void Move::dial(uint8_t side, bool anonymous) {
    Engine &engine = world_.engines[side];
    Attempt attempt;
    attempt.from = side;
    attempt.anonymous = anonymous;
    attempt.sequence = ++engine.dials;
    attempt.number = side * 100 + engine.incarnation * 10 + attempt.sequence;
    attempt.incarnation[side] = engine.incarnation;
    attempt.end[side] = End::open;
    world_.attempts.push_back(attempt);
    std::sort(world_.attempts.begin(), world_.attempts.end(),
              [](const Attempt &a, const Attempt &b) { return a.number < b.number; });
    if (anonymous) return say(*find(attempt.number), side, Word::hello);
    hear(side, {Input::dial, attempt.number, attempt.sequence, 0, {}});
    hear(side, {Input::up, attempt.number, 0, 0, {}});
}

void Move::deliver(Attempt &attempt, uint8_t to) {
    const Word word = std::exchange(attempt.said[to], kSilence);
    const Statement statement = std::exchange(attempt.statement[to], {});
    const uint64_t number = attempt.number, theirs = attempt.incarnation[1 - to];
    switch (word) {
    case Word::hello:
        attempt.end[to] = End::open;
        attempt.incarnation[to] = world_.engines[to].incarnation;
        return hear(to, {Input::hello, number, attempt.sequence, theirs, {}});
    case Word::reply:
        if (std::exchange(attempt.anonymous, false)) {  // Peer::adopt_greeted
            PeerState &state = world_.engines[to].state;
            state.contacts.push_back({number, Side::ours, Phase::greeted, attempt.sequence, 0});
            state.last_sequence = std::max(state.last_sequence, attempt.sequence);
        }
        return hear(to, {Input::reply, number, 0, theirs, statement});
    case Word::proof:
        return hear(to, {Input::proof, number, 0, 0, statement});
    default:
        return hear(to, {Input::ready, number, 0, 0, statement});
    }
}

// The process is gone with all its ends, also those that it had not accepted yet.
void Move::restart(uint8_t side) {
    Engine &engine = world_.engines[side];
    Engine fresh;
    fresh.state.ours_smaller = engine.state.ours_smaller;
    fresh.incarnation = engine.incarnation + 1;
    fresh.restarts = engine.restarts + 1;
    engine = fresh;
    world_.disturbed = true;
    for (Attempt &attempt : world_.attempts) {
        attempt.cut = true;
        attempt.end[side] = End::gone;
    }
}

// ---- what Peer and Connection do

void Move::hear(uint8_t side, const Input &input) {
    Engine &engine = world_.engines[side];
    const Contact *live = live_contact(engine.state);
    const uint64_t was_ready = live ? live->number : 0;
    auto [state, outputs] = step(std::move(engine.state), input);
    engine.state = std::move(state);
    for (const Output &output : outputs) {
        if (output.kind == Output::close && output.number == was_ready && !world_.disturbed)
            fault = "a ready connection is closed though nothing was cut";
        perform(side, output);
    }
    const auto &contacts = engine.state.contacts;
    if (std::count_if(contacts.begin(), contacts.end(),
                      [](const Contact &contact) { return contact.phase == Phase::ready; }) > 1)
        fault = "two connections of one side are ready";
}

void Move::perform(uint8_t side, const Output &output) {
    Attempt *attempt = find(output.number);
    if (!attempt || attempt->end[side] != End::open) return;
    switch (output.kind) {
    case Output::send_hello:
        return say(*attempt, side, Word::hello);
    case Output::send_reply:
        return say(*attempt, side, Word::reply);
    case Output::send_proof:
        return say(*attempt, side, Word::proof);
    case Output::send_ready:
        return say(*attempt, side, Word::ready);
    case Output::live:
        go_live(side, *attempt);
        return;
    case Output::probe:
        if (attempt->probe[side] == Probe::none) attempt->probe[side] = Probe::asked;
        return;
    case Output::close:
        attempt->end[side] = End::closing;
        attempt->cut = true;
        return;
    }
}

// The last one may still be on its way down, but nothing passes on it any more.
void Move::go_live(uint8_t side, Attempt &attempt) {
    Engine &engine = world_.engines[side];
    const Attempt *last = find(engine.live);
    if (last && last->end[side] == End::open) fault = "two connections of one side are in use";
    engine.live = attempt.number;
    attempt.live[side] = true;
}

void Move::say(Attempt &attempt, uint8_t from, Word word) {
    const uint8_t to = 1 - from;
    if (attempt.cut || attempt.end[to] == End::gone) return;
    if (attempt.said[to] != kSilence) fault = "a message overtakes another";
    attempt.said[to] = word;
    if (word == Word::proof || word == Word::ready)
        attempt.statement[to] = statement_by(world_.engines[from].state, attempt.number);
}

void Move::ended(Attempt &attempt, uint8_t side) {
    attempt.end[side] = End::gone;
    attempt.probe[side] = Probe::none;
    attempt.said[side] = kSilence;
    if (world_.engines[side].live == attempt.number) world_.engines[side].live = 0;
    const bool unknown = attempt.anonymous && side == attempt.from;
    if (!unknown) hear(side, {Input::lost, attempt.number, 0, 0, {}});
}

// ---- what may happen next

// By itself: all of it happens, sooner or later, if nothing else is in its way.
void natural(const World &world, std::vector<Happening> &out) {
    for (const Attempt &attempt : world.attempts)
        for (uint8_t side = 0; side < 2; ++side) {
            const auto add = [&](Happening::Kind kind) {
                out.push_back({kind, side, attempt.number});
            };
            const End end = attempt.end[side];
            if (end == End::closing) add(Happening::end);
            if (end != End::open && end != End::waiting) continue;
            if (attempt.cut) add(Happening::notice);
            if (attempt.said[side] != kSilence) add(Happening::deliver);
            if (attempt.probe[side] == Probe::answered) add(Happening::answer);
            // Ping and pong are frames: they pass where this end is live too.
            const bool passes = !attempt.cut && end == End::open && attempt.live[side];
            if (passes && attempt.probe[1 - side] == Probe::asked) add(Happening::pong);
        }
}

void willful(const World &world, const TwoPeersLimits &limits, std::vector<Happening> &out) {
    for (uint8_t side = 0; side < 2; ++side) {
        const Engine &engine = world.engines[side];
        if (engine.dials < limits.dials[side]) {
            out.push_back({Happening::dial_address, side});
            if (may_dial(engine.state)) out.push_back({Happening::dial, side});
        }
        if (engine.restarts < limits.restarts[side]) out.push_back({Happening::restart, side});
    }
    for (const Attempt &attempt : world.attempts)
        if (!attempt.cut && world.cuts < limits.cuts)
            out.push_back({Happening::cut, attempt.from, attempt.number});
}

// Nothing more happens by itself: both have the same connection, or neither has anything, so that
// either may dial.
std::string judge(const World &world, bool &connected) {
    connected = false;
    const auto &a = world.engines[0].state.contacts, &b = world.engines[1].state.contacts;
    if (a.empty() && b.empty()) {
        if (world.engines[0].dials + world.engines[1].dials && !world.disturbed)
            return "no connection came about though nothing was cut";
        return world.attempts.empty() ? "" : "an attempt that nobody counts";
    }
    if (a.size() != 1 || b.size() != 1) return "an attempt hangs";
    if (a[0].phase != Phase::ready || b[0].phase != Phase::ready)
        return "an attempt hangs half-way";
    if (a[0].number != b[0].number) return "each side has another connection";
    if (world.engines[0].live != a[0].number || world.engines[1].live != a[0].number)
        return "ready, but not in use";
    connected = true;
    return "";
}

// ---- the walk

void write(std::string &to, uint64_t value) {
    to.push_back(static_cast<char>(value));
}

void write(std::string &to, const Statement &statement) {
    write(to, statement.abandoned);
    write(to, statement.seen);
    write(to, statement.held);
}

// All that the future depends on, and nothing else. Every number is small.
std::string key_of(const World &world) {
    std::string key;
    write(key, world.cuts * 2u + world.disturbed);
    for (const Engine &engine : world.engines) {
        const PeerState &state = engine.state;
        for (uint64_t value :
             {uint64_t{engine.dials}, uint64_t{engine.restarts}, engine.incarnation, engine.live,
              state.last_sequence, state.abandoned, state.seen, state.seen_incarnation,
              uint64_t{state.contacts.size()}})
            write(key, value);
        for (const Contact &contact : state.contacts)
            for (uint64_t value : {contact.number, static_cast<uint64_t>(contact.phase),
                                   contact.sequence, contact.incarnation})
                write(key, value);
    }
    for (const Attempt &attempt : world.attempts) {
        write(key, attempt.number);
        write(key, attempt.anonymous * 2u + attempt.cut);
        for (size_t side = 0; side < 2; ++side) {
            write(key, static_cast<uint64_t>(attempt.end[side]) * 64 +
                           static_cast<uint64_t>(attempt.probe[side]) * 16 +
                           attempt.live[side] * 8 + static_cast<uint64_t>(attempt.said[side]));
            write(key, attempt.incarnation[side]);
            write(key, attempt.statement[side]);
        }
    }
    return key;
}

class Walk {
public:
    explicit Walk(const TwoPeersLimits &limits) : limits_(limits) {}
    TwoPeersResult run();

private:
    struct Step {
        uint32_t before;
        Happening what;
    };
    struct Visit {
        World world;
        uint32_t index;
    };
    void tell(const std::string &what, uint32_t index);
    void visit(const Visit &from);

    const TwoPeersLimits limits_;
    TwoPeersResult result_;
    std::deque<Visit> waiting_;
    std::vector<Step> steps_;
    std::unordered_set<std::string> known_;
};

void Walk::tell(const std::string &what, uint32_t index) {
    std::string history;
    for (; index; index = steps_[index].before)
        history = "\n  " + text_of(steps_[index].what) + history;
    result_.fault = what + ":" + history;
}

void Walk::visit(const Visit &from) {
    std::vector<Happening> next;
    natural(from.world, next);
    if (next.empty()) {
        bool connected = false;
        ++result_.quiet;
        if (std::string fault = judge(from.world, connected); !fault.empty())
            return tell(fault, from.index);
        result_.connected += connected;
    }
    willful(from.world, limits_, next);
    for (const Happening &what : next) {
        World world = from.world;
        Move move(world);
        move.make(what);
        if (move.fault.empty() && !known_.insert(key_of(world)).second) continue;
        steps_.push_back({from.index, what});
        const auto index = static_cast<uint32_t>(steps_.size() - 1);
        if (!move.fault.empty()) return tell(move.fault, index);
        waiting_.push_back({std::move(world), index});
    }
}

TwoPeersResult Walk::run() {
    World start;
    start.engines[0].state.ours_smaller = true;
    steps_.push_back({});
    known_.insert(key_of(start));
    waiting_.push_back({std::move(start), 0});
    while (!waiting_.empty() && result_.fault.empty()) {
        visit(waiting_.front());
        waiting_.pop_front();
    }
    result_.states = known_.size();
    return result_;
}

}  // namespace

TwoPeersResult explore_two_peers(const TwoPeersLimits &limits) {
    return Walk(limits).run();
}

}  // namespace xfer
