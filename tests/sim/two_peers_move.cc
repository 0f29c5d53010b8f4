// SPDX-License-Identifier: Apache-2.0
// What happens, done: to the engines' machines and to what is between them.
#include <algorithm>
#include <utility>

#include "two_peers_world.h"

namespace xfer {
namespace {

using Word = HelloKind;

const Attempt *contact_of(const PeerState &state, uint64_t number) {
    for (const Attempt &contact : state.attempts)
        if (contact.number == number) return &contact;
    return nullptr;
}

class Move {
public:
    Move(World &world, std::set<Transition> &transitions)
        : world_(world), transitions_(transitions) {}
    void make(const Happening &what);
    std::string fault;

private:
    uint8_t who(const TwoEnds &attempt, uint8_t end) { return end ? attempt.other : kA; }
    Known &known(const TwoEnds &attempt, uint8_t end) {
        const uint8_t peer = end == attempt.from ? attempt.peer : world_.identity(attempt.other);
        return world_.engines[who(attempt, end)].peers[end ? 0 : peer];
    }
    TwoEnds *find(uint64_t number) { return const_cast<TwoEnds *>(world_.find(number)); }
    void dial(const Happening &what);
    void up(TwoEnds &attempt);
    void deliver(TwoEnds &attempt, uint8_t to);
    void hear_reply(TwoEnds &attempt, const Input &input);
    void take_frames(TwoEnds &attempt, uint8_t to);
    void close_at_will(TwoEnds &attempt, uint8_t end);
    void restart(uint8_t process);
    void vanish(uint8_t process);
    void hear(Known &known, uint8_t end, const Input &input);
    void record(const PeerState &before, const PeerState &after, const Input &input,
                const Outputs &outputs);
    void check_after_ready(const PeerState &before, const PeerState &after, uint8_t end,
                           const Input &input);
    void forget(Known &known);
    void perform(Known &known, uint8_t end, const Output &output);
    void go_live(Known &known, uint8_t end, TwoEnds &attempt);
    void say(TwoEnds &attempt, uint8_t from, Word word);
    void lose();
    void fall(TwoEnds &attempt, uint8_t end);
    void ended(TwoEnds &attempt, uint8_t end);

