// SPDX-License-Identifier: Apache-2.0
// The connections of a loop as a store with a bound: who wants one more waits until another goes.
// What goes is idle at both ends, and can be dialed again; the oldest that was not used for longest
// goes first (core/peer/sieve.h). It is offered its end, as when it was idle for long: the peer may
// refuse. The budget is of the whole engine, so that loops wake the waiters of each other.
#pragma once

#include <atomic>

#include "core/base/mailbox.h"
#include "core/peer/sieve.h"
#include "loop/loop.h"
#include "util/list.h"

namespace xfer {

class Dialer;
class Peer;
class ShardCore;
struct WantsDial;

class ConnectionLimit final : public TimerSink {
public:
    explicit ConnectionLimit(ShardCore &shard) : shard_(shard), timer_(*this) {}

    void dial_when_free(Dialer &dialer);
    void dial_ended(Dialer &dialer);
    void room_made();  // a connection has ended
    void make_room();  // for one more than waits, since a peer came and found none
    // Somebody waits, and an operation has ended: its connection may be the one to go.
    void look_for_room();
    void leaving(bool begins) { begins ? ++leaving_ : --leaving_; }
    void connected(Peer &peer) { store_.insert(peer); }
    void disconnected(Peer &peer) { store_.remove(peer); }
    void stop();  // the shard closes
    // Any thread: a slot is free, or wanted, or a receive waits for peers of this loop.
    void wake();
    void on_timer(Timer &) override { dial_next(); }

private:
    class Wake final : public Message {
    public:
        void arrive(ShardCore &shard) override;
        std::atomic<bool> posted{false};
    };
    void dial_next();
    bool dial_waiting();  // as many as there are slots for; true: one starves
    bool may_dial_more() const;
    bool offer_ends(uint32_t wanted);  // false: fewer are leaving
    void wake_other_loops();

    ShardCore &shard_;
    Timer timer_;
    Wake wake_;
    List<Dialer, WantsDial> want_dial_;
    uint32_t waiting_ = 0, dialing_ = 0, leaving_ = 0;
    bool starves_ = false;  // a peer waits for a slot
    Sieve<Peer> store_;     // those with a live connection
};

}  // namespace xfer
