// SPDX-License-Identifier: Apache-2.0
#include "two_peers_world.h"

#include <string_view>

namespace xfer {

World::World(const TwoPeersLimits &limits) : third(limits.third), slow(limits.slow) {
    for (uint8_t i = 0; i < engines.size(); ++i)
        for (Known &known : engines[i].peers)
            known.state.ours_smaller = (i == kA) != limits.a_larger;
    if (third != Third::twin) engines[kZ].life = Life::absent;
    engines[kZ].incarnation = 3;  // neither of B's
}

const TwoEnds *World::find(uint64_t number) const {
    for (const TwoEnds &attempt : attempts)
        if (attempt.number == number) return &attempt;
    return nullptr;
}

bool World::after_ready(const TwoEnds &attempt) const {
    const uint8_t to = 1 - attempt.from;
    const Engine &engine = engines[to ? attempt.other : kA];
    const Attempt *live = live_contact(engine.peers[to ? 0 : identity(attempt.other)].state);
    return live && live->number == attempt.beside;
}

// ---- what may happen next

namespace {

const Attempt *contact_of(const World &world, const TwoEnds &attempt, uint8_t end) {
    const Engine &engine = world.engines[end ? attempt.other : kA];
    const Known &known = engine.peers[end ? 0 : world.identity(attempt.other)];
    for (const Attempt &contact : known.state.attempts)
        if (contact.number == attempt.number) return &contact;
    return nullptr;
}

// One that is over, as the peer says, has some time for its goodbye.
bool is_over(const World &world, const TwoEnds &attempt, uint8_t end) {
    const Attempt *contact = contact_of(world, attempt, end);
    return contact && contact->phase == Phase::ready && contact->over;
}

// What comes behind the ready waits as long as this end does.
bool is_welcomed(const World &world, const TwoEnds &attempt, uint8_t end) {
    const Attempt *contact = contact_of(world, attempt, end);
    return contact && contact->phase == Phase::welcomed;
}

// Nothing is left with that peer but what was learned of it, and no end is on its way down.
bool may_forget(const World &world, uint8_t who, uint8_t peer) {
    const PeerState &state = world.engines[who].peers[peer].state;
    if (!state.attempts.empty() || state.last_sequence + state.seen_incarnation == 0) return false;
    for (const TwoEnds &attempt : world.attempts)
        if ((who == kA || attempt.other == who) && attempt.end[who != kA] == End::closing)
            return false;
    return true;
}

}  // namespace

void natural(const World &world, std::vector<Happening> &out) {
    for (const TwoEnds &attempt : world.attempts)
        for (uint8_t end = 0; end < 2; ++end) {
            const auto add = [&](Happening::Kind kind) {
                out.push_back({kind, end ? attempt.other : kA, attempt.number});
            };
            const bool frozen = world.frozen(attempt);
            if (end && frozen) continue;
            const End state = attempt.end[end];
            if (state == End::closing) add(Happening::end);
            if (state != End::open && state != End::waiting) continue;
            // Who waits for one that is frozen gives up: the handshake, the probe, the heartbeat.
            if (attempt.cut || frozen) add(Happening::notice);
            const bool rises = !attempt.up && !attempt.hangs && !attempt.cut;
            if (rises && end == attempt.from) add(Happening::up);
            if (attempt.said[end] != kSilence)
                add(Happening::deliver);
            else if (attempt.frames[end] && !is_welcomed(world, attempt, end))
                add(Happening::frames);
            if (attempt.probe[end] == Probe::answered || is_over(world, attempt, end))
                add(Happening::answer);
            // Ping and pong are frames: they pass where this end is live too.
            const bool passes = !attempt.cut && state == End::open && attempt.live[end];
            if (passes && attempt.probe[1 - end] == Probe::asked) add(Happening::pong);
        }
}

void dials(const World &world, const std::array<uint8_t, 3> &limits, std::vector<Happening> &out) {
    const auto add = [&](uint8_t who, uint8_t to, uint8_t peer, bool met) {
        out.push_back({Happening::dial_address, who, 0, to, peer});
        if (met && may_dial(world.engines[who].peers[peer].state))
            out.push_back({Happening::dial, who, 0, to, peer});
    };
    for (uint8_t who = 0; who < world.engines.size(); ++who) {
        const Engine &engine = world.engines[who];
        if (engine.dials >= limits[who] || engine.life != Life::alive) continue;
        if (who != kA) {
            add(who, kA, 0, true);
            continue;
        }
        const Life b = world.engines[kB].life, z = world.engines[kZ].life;
        if (b == Life::alive || b == Life::frozen) add(kA, kB, 0, true);
        if (z != Life::alive) continue;
        add(kA, kZ, 0, true);  // an address of B's
        const PeerState &heir = engine.peers[1].state;
        if (may_dial(heir) && heir.last_sequence + heir.seen_incarnation > 0)
            out.push_back({Happening::dial, kA, 0, kZ, 1});
    }
}

void disturbances(const World &world, const TwoPeersLimits &limits, std::vector<Happening> &out) {
    for (uint8_t who : {kA, kB})
        if (world.engines[who].restarts < limits.restarts[who] &&
            world.engines[who].life == Life::alive)
            out.push_back({Happening::restart, who});
    if (world.engines[kZ].life == Life::absent && limits.third != Third::none)
        out.push_back({limits.third == Third::heir ? Happening::die : Happening::freeze, kB});
    if (world.engines[kB].life == Life::frozen) out.push_back({Happening::resume, kB});
    if (world.forgets < limits.forgets)
        for (uint8_t who : {kA, kB})
            for (uint8_t peer = 0; peer < (who == kA ? 2 : 1); ++peer)
                if (world.engines[who].life == Life::alive && may_forget(world, who, peer))
                    out.push_back({Happening::forget, who, 0, kB, peer});
    for (const TwoEnds &attempt : world.attempts) {
        if (!attempt.cut && world.cuts < limits.cuts)
            out.push_back({Happening::cut, attempt.from ? attempt.other : kA, attempt.number});
        for (uint8_t end = 0; end < 2; ++end) {
            if (end && world.frozen(attempt)) continue;
            const auto add = [&](Happening::Kind kind) {
                out.push_back({kind, end ? attempt.other : kA, attempt.number});
            };
            const bool open = attempt.end[end] == End::open;
            const bool young = !attempt.live[end] && (open || attempt.end[end] == End::waiting);
            if (young && world.expiries < limits.expiries) add(Happening::expire);
            const bool rising = open && !attempt.up && !attempt.hangs && !attempt.cut;
            if (rising && world.hangs < limits.hangs) add(Happening::hang);
            if (!open || !attempt.live[end]) continue;
            if (world.closes < limits.closes) add(Happening::close);
            if (world.data < limits.data && !attempt.cut) add(Happening::data);
        }
    }
}

std::string text_of(const Happening &what) {
    constexpr std::array<std::string_view, 19> kNames = {"dials",
                                                         "dials an address of",
                                                         "reaches on",
                                                         "hears",
                                                         "hears frames on",
                                                         "sees the end of",
                                                         "has ended",
                                                         "is probed on",
                                                         "is answered on",
                                                         "loses",
                                                         "closes",
                                                         "waits no longer for",
                                                         "never comes up on",
                                                         "sends data on",
                                                         "restarts",
                                                         "freezes",
                                                         "resumes",
                                                         "dies",
                                                         "forgets its peer"};
    constexpr std::string_view kEngines = "ABZ";
    std::string text = std::string(1, kEngines[what.who]) + " " + std::string(kNames[what.kind]);
    if (what.kind <= Happening::dial_address)
        text += std::string(" ") + kEngines[what.who == kA ? what.to : kA];
    if (what.number)
        text += std::string(" ") + kEngines[what.number / 100] + std::to_string(what.number % 100);
    return text;
}

// ---- where nothing more happens by itself

namespace {

// A and one of the others have the same connection, or neither has anything.
std::string judge_pair(const World &world, uint8_t other, bool &connected) {
    const Known &ours = world.engines[kA].peers[world.identity(other)];
    const Known &theirs = world.engines[other].peers[0];
    const Attempt *a = nullptr, *b = nullptr;
    for (const Attempt &contact : ours.state.attempts)
        if (const TwoEnds *attempt = world.find(contact.number); attempt && attempt->other == other)
            a = &contact;
    if (theirs.state.attempts.size() > 1) return "an attempt hangs";
    if (theirs.state.attempts.size()) b = &theirs.state.attempts[0];
    if (!a && !b) return "";
    if (!a || !b) return "an attempt hangs";
    if (a->phase != Phase::ready || b->phase != Phase::ready) return "an attempt hangs half-way";
    if (a->number != b->number) return "each side has another connection";
    if (a->incarnation != world.engines[other].incarnation ||
        b->incarnation != world.engines[kA].incarnation)
        return "connected with an incarnation that is no more";
    if (ours.live != a->number || theirs.live != a->number) return "ready, but not in use";
    connected = true;
    return "";
}

// What never comes up is in nobody's way.
World without_hanging(World world) {
    const auto hangs = [&](const Attempt &contact) {
        const TwoEnds *attempt = world.find(contact.number);
        return attempt && attempt->hangs;
    };
    for (Engine &engine : world.engines)
        for (Known &known : engine.peers)
            known.state.attempts.erase_if(hangs);
    std::erase_if(world.attempts, [](const TwoEnds &attempt) { return attempt.hangs; });
    return world;
}

}  // namespace

std::string judge(const World &all, bool &connected) {
    const World world = without_hanging(all);
    connected = false;
    size_t counted = 0;
    for (const Known &known : world.engines[kA].peers) {
        if (known.state.attempts.size() > 1) return "an attempt hangs";
        counted += known.state.attempts.size();
    }
    for (uint8_t other : {kB, kZ}) {
        if (world.engines[other].life == Life::frozen) continue;
        if (std::string fault = judge_pair(world, other, connected); !fault.empty()) return fault;
    }
    for (const TwoEnds &attempt : world.attempts)
        if (attempt.end[0] == End::gone && world.frozen(attempt)) ++counted;
    if (counted != world.attempts.size()) return "an attempt that nobody counts";
    if (!connected && world.dialed && !world.disturbed)
        return "no connection came about though nothing was cut";
    return "";
}

// ---- the key

namespace {

void write(std::string &to, uint64_t value) {
    to.push_back(static_cast<char>(value));
}

void write(std::string &to, const Statement &statement) {
    write(to, statement.abandoned);
    write(to, statement.seen);
    write(to, statement.held);
}

void write(std::string &to, const Known &known) {
    const PeerState &state = known.state;
    for (uint64_t value :
         {known.live, state.last_sequence, state.abandoned, state.seen, state.seen_incarnation,
          state.told_seen, state.given_up, state.ended, uint64_t{state.attempts.size()}})
        write(to, value);
    for (const Attempt &contact : state.attempts)
        for (uint64_t value : {contact.number, static_cast<uint64_t>(contact.phase),
                               contact.sequence, contact.incarnation, uint64_t{contact.over}})
            write(to, value);
}

}  // namespace

// Every number is small.
std::string World::key() const {
    std::string key;
    write(key, broken * 4u + disturbed * 2u + (dialed && !disturbed));
    for (uint64_t value : {cuts, closes, expiries, hangs, data, forgets})
        write(key, value);
    const size_t others = third == Third::none ? 2 : 3;
    for (size_t i = 0; i < others; ++i) {
        const Engine &engine = engines[i];
        for (uint64_t value : {static_cast<uint64_t>(engine.life), uint64_t{engine.dials},
                               uint64_t{engine.restarts}, engine.incarnation})
            write(key, value);
        write(key, engine.peers[0]);
        if (i == kA && third == Third::heir) write(key, engine.peers[1]);
    }
    for (const TwoEnds &attempt : attempts) {
        // What was ready at the reply counts until the proof is heard.
        const uint8_t to = 1 - attempt.from;
        const bool counts = attempt.end[to] == End::open && !contact_of(*this, attempt, to);
        write(key, attempt.number);
        write(key, (counts && after_ready(attempt)) * 128u + attempt.hangs * 64u +
                       attempt.other * 16u + attempt.peer * 4u + attempt.up * 2u + attempt.cut);
        for (size_t end = 0; end < 2; ++end) {
            write(key, static_cast<uint64_t>(attempt.end[end]) * 64 +
                           static_cast<uint64_t>(attempt.probe[end]) * 16 + attempt.live[end] * 8 +
                           static_cast<uint64_t>(attempt.said[end]));
            write(key, attempt.frames[end]);
            write(key, attempt.incarnation[end]);
            write(key, attempt.statement[end]);
        }
    }
    return key;
}

}  // namespace xfer
