// SPDX-License-Identifier: Apache-2.0
// The life of one connection, from the handshake to the end of its lanes, as one pure function,
// without I/O and without a clock: a test walks through all its states, and through every order in
// which the frames of two ends can meet. Connection carries the outputs out, in their order.
//
// Four things go on beside each other: the phase, the drain of this end, that of the peer, and a
// probe. An end by agreement loses nothing:
//   1. Who offers to end an idle connection begins nothing on it until the peer answers. The peer
//   ends it, or says no; one that says nothing has nothing to say.
//   2. Who drains says so, and says it again when nothing of its own is under way; from then on it
//   begins nothing. The peer begins nothing from the first word on, and ends the connection after
//   the second, when nothing that it has begun is under way.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

#include "core/base/limits.h"
#include "util/fixed_vector.h"
#include "util/status.h"

namespace xfer {

struct ConnectionState {
    enum class Phase : uint8_t {
        handshake,
        live,
        offered,  // live, and we have offered to end it, since it is idle
        closing,  // its lanes are on their way down
        ended,    // they are down
    };
    enum class Drain : uint8_t {
        none,
        wanted,  // ours alone: it cannot be said before the answer to our offer
        said,
        done,  // nothing of who drains is under way
    };

    Phase phase = Phase::handshake;
    Drain ours = Drain::none, theirs = Drain::none;
    bool proved = false;     // we have said our proof
    bool lived = false;      // it came to be live
    bool left_idle = false;  // it ends, or is offered to, since nobody uses it
    bool probing = false;    // a newcomer waits for its sign of life, or for its goodbye
    bool superseded = false;
    uint64_t offered_at = 0, denied_at = 0;

    auto operator<=>(const ConnectionState &) const = default;
};

struct ConnectionInput {
    enum Kind : uint8_t {
        proved,              // our proof was said
        live,                // both ends are ready
        offer_idle_close,    // nobody uses it here: now
        idle_close_offered,  // by the peer: idle
        idle_close_denied,   // now
        offer_timeout,       // now, last_use, patience
        drain,               // our engine drains, or something of ours has ended since: idle
        peer_drain,
        peer_done,
        quiesced,   // nothing that we have begun is under way
        probe,      // is it alive? now
        supersede,  // the peer has another one in its place, so it is over: now
        pong,
        probe_timeout,
        close,       // for any other reason
        lanes_down,  // all of them
    };
    Kind kind;
    // Nothing of ours is under way or waits; of an offer of the peer: and we could come back.
    bool idle = false;
    Status status = XFER_OK;  // why it ends, if this ends it
    uint64_t now = 0, last_use = 0;
    uint64_t patience = 0;  // with a peer that has used it since we have offered
};

struct ConnectionOutput {
    enum Kind : uint8_t {
        begin,
        send_offer,
        send_denial,
        send_drain,
        send_done,
        send_ping,
        arm_offer,  // until
        disarm_offer,
        arm_probe,  // until
        disarm_probe,
        count_offer,    // one more is about to leave
        uncount_offer,  // it stays
        resume,         // what has come while we had offered
        drain,          // the same input once more: it may be said now
        put_off,        // what waits for a name at the peer
        answered,       // the probe; or the time for a goodbye is over
        close,          // all lanes, behind a bye with `status` if it is not XFER_OK
        end,            // nothing more comes
    };
    Kind kind;
    uint64_t until = 0;
    Status status = XFER_OK;
};

using ConnectionOutputs = FixedVector<ConnectionOutput, 4>;

std::pair<ConnectionState, ConnectionOutputs> step(ConnectionState state,
                                                   const ConnectionInput &input);

// Frames may be said, and are heard.
inline bool is_open(const ConnectionState &state) {
    return state.phase == ConnectionState::Phase::live ||
           state.phase == ConnectionState::Phase::offered;
}

inline bool is_closing(const ConnectionState &state) {
    return state.phase >= ConnectionState::Phase::closing;
}

inline bool is_usable(const ConnectionState &state) {
    return state.phase == ConnectionState::Phase::live;
}

// Not once an end drains, nor once we have said that we are done: what comes to us later waits for
// a connection of its own.
inline bool takes_new(const ConnectionState &state) {
    return is_usable(state) && state.theirs == ConnectionState::Drain::none &&
           state.ours != ConnectionState::Drain::done;
}

// To make room. A peer that said no is left alone for a while.
inline bool may_go(const ConnectionState &state, uint64_t now) {
    return is_usable(state) && !state.probing && now >= state.denied_at + kBusyMs * kNsPerMs;
}

// `quiesced` would end it.
inline bool awaits_quiet(const ConnectionState &state) {
    return is_open(state) && state.theirs == ConnectionState::Drain::done;
}

}  // namespace xfer
