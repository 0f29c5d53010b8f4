// SPDX-License-Identifier: Apache-2.0
#include "core/connection/keepalive.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"

namespace xfer {

Keepalive::~Keepalive() {
    stop();
}

bool Keepalive::idle() const {
    return connection_.live() && !connection_.sink.busy();
}

bool Keepalive::may_go() const {
    return xfer::may_go(connection_.state(), connection_.shard.now()) && idle() &&
           !connection_.retiring() && connection_.sink.reachable();
}

void Keepalive::offer_end() {
    take_use(connection_.shard.now());  // what is noted later is the peer's sign of life
    connection_.apply({.kind = ConnectionInput::offer_idle_close, .now = connection_.shard.now()});
}

void Keepalive::await_answer(uint64_t until) {
    connection_.shard.loop.arm(offer_, until);
}

void Keepalive::stop() {
    connection_.shard.loop.disarm(offer_);
}

Failure Keepalive::went_idle() {
    return {XFER_ECLOSED, 0, 0, "idle"};
}

void Keepalive::on_timer(Timer &) {
    ShardCore &shard = connection_.shard;
    const uint64_t heartbeat = shard.engine.options().heartbeat_ms * kNsPerMs;
    connection_.apply({.kind = ConnectionInput::offer_timeout,
                       .now = shard.now(),
                       .last_use = last_use_,
                       .patience = lost_after(heartbeat)},
                      went_idle());
}

// The kernel tells of a neighbour that has died, once it is heard where that would be told. Whether
// one is stopped is asked only while somebody waits for it, and once after that.
bool Keepalive::is_quiescent() const {
    const LaneSet &lanes = connection_.lanes;
    return lanes.local.is_open() && lanes.hears_control_on(lanes.control()) && idle() &&
           connection_.usable() && !connection_.state().probing && !connection_.retiring() &&
           connection_.sink.quiescent() && lanes.control().channel->last_heard() > last_use_;
}

// Heartbeats show that the control channel goes through, and nothing of the other lanes, which may
// go by another route of the network, or by another network. True: this one is to be looked at.
bool Keepalive::check_acknowledged(Lane &lane, uint64_t now) {
    const LaneSet &lanes = connection_.lanes;
    const bool has_frames = &lane == &lanes.control() || lanes.hears_control_on(lane);
    if (!lane.channel || lane.is_closed() || has_frames) return false;
    const auto last = lane.channel->last_acknowledged();
    if (!last) lane.unacknowledged = kNever;
    if (!last) return false;
    const ShardCore &shard = connection_.shard;
    const uint64_t patience = unacknowledged_after(shard.engine.options().heartbeat_ms * kNsPerMs);
    const uint64_t before = std::max(std::min(lane.unacknowledged, now), *last);
    lane.unacknowledged = std::min(now, before + shard.heartbeat.absence());
    if (now > lane.unacknowledged + patience)
        lane.channel->close({XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT,
                             "the peer's host acknowledges nothing of what is sent by it"});
    return true;
}

void Keepalive::take_use(uint64_t now) {
    if (std::exchange(used_, false)) last_use_ = now;
}

// A peer that can't be judged by silence is driven when its user has time.
uint64_t Keepalive::settles_after() const {
    if (connection_.handshake.peer_terms().silence_ms) return kSettledNs;
    return lost_after(connection_.shard.engine.options().heartbeat_ms * kNsPerMs);
}

// A peer whose loop does not run for so long is lost itself.
uint64_t Keepalive::lets_in_by() const {
    const uint64_t silence_ms = connection_.handshake.peer_terms().silence_ms;
    const uint64_t limit_ms = connection_.shard.engine.options().connect_ms + silence_ms;
    return silence_ms ? connection_.shard.now() + limit_ms * kNsPerMs : kNever;
}

uint64_t Keepalive::stalls_after() const {
    const uint64_t ours = lost_after(connection_.shard.engine.options().heartbeat_ms * kNsPerMs);
    const uint64_t theirs = connection_.handshake.peer_terms().silence_ms * kNsPerMs;
    return xfer::stalls_after(theirs ? std::min(ours, theirs) : ours);
}

// Each absence of the loop counts for itself: a loop that is often late hears of a dead peer, too.
uint64_t Keepalive::last_heard(uint64_t now) {
    const Heartbeat &heartbeat = connection_.shard.heartbeat;
    const uint64_t last =
        std::max({connection_.lanes.last_heard(), heartbeat.listens_since(), rested_});
    if (last > last_sign_) last_sign_ = heard_ = last, overdue_ = false;
    return heard_ = std::min(now, heard_ + heartbeat.absence());
}

uint64_t Keepalive::check(uint64_t now) {
    if (!is_open(connection_.state())) return kNever;
    take_use(now);
    ShardCore &shard = connection_.shard;
    const auto &options = shard.engine.options();
    const uint64_t heartbeat = options.heartbeat_ms * kNsPerMs;
    const bool ours = connection_.side == Side::ours && connection_.usable();
    const uint64_t idle_end = ours ? last_use_ + options.idle_ms * kNsPerMs : kNever;
    const bool quiescent = is_quiescent();
    if (quiescent) rested_ = now;
    const uint64_t heard = last_heard(now);
    // Who is driven by its user only when it has time says 0: it can't be judged. The others answer
    // each of our pings, so that our own patience counts as well as what the peer asks for.
    const uint64_t silence = connection_.handshake.peer_terms().silence_ms * kNsPerMs;
    const bool silent = silence && pinged_ > last_sign_;
    if (silent && now > heard + std::min(silence, lost_after(heartbeat))) {
        // A loop that is late has not read what came meanwhile.
        if (shard.heartbeat.absence() && !std::exchange(overdue_, true)) return now + kNsPerMs;
        connection_.close({XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT,
                           "the peer is silent: no answer to heartbeats"});
        return kNever;
    }
    bool unacknowledged = false;
    for (const auto &lane : connection_.lanes.all())
        unacknowledged |= check_acknowledged(*lane, now);
    if (now >= idle_end && idle()) {
        offer_end();
    } else if (quiescent && !unacknowledged) {
        return idle_end;
    } else if (now >= heard + ask_after(heartbeat)) {
        pinged_ = now;
        Frame ping;
        ping.type = FrameType::ping;
        connection_.send(ping);
    }
    return now + shard.heartbeat.step();
}

}  // namespace xfer
