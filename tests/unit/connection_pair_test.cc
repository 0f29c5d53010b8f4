// SPDX-License-Identifier: Apache-2.0
// Both ends of one connection, joined by what is on its way between them, and every order in which
// that can go: work, offers to end what is idle, drains, probes, closes. Each end runs the
// library's own state machine; what is modelled is what Connection and Flow do with it. Breadth
// first, so that what goes wrong is told by a shortest history.
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "connection_text.h"

using namespace xfer;

namespace {

using State = ConnectionState;
using In = ConnectionInput;
using Out = ConnectionOutput;

constexpr uint64_t kNow = 10'000 * kNsPerMs;

enum class Word : uint8_t {
    proof,
    ready,
    offer,
    denial,
    drain,
    done,
    ping,
    pong,
    work,
    result,
    bye,
    end,  // of the channel
};

// What may happen at one end, beside what follows from it.
struct Budget {
    int works = 0, late_works = 0, offers = 0, drains = 0, probes = 0, timeouts = 0, closes = 0;
    auto operator<=>(const Budget &) const = default;
};

struct End {
    State state;
    Budget left;
    bool begun = false;    // work of its own is under way
    bool waits = false;    // or cannot begin yet
    bool drains = false;   // its engine
    std::deque<Word> way;  // to the other end
    auto operator<=>(const End &) const = default;
};

struct World {
    End ends[2];
    auto operator<=>(const World &) const = default;
};

struct Limits {
    Budget a, b;
    bool met = false;  // past the handshake
};

class Move {
public:
    Move(const World &from, int at) : world(from), me_(world.ends[at]), peer_(world.ends[1 - at]) {}
    World world;
    std::string fault;

    bool prove();
    bool hear();
    bool begin_work();
    bool begin_late_work();
    bool give_up_waiting();
    bool offer();
    bool drain();
    bool probe();
    bool offer_timeout();
    bool close();
    bool lanes_down();

private:
    bool idle() const { return !me_.begun && !me_.waits; }
    void say(Word word) {
        if (!is_closing(me_.state)) me_.way.push_back(word);
    }
    void expect(bool holds, const char *what) {
        if (!holds && fault.empty()) fault = what;
    }
    void take(In input);
    void perform(const Out &output);
    void hear(Word word);
    void go_live();
    void start_waiting();
    void work_ended();
    void leave_when_quiet();

