// SPDX-License-Identifier: Apache-2.0
// The endpoints of one peer: what their users are told of it, and which of them its events name.
#pragma once

#include "core/base/endpoint.h"
#include "util/list.h"
#include "util/ref.h"

namespace xfer {

class Peer;

class Handles {
public:
    explicit Handles(Peer &peer) : peer_(peer) {}
    ~Handles();

    void add(Endpoint &ep);     // of a user who dials, and is told if the peer is there
    void attach(Endpoint &ep);  // needs no memory
    void remove(Endpoint &ep);
    bool introduce(Endpoint &ep);  // it learns who the peer is; true: its end is to be told now
    bool report_up(Endpoint &ep, uint32_t flags);
    void connected(uint32_t flags, bool silent);  // silent: who knew the peer is told nothing
    void report_down(const Failure &why);
    void stayed_away();                // after an idle end: those that the engine lends go
    void report_gone(ConstBytes ref);  // a region
    void set_states(uint32_t state);
    bool awaited();                         // a receive names the peer
    bool claims(const Endpoint &ep) const;  // its addresses are only said to be the peer's

    bool empty() const { return eps_.empty(); }
    List<Endpoint, InPeer> &all() { return eps_; }
    Endpoint *event_endpoint();  // whose events tell what concerns all handles of the peer
    // Not a handle: receives from any peer pull by it, so that no handle's end is theirs.
    Endpoint &unnamed();
    Endpoint *unnamed_made() { return unnamed_.get(); }

private:
    Peer &peer_;
    List<Endpoint, InPeer> eps_;
    Ref<Endpoint> unnamed_;
};

}  // namespace xfer
