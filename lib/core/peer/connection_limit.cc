// SPDX-License-Identifier: Apache-2.0
// The connections of a loop as a store with a bound: who wants one more waits until another goes.
// What goes is idle at both ends, and can be dialed again; the oldest that was not used for longest
// goes first (core/peer/sieve.h). It is offered its end, as when it was idle for long: the peer may
// refuse. The budget is of the whole engine, so that loops wake the waiters of each other.
#include <algorithm>

#include "core/engine/engine.h"
#include "core/engine/shard.h"

namespace xfer {

void Shard::dial_when_free(Peer &peer) {
    want_dial_.push_back(peer);
    ++waiting_;
    dial_next();
}

void Shard::dial_ended(Peer &peer) {
    if (peer.ListNode<WantsDial>::linked()) {
        peer.ListNode<WantsDial>::unlink();
        --waiting_;
    } else {
        --dialing_;
    }
    dial_next();
}

bool Shard::may_dial_more() const {
    const auto loops = static_cast<uint32_t>(engine.shards().size());
    return !closing_ && waiting_ > 0 && dialing_ < std::max(kMaxDialing / loops, 1u);
}

void Shard::dial_next() {
    while (may_dial_more() && want_dial_.front().take_slot()) {
        Peer &peer = *want_dial_.pop_front();
        --waiting_;
        ++dialing_;
        peer.dial();
    }
    const bool starves = may_dial_more();
    if (starves != std::exchange(starves_, starves)) {
        if (starves)
            engine.slots().waiters.fetch_add(1);
        else
            engine.slots().waiters.fetch_sub(1);
    }
    if (!starves) return loop.disarm(room_);
    make_room(waiting_);
    if (!room_.armed()) loop.arm(room_, now() + kBusyMs * kNsPerMs);
}

// Offers are answered within kProbeNs, each with a slot or with a no.
void Shard::make_room(uint32_t wanted) {
    while (leaving_ < wanted) {
        Peer *peer = store_.pick([](const Peer &held) { return held.live()->may_go(); });
        if (!peer) break;
        peer->live()->offer_end();
    }
    if (leaving_ < wanted && starves_) wake_other_loops();
}

void Shard::room_made() {
    dial_next();
    if (engine.slots().waiters.load()) wake_other_loops();
}

// An operation has ended: its connection may be the one to go.
void Shard::look_for_room() {
    if (engine.slots().waiters.load()) make_room(std::max(waiting_, 1u));
}

void Shard::wake_other_loops() {
    for (auto &shard : engine.shards())
        if (shard.get() != this) shard->wake_waiters();
}

void Shard::wake_waiters() {
    if (!wake_waiters_.posted.exchange(true)) post(wake_waiters_);
}

void Shard::WakeWaiters::arrive(Shard &shard) {
    posted.store(false);
    shard.dial_next();
    shard.look_for_room();
    shard.arm_heartbeat();
}

}  // namespace xfer
