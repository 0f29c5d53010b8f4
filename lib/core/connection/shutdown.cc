// SPDX-License-Identifier: Apache-2.0
// How a connection is kept, and how it ends in peace: signs of life, offers to end what nobody
// uses, the drain.
#include <algorithm>
#include <cerrno>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"

namespace xfer {

namespace {

Failure went_idle() {
    return {XFER_ECLOSED, 0, 0, "idle"};
}

}  // namespace

// An offer to end an idle connection, the answer to ours, or the peer's last words.
void Connection::on_leave(const Frame &frame) {
    if (frame.status == XFER_EBUSY)
        return apply({.kind = ConnectionInput::idle_close_denied, .now = shard.now()});
    if (frame.status != XFER_EAGAIN)
        return close({frame.status, XFER_ORIGIN_PEER, frame.status, "the peer said goodbye"});
    apply({.kind = ConnectionInput::idle_close_offered, .idle = idle() && sink.reachable()},
          went_idle());
}

void Connection::resume() {
    touch();
    sink.ask_waiting();
    sink.pump();
}

void Connection::drain() {
    apply({.kind = ConnectionInput::drain, .idle = idle()});
}

void Connection::on_drain(const Frame &frame) {
    apply({.kind = frame.seq ? ConnectionInput::peer_done : ConnectionInput::peer_drain});
    leave_when_quiet();
}

void Connection::leave_when_quiet() {
    if (!awaits_quiet(state_) || !sink.quiet()) return;
    apply({.kind = ConnectionInput::quiesced},
          {XFER_ECLOSED, XFER_ORIGIN_PEER, XFER_ECLOSED, "the peer drains"});
}

bool Connection::idle() const {
    return live() && !sink.busy();
}

bool Connection::may_go() const {
    return xfer::may_go(state_, shard.now()) && idle() && quiet_awaited_ == 0 && sink.reachable();
}

void Connection::offer_end() {
    apply({.kind = ConnectionInput::offer_idle_close, .now = shard.now()});
}

void Connection::offer_unanswered() {
    const uint64_t heartbeat = shard.engine.options().heartbeat_ms * kNsPerMs;
    apply({.kind = ConnectionInput::offer_timeout,
           .now = shard.now(),
           .last_use = last_use_,
           .patience = lost_after(heartbeat)},
          went_idle());
}

void Connection::probe() {
    apply({.kind = ConnectionInput::probe, .now = shard.now()});
}

// The kernel tells of a neighbour that has died. Whether one is stopped is asked only while
// somebody waits for it, and once after that.
bool Connection::is_quiescent() const {
    return lanes.has_local_path() && idle() && usable() && !state_.probing && quiet_awaited_ == 0 &&
           sink.quiescent() && lanes.control().channel->last_heard() > last_use_;
}

uint64_t Connection::keep_alive(uint64_t now) {
    if (!is_open(state_)) return kNever;
    const auto &options = shard.engine.options();
    const uint64_t heartbeat = options.heartbeat_ms * kNsPerMs;
    const uint64_t idle_end =
        side == Side::ours && usable() ? last_use_ + options.idle_ms * kNsPerMs : kNever;
    const bool quiescent = this->is_quiescent();
    if (quiescent) rested_ = now;
    const uint64_t heard =
        std::max({lanes.control().channel->last_heard(), shard.heartbeat.listens_since(), rested_});
    // Who is driven by its user only when it has time says 0: it can't be judged. The others answer
    // each of our pings, so that our own patience counts as well as what the peer asks for.
    const uint64_t silence = handshake.peer_terms().silence_ms * kNsPerMs;
    if (silence && pinged_ > heard && now > heard + std::min(silence, lost_after(heartbeat))) {
        close({XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT,
               "the peer is silent: no answer to heartbeats"});
        return kNever;
    }
    if (now >= idle_end && idle()) {
        offer_end();
    } else if (quiescent) {
        return idle_end;
    } else if (now >= heard + ask_after(heartbeat)) {
        pinged_ = now;
        Frame ping;
        ping.type = FrameType::ping;
        send(ping);
    }
    return now + shard.heartbeat.step();
}

}  // namespace xfer
