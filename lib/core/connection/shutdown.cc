// SPDX-License-Identifier: Apache-2.0
// How a connection is kept, and how it ends in peace: signs of life, offers to end what nobody
// uses, the drain.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/peer.h"

namespace xfer {

// An offer to end an idle connection, the answer to ours, or the peer's last words.
void Connection::on_leave(const Frame &frame) {
    if (frame.status == XFER_EBUSY) {
        set_leaving(false);
        denied_ = shard.now();
        shard.loop.disarm(offer_);
        touch();
        peer->ask_waiting();
        return peer->flow.pump();
    }
    if (frame.status != XFER_EAGAIN)
        return close({frame.status, XFER_ORIGIN_PEER, frame.status, "the peer said goodbye"});
    if (idle() && peer->reachable()) {
        set_leaving(true);
        return close({XFER_ECLOSED, 0, 0, "idle"});
    }
    Frame no;
    no.type = FrameType::bye;
    no.status = XFER_EBUSY;
    send(no);
}

void Connection::drain() {
    if (!usable()) return;
    Frame frame;
    frame.type = FrameType::drain;
    if (!drain_said_) {
        drain_said_ = true;
        send(frame);
    }
    if (done_said_ || !idle()) return;
    done_said_ = true;
    frame.seq = 1;
    send(frame);
}

// What has begun goes on; all else waits for who comes after the peer.
void Connection::on_drain(const Frame &frame) {
    peer_drains_ = true;
    if (frame.seq) peer_done_ = true;
    peer->put_off(*this);
    leave_when_quiet();
}

void Connection::leave_when_quiet() {
    if (!peer_done_ || closing_ || !asked_.empty() || !peer->flow.quiet()) return;
    close({XFER_ECLOSED, XFER_ORIGIN_PEER, XFER_ECLOSED, "the peer drains"});
}

bool Connection::idle() const {
    return live_ && !peer->flow.busy() && const_cast<RequestList &>(asked_).empty();
}

bool Connection::may_go() const {
    return usable() && idle() && quiet_awaited_ == 0 && !probe_limit_.armed() &&
           peer->reachable() && shard.now() >= denied_ + kBusyMs * kNsPerMs;
}

void Connection::set_leaving(bool leaving) {
    if (std::exchange(leaving_, leaving) != leaving) shard.limit.leaving(leaving);
}

void Connection::offer_end() {
    set_leaving(true);
    offered_ = shard.now();
    shard.loop.arm(offer_, offered_ + kProbeNs);
    Frame offer;
    offer.type = FrameType::bye;
    offer.status = XFER_EAGAIN;
    send(offer);
}

// A peer that has used the connection since then lives, and is in the midst of something: its
// answer is on its way, and it has as long as any silent peer.
void Connection::offer_unanswered() {
    const uint64_t heartbeat = shard.engine.options().heartbeat_ms * kNsPerMs;
    const uint64_t limit = last_use_ > offered_ ? last_use_ + lost_after(heartbeat) : 0;
    if (shard.now() < limit) return shard.loop.arm(offer_, limit);
    close({XFER_ECLOSED, 0, 0, "idle"});
}

void Connection::touch() {
    last_use_ = shard.now();
    shard.heartbeat.arm();
    if (peer) peer->used();
}

// The limit counts from the first newcomer: more of them extend no silent connection's life.
void Connection::probe() {
    if (probe_limit_.armed()) return;
    shard.heartbeat.arm();
    shard.loop.arm(probe_limit_, shard.now() + kProbeNs);
    Frame ping;
    ping.type = FrameType::ping;
    send(ping);
}

// The kernel tells of a neighbour that has died. Whether one is stopped is asked only while
// somebody waits for it, and once after that.
bool Connection::is_quiescent() const {
    return lanes.has_local_path() && idle() && !leaving_ && !probe_limit_.armed() &&
           quiet_awaited_ == 0 && notify_receiver.quiet() && message_receiver.quiet() &&
           !peer->awaited() && lanes.control().channel->last_heard() > last_use_;
}

uint64_t Connection::keep_alive(uint64_t now) {
    if (closing_ || !live_) return kNever;
    const auto &options = shard.engine.options();
    const uint64_t heartbeat = options.heartbeat_ms * kNsPerMs;
    const uint64_t idle_end =
        side == Side::ours && !leaving_ ? last_use_ + options.idle_ms * kNsPerMs : kNever;
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
