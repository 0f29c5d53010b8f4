// SPDX-License-Identifier: Apache-2.0
// The signs of life of a connection: heartbeats, what counts as use, and the offer to end what
// nobody uses.
#pragma once

#include "loop/loop.h"
#include "util/status.h"

namespace xfer {

class Connection;
class Lane;

class Keepalive final : TimerSink {
public:
    explicit Keepalive(Connection &connection) : connection_(connection) {}
    ~Keepalive();

    void count_use(uint64_t now) { last_use_ = now; }
    void note_use() { used_ = true; }  // since it was looked at last, by who has no clock
    bool idle() const;
    bool may_go() const;  // nothing is under way here, and it can come back
    void offer_end();
    // Ends it if it is silent, and lanes that bring nothing to the peer's host; offers its end if
    // it is idle, else asks the peer for a sign of life when one is due. Returns when to look
    // again.
    uint64_t check(uint64_t now);
    // How long the peer may take to say that its end of a path is closed.
    uint64_t settles_after() const;
    // Until when the peer has to let a lane in; kNever: it is driven when its user has time.
    uint64_t lets_in_by() const;
    // When a channel by an adapter says its frames another way, before either end counts as lost.
    uint64_t stalls_after() const;

    // ---- from the connection
    void await_answer(uint64_t until);  // to our offer; who gives none has nothing to say
    void stop();                        // waiting for it
    static Failure went_idle();

private:
    void on_timer(Timer &timer) override;
    bool is_quiescent() const;
    bool check_acknowledged(Lane &lane, uint64_t now);
    void take_use(uint64_t now);
    uint64_t last_heard(uint64_t now);

    Connection &connection_;
    Timer offer_{*this};
    uint64_t last_use_ = 0;
    bool used_ = false;
    uint64_t pinged_ = 0;
    uint64_t rested_ = 0;     // silence until then was agreed on
    bool overdue_ = false;    // an answer, and the verdict was put off
    uint64_t last_sign_ = 0;  // of life,
    uint64_t heard_ = 0;      // and the same, as much later as this loop was kept from its work
};

}  // namespace xfer
