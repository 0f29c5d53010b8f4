// SPDX-License-Identifier: Apache-2.0
// Which connection of two engines lives: one pure function, without I/O, so that a test can walk
// through every interleaving. An `Attempt` is one, from dialing to its end; one of the
// peer's begins with its proof, since whoever has not proved itself may claim any id.
//
// After proof, both sides apply the same three rules:
//   1. A connection that its initiator lists as abandoned, or that the peer has seen and no longer
//   holds, is over; how a READY one ended, its own end tells. A READY one of ours is over, too,
//   when the peer proves itself on another that we answered since: who had it would not, and who
//   has forgotten us can't say that it has seen it.
//   2. Of two initiated by the same side the one that is READY lives; else the first to prove
//   itself.
//   3. Of two under way, one from each side, the one from the smaller engine id lives. A READY one
//   is never beaten.
// The loser is parked, unused, until the winner is READY, and promoted if the winner fails.
// One that the peer has taken in the place of another waits, too, until that other has ended here.
// Another incarnation of the peer waits until the old connection was probed: if that answers, the
// newcomer is refused; if it ends, the newcomer takes over.
#pragma once

#include <cstdint>
#include <utility>

#include "core/base/side.h"
#include "util/fixed_vector.h"
#include "wire/hello.h"

namespace xfer {

enum class Phase : uint8_t {
    dialing,     // ours: no channel yet
    hello_sent,  // ours: hello sent
    held,        // ours: reply verified, proof withheld while an older incarnation is probed
    proving,     // ours: proof sent, waiting for ready
    welcomed,    // ours: ready heard, waiting for the end of the one in whose place it comes
    parked,      // theirs: proven, but another one is preferred for now
    ready,
};

struct Attempt {
    uint64_t number = 0;  // the caller's name for it
    Side side = Side::ours;
    Phase phase = Phase::dialing;
    uint64_t sequence = 0;
    uint64_t incarnation = 0;  // the peer's, 0 while unknown
    bool over = false;         // a ready one, as the peer says: superseded
};

constexpr size_t kMaxAttempts = 6;                 // past so many, none of theirs is taken
constexpr size_t kAttemptRoom = 2 * kMaxAttempts;  // with those of ours

struct PeerState {
    bool ours_smaller = false;  // our engine id is the smaller one
    FixedVector<Attempt, kAttemptRoom> attempts;
    uint64_t last_sequence = 0;  // of ours
    uint64_t abandoned = 0;      // of ours, as the peer was told
    uint64_t seen = 0;           // highest of theirs, in their incarnation
    uint64_t seen_incarnation = 0;
    uint64_t told_seen = 0;  // the same, as the peer was told: none so old is let in any more
    uint64_t given_up = 0;   // of theirs, in that incarnation, as the peer has told
    uint64_t ended = 0;      // highest of theirs, in that incarnation, that was ready
};

struct Input {
    enum Kind : uint8_t {
        dial,      // the owner wants a connection: number, sequence
        up,        // our channel is there
        reply,     // to ours, proof verified: incarnation, statement
        proof,     // theirs has proved itself: number, sequence, incarnation, statement
        ready,     // on ours: statement
        lost,      // the channel ended
        answered,  // a probed connection is alive, or a superseded one had its time for a goodbye
    };
    Kind kind;
    uint64_t number = 0;
    uint64_t sequence = 0;
    uint64_t incarnation = 0;
    Statement statement;
    bool after_ready = false;  // of a proof: our reply was said when the ready one was so already
};

struct Output {
    enum Kind : uint8_t {
        send_hello,
        send_proof,
        send_ready,
        live,       // both ends are ready: use it
        probe,      // ask whether it is alive; answer with `answered` or `lost`
        supersede,  // the same of one that is over, as the peer says, but for its goodbye
        close,      // end it, with `why`; `lost` need not follow
    };
    Kind kind;
    uint64_t number = 0;
    Status why = XFER_OK;
};

// A close with this reason tells the other end that the two have a better connection.
constexpr Status kDuplicate = XFER_EEXIST;

// Each contact is closed at most once, and few words are said.
using Outputs = FixedVector<Output, kAttemptRoom + 4>;

std::pair<PeerState, Outputs> step(PeerState state, const Input &input);

// What there is to tell the peer, and what of it by the connection `number`.
Statement statement_of(const PeerState &state);
Statement statement_by(const PeerState &state, uint64_t number);

const Attempt *live_contact(const PeerState &state);
// Whether another attempt of ours makes sense now.
bool may_dial(const PeerState &state);

}  // namespace xfer