    End &me_, &peer_;
};

void Move::take(In input) {
    input.now = kNow;
    if (!input.status) input.status = XFER_ECLOSED;
    const auto [state, outputs] = step(me_.state, input);
    const bool closes = is_closing(state) && !is_closing(me_.state);
    if (closes && input.kind == In::idle_close_offered)
        expect(!me_.begun, "an idle close takes work with it");
    me_.state = state;
    for (const Out &output : outputs)
        perform(output);
}

void Move::perform(const Out &output) {
    switch (output.kind) {
    case Out::send_offer:
        return say(Word::offer);
    case Out::send_denial:
        return say(Word::denial);
    case Out::send_drain:
        return say(Word::drain);
    case Out::send_done:
        expect(!me_.begun, "done, with work under way");
        return say(Word::done);
    case Out::send_ping:
        return say(Word::ping);
    case Out::resume:
        return start_waiting();
    case Out::drain:
        return take({.kind = In::drain, .idle = idle()});
    case Out::close:
        if (output.status) me_.way.push_back(Word::bye);
        me_.way.push_back(Word::end);
        return;
    default:
        return;
    }
}

void Move::go_live() {
    take({.kind = In::live});
    start_waiting();
    if (me_.drains) take({.kind = In::drain, .idle = idle()});
}

void Move::start_waiting() {
    if (!me_.waits || !takes_new(me_.state)) return;
    me_.waits = false;
    me_.begun = true;
    say(Word::work);
}

void Move::work_ended() {
    if (me_.drains) take({.kind = In::drain, .idle = idle()});
    leave_when_quiet();
}

void Move::leave_when_quiet() {
    if (awaits_quiet(me_.state) && !me_.begun) take({.kind = In::quiesced});
}

// What an end hears once it is closing is thrown away.
bool Move::hear() {
    if (peer_.way.empty()) return false;
    const Word word = peer_.way.front();
    peer_.way.pop_front();
    if (!is_closing(me_.state)) hear(word);
    return true;
}

void Move::hear(Word word) {
    const bool open = is_open(me_.state);
    if (word > Word::ready && word != Word::bye && word != Word::end)
        expect(open, "a frame before the handshake is over");
    switch (word) {
    case Word::proof:
        expect(!open, "a proof of one that is live");
        say(Word::ready);
        return go_live();
    case Word::ready:
        expect(me_.state.proved && !open, "ready before the proof");
        return go_live();
    case Word::offer:
        return take({.kind = In::idle_close_offered, .idle = idle()});
    case Word::denial:
        expect(me_.state.phase == State::Phase::offered, "a denial of what was not offered");
        return take({.kind = In::idle_close_denied});
    case Word::drain:
        expect(me_.state.theirs == State::Drain::none, "a second drain");
        return take({.kind = In::peer_drain});
    case Word::done:
        expect(me_.state.theirs == State::Drain::said, "done without a drain, or again");
        take({.kind = In::peer_done});
        return leave_when_quiet();
    case Word::ping:
        return say(Word::pong);
    case Word::pong:
        expect(me_.state.probing, "a pong that nobody asked for");
        return take({.kind = In::pong});
    case Word::work:
        expect(me_.state.theirs != State::Drain::done, "work behind done");
        return say(Word::result);
    case Word::result:
        expect(me_.begun, "a result of nothing");
        me_.begun = false;
        return work_ended();
    case Word::bye:
    case Word::end:
        return take(
            {.kind = In::close, .status = word == Word::bye ? XFER_ECLOSED : XFER_EPEERLOST});
    }
}

bool Move::prove() {
    if (me_.state.phase != State::Phase::handshake || me_.state.proved) return false;
    say(Word::proof);
    take({.kind = In::proved});
    return true;
}

bool Move::begin_work() {
    if (me_.begun || me_.waits || me_.drains || is_closing(me_.state) || me_.left.works-- == 0)
        return false;
    me_.waits = true;
    start_waiting();
    return true;
}

// It comes from another loop, while this engine drains.
bool Move::begin_late_work() {
    if (me_.begun || me_.waits || !me_.drains || is_closing(me_.state) ||
        me_.left.late_works-- == 0)
        return false;
    me_.waits = true;
    start_waiting();
    return true;
}

// At its deadline.
bool Move::give_up_waiting() {
    if (!me_.waits) return false;
    me_.waits = false;
    work_ended();
    return true;
}

bool Move::offer() {
    if (!is_usable(me_.state) || !idle() || me_.left.offers-- == 0) return false;
    take({.kind = In::offer_idle_close});
    return true;
}

bool Move::drain() {
    if (me_.drains || me_.left.drains-- == 0) return false;
    me_.drains = true;
    take({.kind = In::drain, .idle = idle()});
    return true;
}

bool Move::probe() {
    if (!is_open(me_.state) || me_.left.probes-- == 0) return false;
    take({.kind = In::probe});
    return true;
}

bool Move::offer_timeout() {
    if (me_.state.phase != State::Phase::offered || me_.left.timeouts-- == 0) return false;
    take({.kind = In::offer_timeout});
    return true;
}

bool Move::close() {
    if (is_closing(me_.state) || me_.left.closes-- == 0) return false;
    take({.kind = In::close, .status = XFER_ECLOSED});
    return true;
}

// Work goes with the connection, and waits for the next one.
bool Move::lanes_down() {
    if (me_.state.phase != State::Phase::closing) return false;
    take({.kind = In::lanes_down});
    me_.waits = false;
    return true;
}

const std::pair<const char *, bool (Move::*)()> kMoves[] = {
    {"hears", &Move::hear},
    {"begins work", &Move::begin_work},
    {"begins work that comes late", &Move::begin_late_work},
    {"gives up what waits", &Move::give_up_waiting},
    {"offers", &Move::offer},
    {"drains", &Move::drain},
    {"probes", &Move::probe},
    {"has waited for an answer", &Move::offer_timeout},
    {"closes", &Move::close},
    {"is down", &Move::lanes_down},
};

struct Found {
    size_t states = 0, quiet = 0, ended = 0;
    std::string fault;
};

// In which nothing more happens by itself.
std::string fault_of_quiet(const World &world) {
    const End &a = world.ends[0], &b = world.ends[1];
    const auto ended = [](const End &end) { return end.state.phase == State::Phase::ended; };
    if (ended(a) != ended(b)) return "one end lives on alone";
    if (ended(a)) return "";
    if (a.drains || b.drains) return "a drain that does not end";
    for (const End &end : world.ends) {
        if (!is_usable(end.state)) return "an offer that nobody answers";
        if (end.begun || end.waits) return "work that does not end";
        if (end.state.probing) return "a probe that nobody answers";
    }
    return "";
}

// In peace nothing is lost: neither a close nor the time has a part in it.
std::string fault_in_peace(const World &world) {
    for (const End &end : world.ends)
        if (end.begun && end.state.phase == State::Phase::ended) return "work is lost";
    return "";
}

class Walk {
public:
    Walk(const Limits &limits) {
        World first;
        first.ends[0].left = limits.a;
        first.ends[1].left = limits.b;
        peace_ = limits.a.timeouts + limits.a.closes + limits.b.timeouts + limits.b.closes == 0;
        for (End &end : first.ends)
            if (limits.met) end.state = step(end.state, {.kind = In::live}).first;
        note(first, nullptr, "");
    }
    Found run() {
        while (!open_.empty() && result_.fault.empty()) {
            const World *world = open_.front();
            open_.pop_front();
            visit(*world);
        }
        result_.states = known_.size();
        return result_;
    }

private:
    struct Origin {
        const World *from;
        std::string by;
    };
    void visit(const World &world) {
        bool moved = false;
        for (int at = 0; at < 2; ++at) {
            if (at == 0) moved |= move(world, at, "proves", &Move::prove);
            for (const auto &[name, what] : kMoves)
                moved |= move(world, at, name, what);
        }
        std::string fault = peace_ ? fault_in_peace(world) : "";
        if (!moved) {
            ++result_.quiet;
            if (world.ends[0].state.phase == State::Phase::ended) ++result_.ended;
            if (fault.empty()) fault = fault_of_quiet(world);
        }
        if (!fault.empty()) fail(world, "", fault);
    }
    // A budget that is spent is no move: what it has taken goes with it.
    bool move(const World &world, int at, const char *name, bool (Move::*what)()) {
        Move made(world, at);
        if (!(made.*what)()) return false;
        const std::string by = std::string(at ? "b " : "a ") + name;
        if (!made.fault.empty())
            fail(world, by, made.fault);
        else
            note(made.world, &world, by);
        return true;
    }
    void note(const World &world, const World *from, const std::string &by) {
        const auto [at, fresh] = known_.emplace(world, Origin{from, by});
        if (fresh) open_.push_back(&at->first);
    }
    void fail(const World &world, const std::string &by, const std::string &fault) {
        if (!result_.fault.empty()) return;
        std::string history = by;
        for (const World *at = &world; at; at = known_.at(*at).from)
            history.insert(0, known_.at(*at).by + "; ");
        result_.fault = fault + ": " + history + " (a: " + text_of(world.ends[0].state) +
                        "; b: " + text_of(world.ends[1].state) + ")";
    }

