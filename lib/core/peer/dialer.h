// SPDX-License-Identifier: Apache-2.0
// When and where a peer is dialed: its addresses, the pauses between attempts, and its slot among
// the engine's connections.
#pragma once

#include <string>
#include <vector>

#include "core/peer/addresses.h"
#include "loop/loop.h"
#include "util/list.h"
#include "util/status.h"

namespace xfer {

class Peer;
class Session;
struct WantsDial;

inline Failure another_engine() {
    return {XFER_EIDENTITY, 0, 0, "another engine answered than the one expected"};
}

class Dialer final : public TimerSink, public ListNode<WantsDial> {
public:
    Dialer(Peer &peer, const std::vector<std::string> &known);
    ~Dialer();

    void schedule();  // an attempt, if somebody waits for the peer and none is under way
    void dial();      // now; it has a slot
    void attempt_over();
    void attempt_failed(const std::string &uri, const Failure &why, uint64_t retry_ns);
    void misled(const std::string &uri, const Failure &why);  // another engine answers there
    void connected();                                         // so no attempt is needed
    void pause();                                             // until the next schedule()
    bool waits() const { return redial_.armed(); }
    bool reachable() const;
    Failure why_down() const;  // why there is no connection; nothing: no attempt has failed

    bool take_slot();  // or has it
    void give_slot();
    bool pass_slot();  // true: another peer has it from here on,
    void adopt_slot();

    void on_timer(Timer &timer) override;

    Addresses addresses;

private:
    void begin_attempt(Session *&attempt);
    uint64_t may_dial_at();

    Peer &peer_;
    Failure last_failure_;  // since it was last connected
    Timer redial_{*this};
    uint64_t wanted_since_ = 0;  // without a connection
    bool dialing_ = false;       // or waits for its turn to
    bool slot_ = false;          // counts as one that is connected, or on its way to be
};

}  // namespace xfer
