// SPDX-License-Identifier: Apache-2.0
// What comes in at one loop: its listeners, half-open connections until they have proved
// themselves, lanes that join a connection, and handles of peers that came to us.
#pragma once

#include <memory>
#include <vector>

#include "core/base/limits.h"
#include "core/peer/acceptor.h"
#include "core/peer/half_open.h"
#include "core/peer/session.h"
#include "util/log_limit.h"

namespace xfer {

class Endpoint;
class Notice;
class Peer;

class Inbound {
public:
    explicit Inbound(ShardCore &shard);
    ~Inbound();

    // `room`: bytes for the address that was bound, and its NUL. What is not kept does not listen.
    Result<std::unique_ptr<Acceptor>> make_listener(const Uri &uri, uint32_t mode,
                                                    ListenTerms terms, size_t room);
    void keep(std::unique_ptr<Acceptor> listener) { listeners_.push_back(std::move(listener)); }
    const std::vector<std::unique_ptr<Acceptor>> &listeners() const { return listeners_; }
    void close(const Failure &why);  // listeners and half-open connections
    bool empty() const { return connections_.empty(); }

    // Who dials; `user` is the listener's. As AcceptSink has them.
    bool admits(const Source &source);
    ConstBytes refusal() const { return refusal_; }
    bool under_pressure();
    void on_accept(std::unique_ptr<Channel> channel, const Source &source, uint64_t user);
    bool shed();

    void take(Session &half_open) { connections_.push_back(half_open); }  // it has moved here
    void admit(Session &half_open, const Hello &proof, ConstBytes raw);   // it has proved itself
    void let_in(Peer &peer, Session &half_open);
    void admit_lane(Session &half_open, const Hello &message, ConstBytes raw);
    void gone(Session &half_open);
    HalfOpen *places() { return places_.get(); }  // null: nothing listens here
    void leave(HalfOpenPlace &place);

    // The handle of one that came to us, and the event that tells of it.
    struct Newcomer {
        Ref<Endpoint> ep;
        std::unique_ptr<Notice> notice;
    };
    Newcomer newcomer(const Session &connection);
    void post(Newcomer newcomer);
    void announce(Peer &peer, uint32_t flags);  // it came to us and nobody has a handle on it
    void announce_again(Peer &peer);

private:
    void report_pressure();
    void report_refusal(const Session &half_open);

    ShardCore &shard_;
    OwningList<Session, InHolder> connections_;  // half-open
    std::unique_ptr<HalfOpen> places_;
    std::vector<uint8_t> refusal_;  // of one more than places
    std::vector<std::unique_ptr<Acceptor>> listeners_;
    LogLimit refusals_{kRefusalLines, kRefusalLogNs};
};

}  // namespace xfer
