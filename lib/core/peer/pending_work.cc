// SPDX-License-Identifier: Apache-2.0
// Who wants a peer, and what waits for it: endpoints, questions, transfers; and when they make it
// dial.
#include <algorithm>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/connection_limit.h"
#include "core/peer/peer.h"
#include "core/peer/peer_table.h"
#include "core/peer/successor.h"

namespace xfer {

// What one of a list says is dialed; who is found by it is seen when somebody answers there.
bool Peer::claims(const Endpoint &ep) const {
    return !ep.is_by_address() || (id && ep.lists_several());
}

void Peer::add(Endpoint &ep) {
    const bool claimed = claims(ep);
    ep.each_listed([&](const std::string &uri) { addresses_.add(uri, claimed); });
    if (live_) {
        const uint32_t flags = succession(ep, live_->handshake.peer().id);
        introduce(ep);
        report_up(ep, flags);
    }
    attach(ep);
}

void Peer::report_up(Endpoint &ep, uint32_t flags) {
    const Handshake &words = live_->handshake;
    shard.outbox.notify_peer_up(ep, words.peer(), words.peer_terms().blob, flags);
}

// Needs no memory. Who it is must be known all the same: receives that name it wait for that.
void Peer::attach(Endpoint &ep) {
    ep.peer = this;
    eps_.push_back(ep);
    ep.state.store(live_ ? XFER_EP_READY : XFER_EP_IDLE);
    if (live_) {
        ep.set_identity(live_->handshake.peer());
        if (ep.receives.load()) shard.messages.identity_known(ep);
    }
    if (!ep.inbound) admission.dialed();
}

// All that it must have of the connection that there is, and for its end.
void Peer::introduce(Endpoint &ep) {
    const Handshake &words = live_->handshake;
    ep.set_info(words.peer(), words.peer_terms().blob, live_->control().channel->remote());
    if (!ep.down_event)
        ep.down_event = std::make_unique<Notice>(ep, XFER_EVENT_PEER_DOWN, std::vector<uint8_t>());
}

void Peer::remove(Endpoint &ep) {
    ep.ListNode<InPeer>::unlink();
    ep.peer = nullptr;
    admission.closed(ep);
    shard.peers.review(*this);
}

// An attempt that is under way may be about to succeed, or to a host that is gone.
void Peer::add_addresses(const Endpoint &ep, std::list<Address> &made) {
    const bool any = addresses_.add(made, claims(ep));
    if (live_) return;
    shard.loop.disarm(redial_);
    for (Session &attempt : connections_)
        if (any) attempt.hurry();
    schedule_dial();
}

void Peer::submit(Request &request) {
    request.peer = this;
    ++request.ep->busy;
    if (!request.deadline) {
        request.stalls_since = shard.now();
        request.deadline =
            request.timeout_ms ? shard.now() + request.timeout_ms * kNsPerMs : kNever;
    }
    request.arm();
    if (live_ && request.type() == XFER_EVENT_CONNECT) {
        requests_.push_back(request);
        return finish(request, XFER_OK);
    }
    shard.cancel_index.add(request);
    if (live_ && live_->takes_new()) return live_->ask(request);
    requests_.push_back(request);
    schedule_dial();
}

void Peer::finish(Request &request, Status status, uint32_t origin) {
    if (request.on && status != XFER_OK && origin == 0) request.on->forget(request);
    shard.loop.disarm(request.timer);
    request.ListNode<InRequests>::unlink();
    CancelIndex::remove(request);
    request.event.status = status;
    request.event.origin = origin;
    request.event.flags = XFER_FENCED;
    if (status == XFER_OK && !request.answer.empty()) {
        request.event.data = request.answer.data();
        request.event.data_length = request.answer.size();
    }
    if (status != XFER_OK && !live_ && !origin) {
        const Failure down = why_down();
        request.event.origin = down.origin;
        request.event.native_code = down.native;
        request.reason = down.message;
    }
    if (status != XFER_OK && request.type() != XFER_EVENT_LOOKUP) request.explain(request.reason);
    if (live_) live_->pump_soon();
    shard.outbox.post(request);
    shard.operation_ended(*request.ep);
}

void Peer::end_all(Endpoint &ep, Status why) {
    flow.end_all(&ep, why);
    for (Request &request : requests_)
        if (request.ep.get() == &ep) finish(request, why);
    for (Session &connection : connections_)
        for (Request &request : connection.asked())
            if (request.ep.get() == &ep) finish(request, why);
}

void Peer::fail_waiting(const Failure &why) {
    flow.end_all(nullptr, why.status, why);
    while (!requests_.empty()) {
        requests_.front().reason = why.message;
        finish(requests_.front(), why.status, why.origin);
    }
}

// Another engine has answered at every address. Who has named an id alone waits until the peer
// comes, whatever others say of where it is.
void Peer::fail_misled(const Failure &why) {
    const auto fail = [&](const Endpoint &ep) {
        flow.end_all(&ep, why.status, why);
        for (Request &request : requests_) {
            if (request.ep.get() != &ep) continue;
            request.reason = why.message;
            finish(request, why.status, why.origin);
        }
    };
    for (Endpoint &ep : eps_)
        if (!ep.waits_anywhere()) fail(ep);
    if (unnamed_) fail(*unnamed_);
}

void Peer::move_pending_work(Endpoint &ep, PeerMove &into) {
    flow.give_up(ep, into.operations);
    const auto take = [&](RequestList &list) {
        for (Request &request : list)
            if (request.ep.get() == &ep) {
                shard.loop.disarm(request.timer);
                request.ListNode<InRequests>::unlink();
                CancelIndex::remove(request);
                request.on = nullptr;
                request.stalls_since = shard.now();
                into.requests.push_back(request);
            }
    };
    take(requests_);
    for (Session &connection : connections_)
        take(connection.asked());
    ep.ListNode<InPeer>::unlink();
    ep.peer = nullptr;
    into.eps.push_back(ep);
}

// `at`: where it has answered them, also if it has another connection, which is kept.
void Peer::adopt_pending_work(PeerMove &from, const std::string &at) {
    // Without memory they are as if they had come a little earlier: before the connection, and by
    // the addresses that were known then.
    while (Endpoint *ep = from.eps.pop_front())
        if (!catch_bad_alloc([&] { add(*ep); })) attach(*ep);
    addresses_.seen(at);
    // All are here before any of them goes on: what ends at once finds the others under way.
    flow.adopt(from.operations);
    for (Request &request : from.requests) {
        request.peer = this;
        shard.cancel_index.add(request);
        request.arm();
    }
    requests_.append(from.requests);
    ask_waiting();
    flow.resume();
    schedule_dial();
    if (!std::exchange(from.slot, false)) return;
    if (slot_) return shard.engine.slots().give();
    slot_ = true;
}

// What is known of addresses that failed is kept until their time has come, also if nobody waits:
// who opens the same peer again before then waits as well.
void Peer::schedule_dial() {
    if (live_ || shard.closing() || !reachable() || redial_.armed() || dialing_ ||
        !may_dial(state_))
        return;
    if (wanted()) set_states(XFER_EP_CONNECTING);
    if (const uint64_t at = may_dial_at(); at > shard.now()) return shard.loop.arm(redial_, at);
    if (!wanted()) return;
    dialing_ = true;
    shard.limit.dial_when_free(*this);
}

// Of two that know each other one may yield to the other, for a while: in a full mesh that is
// warmed up from all sides at once, half of the attempts are then never made.
uint64_t Peer::may_dial_at() {
    const uint64_t at = is_self() ? 0 : addresses_.next().at;
    const uint64_t yield = shard.engine.options().yield_ms * kNsPerMs;
    if (!wanted() || !yield || !id || state_.ours_smaller) return at;
    if (!wanted_since_) wanted_since_ = shard.now();
    return std::max(at, wanted_since_ + yield);
}

void Peer::on_timer(Timer &timer) {
    if (&timer == &away_) return stayed_away();
    schedule_dial();
    shard.peers.review(*this);
}

void Peer::ask_waiting() {
    if (!live_ || !live_->takes_new()) return;
    for (Request &request : requests_)
        if (request.type() != XFER_EVENT_CONNECT) {
            request.ListNode<InRequests>::unlink();
            live_->ask(request);
        }
    // Last: an end calls out, and finds the others asked.
    for (Request &request : requests_)
        if (request.type() == XFER_EVENT_CONNECT) finish(request, XFER_OK);
}

}  // namespace xfer
