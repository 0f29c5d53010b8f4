// SPDX-License-Identifier: Apache-2.0
// The requests of one peer: they wait for a connection, are asked on it, and end exactly once.
#pragma once

#include "core/peer/request.h"

namespace xfer {

class Peer;

class RequestQueue {
public:
    explicit RequestQueue(Peer &peer) : peer_(peer) {}

    void submit(Request &request);
    void finish(Request &request, Status status, uint32_t origin = 0);
    void ask_waiting();  // what was submitted while no connection took it
    void end_connects(Status status);
    void end_misled_connects(Status status);  // but of who goes to whoever answers
    void end_all(const Endpoint &ep, Status why);
    void fail(const Endpoint *ep, const Failure &why);  // those that wait; null: of all endpoints
    // An endpoint has moved to another peer, with its requests.
    void move(const Endpoint &ep, RequestList &into);
    void adopt(RequestList &from);

    RequestList &waiting() { return waiting_; }  // not asked yet
    bool empty() { return waiting_.empty(); }

private:
    Peer &peer_;
    RequestList waiting_;
};

}  // namespace xfer