    std::map<World, Origin> known_;
    std::deque<const World *> open_;
    bool peace_ = false;
    Found result_;
};

struct Row {
    std::string what;
    Limits limits;
    struct {
        size_t states, quiet, ended;
    } counts;
};

// Exact numbers: they change only with the state machine, or with what the model lets happen.
const Row kRows[] = {
    {"work of both", {{.works = 2}, {.works = 2}}, {132, 1, 0}},
    {"both offer twice, both work",
     {{.works = 2, .offers = 2}, {.works = 2, .offers = 2}, true},
     {4854, 76, 75}},
    {"one drains", {{.works = 1, .drains = 1}, {.works = 1}}, {246, 4, 4}},
    {"both drain", {{.works = 2, .drains = 1}, {.works = 2, .drains = 1}, true}, {2805, 39, 39}},
    {"one drains, and has work all the same",
     {{.works = 1, .late_works = 1, .drains = 1}, {.works = 1}},
     {566, 8, 8}},
    {"one offers, one drains",
     {{.works = 1, .offers = 1}, {.works = 1, .drains = 1}, true},
     {836, 14, 14}},
    {"one offers and drains",
     {{.works = 1, .offers = 1, .drains = 1}, {.works = 1}, true},
     {915, 18, 18}},
    {"both offer and drain, one probes",
     {{.works = 1, .offers = 1, .drains = 1, .probes = 1},
      {.works = 1, .offers = 1, .drains = 1},
      true},
     {58220, 441, 441}},
    {"offers, and one is not answered in time",
     {{.works = 1, .offers = 2, .timeouts = 1}, {.works = 1, .offers = 1, .drains = 1}, true},
     {11332, 135, 135}},
    {"both close, from the first word on",
     {{.works = 1, .offers = 1, .closes = 1}, {.works = 1, .drains = 1, .closes = 1}},
     {18686, 224, 224}},
};

}  // namespace

TEST_CASE("however two ends meet and part, they agree, and nothing is lost in peace") {
    for (const Row &row : kRows) {
        CAPTURE(row.what);
        const Found result = Walk(row.limits).run();
        MESSAGE(row.what << ": " << result.states << " states, " << result.quiet << " quiet, "
                         << result.ended << " of them ended");
        CHECK(result.fault == "");
        CHECK(result.states == row.counts.states);
        CHECK(result.quiet == row.counts.quiet);
        CHECK(result.ended == row.counts.ended);
    }
}
