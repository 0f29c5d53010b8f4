// SPDX-License-Identifier: Apache-2.0
// Whether the application lets in a peer that came to us (XFER_ENGINE_ASK). It is asked once for an
// incarnation, when that has proved itself, and until the verdict its connections are half-open
// connections: they take no slot, and nothing that they say is served. lib/design/0040.
#pragma once

#include <memory>

#include "core/peer/session.h"
#include "util/list.h"
#include "util/status.h"

namespace xfer {

class Endpoint;
class Notice;
class Peer;

class Admission {
public:
    explicit Admission(Peer &peer) : peer_(peer) {}

    // Nobody need be asked: it is in, or the application has opened an endpoint for it.
    bool open_to(uint64_t incarnation);
    void ask(Session &half_open, const Statement &statement);
    // By the handle of the question, or of a peer that is in.
    void decide(Endpoint &ep, Status verdict);
    void dialed() {  // the application wants this peer itself
        if (ep_ && !decided_) let_in();
    }
    void up(uint64_t incarnation) {  // it has a connection
        admitted_ = incarnation;
        if (ep_ && decided_ && incarnation == incarnation_) hand_over();
    }
    void down(uint64_t incarnation);  // the user was told so: it is asked again
    void lost(Session &connection);
    void closed(Endpoint &ep);  // which is not in its peer's list yet

    Endpoint *candidate() const { return ep_; }  // from the question until it is up
    uint32_t undecided();                        // connections that wait for the verdict
    bool under_way() { return ep_ || !waiting_.empty(); }

private:
    bool begin(Session &half_open);
    void let_in();
    void hand_over();  // from here on its handle is like all others
    void turn_away(Status verdict);
    void refuse_waiting(Status verdict);
    void end(const Failure &why);
    bool is_coming();

    Peer &peer_;
    Endpoint *ep_ = nullptr;  // with the loop's count
    std::unique_ptr<Notice> down_event_;
    bool decided_ = false;      // let in, and not up yet
    uint64_t incarnation_ = 0;  // of the question
    uint64_t admitted_ = 0;
    List<Session, InUndecided> waiting_;
};

}  // namespace xfer