    World &world_;
    std::set<Transition> &transitions_;
};

void Move::make(const Happening &what) {
    TwoEnds *attempt = find(what.number);
    const uint8_t end = what.who == kA ? 0 : 1;
    const bool disturbs = what.kind >= Happening::cut && what.kind != Happening::data;
    world_.disturbed |= disturbs;
    world_.broken |= disturbs && what.kind != Happening::close && what.kind != Happening::hang;
    switch (what.kind) {
    case Happening::dial:
    case Happening::dial_address:
        dial(what);
        break;
    case Happening::up:
        up(*attempt);
        break;
    case Happening::deliver:
        deliver(*attempt, end);
        break;
    case Happening::frames:
        take_frames(*attempt, end);
        break;
    case Happening::expire:
        ++world_.expiries;
        [[fallthrough]];
    case Happening::notice:
        if (attempt->live[end] && !(attempt->frames[end] & kBye)) lose();
        fall(*attempt, end);
        break;
    case Happening::end:
        ended(*attempt, end);
        break;
    case Happening::pong:
        attempt->probe[1 - end] = Probe::answered;
        break;
    case Happening::answer:
        attempt->probe[end] = Probe::none;
        hear(known(*attempt, end), end, {Input::answered, attempt->number, 0, 0, {}});
        break;
    case Happening::cut:
        attempt->cut = true;
        ++world_.cuts;
        break;
    case Happening::hang:
        attempt->hangs = true;
        ++world_.hangs;
        break;
    case Happening::close:
        close_at_will(*attempt, end);
        break;
    case Happening::data:
        attempt->frames[1 - end] |= kData;
        ++world_.data;
        break;
    case Happening::restart:
        restart(what.who);
        break;
    case Happening::freeze:
        world_.engines[kB].life = Life::frozen;
        world_.engines[kZ].life = Life::alive;
        break;
    case Happening::resume:
        world_.engines[kB].life = Life::alive;
        break;
    case Happening::die:
        vanish(kB);
        world_.engines[kB].life = Life::dead;
        world_.engines[kZ].life = Life::alive;
        break;
    case Happening::forget:
        forget(world_.engines[what.who].peers[what.peer]);
        break;
    }
    std::erase_if(world_.attempts, [](const TwoEnds &over) {
        return over.end[0] == End::gone && over.end[1] == End::gone;
    });
}

void Move::dial(const Happening &what) {
    Engine &engine = world_.engines[what.who];
    const uint8_t end = what.who == kA ? 0 : 1;
    TwoEnds attempt;
    attempt.from = end;
    attempt.other = end ? what.who : what.to;
    attempt.sequence = ++engine.dials;
    attempt.number = what.who * 100 + engine.incarnation * 10 + attempt.sequence;
    attempt.incarnation[end] = engine.incarnation;
    attempt.end[end] = End::open;
    if (what.kind == Happening::dial) attempt.peer = what.peer;
    world_.attempts.push_back(attempt);
    std::sort(world_.attempts.begin(), world_.attempts.end(),
              [](const TwoEnds &a, const TwoEnds &b) { return a.number < b.number; });
    world_.dialed = true;
    if (what.kind == Happening::dial)
        hear(engine.peers[what.peer], end, {Input::dial, attempt.number, attempt.sequence, 0, {}});
    if (!world_.slow) up(*find(attempt.number));
}

void Move::up(TwoEnds &attempt) {
    attempt.up = true;
    if (attempt.peer == kNobody) return say(attempt, attempt.from, Word::hello);
    hear(known(attempt, attempt.from), attempt.from, {Input::up, attempt.number, 0, 0, {}});
}

void Move::deliver(TwoEnds &attempt, uint8_t to) {
    const Word word = std::exchange(attempt.said[to], kSilence);
    const Statement statement = std::exchange(attempt.statement[to], {});
    const uint64_t number = attempt.number, theirs = attempt.incarnation[1 - to];
    switch (word) {
    case Word::hello:
        attempt.end[to] = End::open;
        attempt.incarnation[to] = world_.engines[who(attempt, to)].incarnation;
        if (const Attempt *live = live_contact(known(attempt, to).state))
            attempt.beside = live->number;
        return say(attempt, to, Word::reply);  // before the proof the machine hears nothing of it
    case Word::reply:
        return hear_reply(attempt, {Input::reply, number, 0, theirs, statement});
    case Word::proof:
        return hear(known(attempt, to), to,
                    {Input::proof, number, attempt.sequence, theirs, statement,
                     world_.after_ready(attempt)});
    default:
        return hear(known(attempt, to), to, {Input::ready, number, 0, 0, statement});
    }
}

// Peer::resolve_identity and adopt_dialed: who answers may be another than the one that was dialed,
// or the first whose address this turns out to be.
void Move::hear_reply(TwoEnds &attempt, const Input &input) {
    const uint8_t end = attempt.from, peer = end ? 0 : world_.identity(attempt.other);
    if (attempt.peer != peer) {
        if (attempt.peer != kNobody)
            hear(known(attempt, end), end, {Input::lost, attempt.number, 0, 0, {}});
        attempt.peer = peer;
        PeerState &state = known(attempt, end).state;
        state.attempts.push_back(
            {attempt.number, Side::ours, Phase::hello_sent, attempt.sequence, 0});
        state.last_sequence = std::max(state.last_sequence, attempt.sequence);
        transitions_.insert({Side::ours, Transition::kNone, static_cast<uint8_t>(Phase::hello_sent),
                             true, Transition::kAdopted, 0, XFER_OK});
    }
    hear(known(attempt, end), end, input);
}

void Move::take_frames(TwoEnds &attempt, uint8_t to) {
    const uint8_t frames = std::exchange(attempt.frames[to], uint8_t{0});
    if (!attempt.live[to]) fault = "data arrives at an end that is not live";
    if (frames & kBye) fall(attempt, to);
}

// Idle, evicted, or its last endpoint closed.
void Move::close_at_will(TwoEnds &attempt, uint8_t end) {
    ++world_.closes;
    if (!attempt.cut && attempt.end[1 - end] != End::gone) attempt.frames[1 - end] |= kBye;
    fall(attempt, end);
}

void Move::restart(uint8_t process) {
    Engine &engine = world_.engines[process];
    Engine fresh;
    for (size_t i = 0; i < fresh.peers.size(); ++i)
        fresh.peers[i].state.ours_smaller = engine.peers[i].state.ours_smaller;
    fresh.incarnation = engine.incarnation + 1;
    fresh.restarts = engine.restarts + 1;
    vanish(process);
    engine = fresh;
}

// The process is gone with all its ends, also those that it had not accepted yet.
void Move::vanish(uint8_t process) {
    for (Known &known : world_.engines[process].peers)
        known = {};
    for (TwoEnds &attempt : world_.attempts) {
        if (process != kA && attempt.other != process) continue;
        attempt.cut = true;
        attempt.end[process == kA ? 0 : 1] = End::gone;
    }
}

// PeerTable::review: nobody has a use for it. Sequences are the engine's, and go on.
void Move::forget(Known &known) {
    ++world_.forgets;
    Known fresh;
    fresh.state.ours_smaller = known.state.ours_smaller;
    known = fresh;
}

// ---- what Peer and Connection do

void Move::hear(Known &known, uint8_t end, const Input &input) {
    const Attempt *live = live_contact(known.state);
    const uint64_t was_ready = live ? live->number : 0;
    auto [state, outputs] = step(known.state, input);
    record(known.state, state, input, outputs);
    check_after_ready(known.state, state, end, input);
    known.state = state;
    for (const Output &output : outputs) {
        if (output.kind == Output::close && output.number == was_ready && !world_.disturbed)
            fault = "a ready connection is closed though nothing was cut";
        const TwoEnds *ended = find(output.number);
        const bool heard = ended && ended->end[end] != End::open;
        if (output.kind == Output::close && output.number == was_ready &&
            output.why == XFER_EPEERLOST && !heard && input.kind != Input::answered)
            lose();
        if (output.kind == Output::close && output.why == XFER_EIDENTITY &&
            input.kind != Input::answered)
            fault = "a newcomer is refused without a probe";
        perform(known, end, output);
    }
    const auto &attempts = known.state.attempts;
    if (std::count_if(attempts.begin(), attempts.end(),
                      [](const Attempt &contact) { return contact.phase == Phase::ready; }) > 1)
        fault = "two connections of one side are ready";
}

void Move::record(const PeerState &before, const PeerState &after, const Input &input,
                  const Outputs &outputs) {
    const auto note = [&](const Attempt &contact, const Attempt *old, const Attempt *now) {
        Transition transition{contact.side,
                              old ? static_cast<uint8_t>(old->phase) : Transition::kNone,
                              now ? static_cast<uint8_t>(now->phase) : Transition::kNone,
                              input.number == contact.number,
                              input.kind,
                              0,
                              XFER_OK};
        for (const Output &output : outputs)
            if (output.number == contact.number) {
                transition.outputs |= static_cast<uint8_t>(1u << output.kind);
                if (output.kind == Output::close) transition.why = output.why;
            }
        if (transition.before != transition.after || transition.outputs)
            transitions_.insert(transition);
    };
    for (const Attempt &old : before.attempts)
        note(old, &old, contact_of(after, old.number));
    for (const Attempt &now : after.attempts)
        if (!contact_of(before, now.number)) note(now, nullptr, &now);
    const bool refused = !contact_of(before, input.number) && !contact_of(after, input.number);
    if (input.kind == Input::proof && refused)
        note({input.number, Side::theirs, Phase::parked, 0, 0}, nullptr, nullptr);
}

// Who proves itself when it has heard a reply that was said beside a ready one of ours has that no
// longer, and is not refused for its sake. What it has dialed itself it may not know to be ready.
void Move::check_after_ready(const PeerState &before, const PeerState &after, uint8_t end,
                             const Input &input) {
    const Attempt *live = live_contact(before);
    if (!input.after_ready || live->side == Side::theirs || live->incarnation != input.incarnation)
        return;
    const TwoEnds &old = *find(live->number);
    if (contact_of(known(old, 1 - end).state, old.number))
        fault = "a peer proves itself beside a connection that it has";
    const bool counts = before.seen_incarnation == input.incarnation;
    const bool late = counts && (input.sequence <= std::max(before.told_seen, before.given_up) ||
                                 input.statement.abandoned < before.ended);
    if (!late && !contact_of(after, input.number))
        fault = "a peer is refused for the sake of a connection that it has no longer";
}

void Move::perform(Known &known, uint8_t end, const Output &output) {
    TwoEnds *attempt = find(output.number);
    if (attempt && attempt->end[end] == End::closing && output.kind == Output::supersede)
        return hear(known, end, {Input::answered, output.number, 0, 0, {}});
    if (!attempt || attempt->end[end] != End::open) return;
    switch (output.kind) {
    case Output::send_hello:
        return say(*attempt, end, Word::hello);
    case Output::send_proof:
        return say(*attempt, end, Word::proof);
    case Output::send_ready:
        return say(*attempt, end, Word::ready);
    case Output::live:
        return go_live(known, end, *attempt);
    case Output::probe:
    case Output::supersede:
        if (attempt->probe[end] == Probe::none) attempt->probe[end] = Probe::asked;
        return;
    case Output::close:
        attempt->end[end] = End::closing;
        attempt->cut = true;
        return;
    }
}

// The last one may still be on its way down, but nothing passes on it any more.
void Move::go_live(Known &known, uint8_t end, TwoEnds &attempt) {
    const TwoEnds *last = find(known.live);
    if (last && last->end[end] == End::open) fault = "two connections of one side are in use";
    if (end == attempt.from && !attempt.live[1 - end])
        fault = "a connection is in use where it was dialed, and was not where it was accepted";
    known.live = attempt.number;
    attempt.live[end] = true;
}

void Move::say(TwoEnds &attempt, uint8_t from, Word word) {
    const uint8_t to = 1 - from;
    if (attempt.cut || attempt.end[to] == End::gone) return;
    if (attempt.said[to] != kSilence || attempt.frames[to]) fault = "a message overtakes another";
    attempt.said[to] = word;
    if (word == Word::proof || word == Word::ready)
        attempt.statement[to] = statement_by(known(attempt, from).state, attempt.number);
}

// The application is told that a connection was lost.
void Move::lose() {
    const bool may = world_.broken || world_.third != Third::none;
    if (!may && fault.empty()) fault = "a connection is lost though nothing was cut";
}

// One end gives it up: it saw the end, waited long enough, or wants to.
void Move::fall(TwoEnds &attempt, uint8_t end) {
    attempt.cut = true;
    attempt.end[end] = attempt.end[end] == End::waiting ? End::gone : End::closing;
}

void Move::ended(TwoEnds &attempt, uint8_t end) {
    attempt.end[end] = End::gone;
    attempt.probe[end] = Probe::none;
    attempt.said[end] = kSilence;
    attempt.frames[end] = 0;
    if (end == attempt.from && attempt.peer == kNobody) return;
    Known &known = this->known(attempt, end);
    if (known.live == attempt.number) known.live = 0;
    if (end != attempt.from && !contact_of(known.state, attempt.number)) return;
    hear(known, end, {Input::lost, attempt.number, 0, 0, {}});
}

}  // namespace

std::string make(World &world, const Happening &what, std::set<Transition> &transitions) {
    Move move(world, transitions);
    move.make(what);
    return move.fault;
}

}  // namespace xfer
