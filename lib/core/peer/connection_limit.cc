// SPDX-License-Identifier: Apache-2.0
#include "core/peer/connection_limit.h"

#include <algorithm>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/peer.h"

namespace xfer {

void ConnectionLimit::dial_when_free(Dialer &dialer) {
    want_dial_.push_back(dialer);
    ++waiting_;
    dial_next();
}

void ConnectionLimit::dial_ended(Dialer &dialer) {
    if (dialer.ListNode<WantsDial>::linked()) {
        dialer.ListNode<WantsDial>::unlink();
        --waiting_;
    } else {
        --dialing_;
    }
    dial_next();
}

bool ConnectionLimit::may_dial_more() const {
    const auto loops = static_cast<uint32_t>(shard_.engine.shard_count());
    return !shard_.closing() && waiting_ > 0 && dialing_ < std::max(kMaxDialing / loops, 1u);
}

void ConnectionLimit::dial_next() {
    if (dial_waiting() && !offer_ends(waiting_)) wake_other_loops();
}

bool ConnectionLimit::dial_waiting() {
    while (may_dial_more() && want_dial_.front().take_slot()) {
        Dialer &dialer = *want_dial_.pop_front();
        --waiting_;
        ++dialing_;
        dialer.dial();
    }
    const bool starves = may_dial_more();
    if (starves != std::exchange(starves_, starves)) {
        if (starves)
            shard_.engine.slots().waiters.fetch_add(1);
        else
            shard_.engine.slots().waiters.fetch_sub(1);
    }
    if (!starves)
        stop();
    else if (!timer_.armed())
        shard_.loop.arm(timer_, shard_.now() + kBusyMs * kNsPerMs);
    return starves;
}

void ConnectionLimit::stop() {
    shard_.loop.disarm(timer_);
}

// Offers the end of idle ones until so many are leaving. Offers are answered within kProbeNs, each
// with a slot or with a no.
bool ConnectionLimit::offer_ends(uint32_t wanted) {
    while (leaving_ < wanted) {
        Peer *peer = store_.pick([](const Peer &held) { return held.live()->keepalive.may_go(); });
        if (!peer) break;
        peer->live()->keepalive.offer_end();
    }
    return leaving_ >= wanted;
}

void ConnectionLimit::make_room() {
    if (!offer_ends(waiting_ + 1) && starves_) wake_other_loops();
}

void ConnectionLimit::room_made() {
    dial_next();
    if (shard_.engine.slots().waiters.load()) wake_other_loops();
}

void ConnectionLimit::look_for_room() {
    offer_ends(std::max(waiting_, 1u));
}

void ConnectionLimit::wake_other_loops() {
    for (size_t i = 0; i < shard_.engine.shard_count(); ++i)
        if (i != shard_.index) shard_.engine.shard(i).limit.wake();
}

void ConnectionLimit::wake() {
    if (!wake_.posted.exchange(true)) shard_.post(wake_);
}

// It wakes no other loop, or two that starve would wake each other again and again.
void ConnectionLimit::Wake::arrive(ShardCore &shard) {
    posted.store(false);
    shard.limit.dial_waiting();
    if (shard.engine.slots().waiters.load()) shard.limit.look_for_room();
    shard.heartbeat.arm();
}

}  // namespace xfer
