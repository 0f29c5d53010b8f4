// SPDX-License-Identifier: Apache-2.0
#include "core/peer/handles.h"

#include "core/base/shard_core.h"
#include "core/message/cross_shard.h"
#include "core/peer/peer.h"
#include "core/peer/peer_table.h"
#include "core/peer/successor.h"

namespace xfer {

Handles::~Handles() {
    if (unnamed_) unnamed_->peer = nullptr;
}

// What one of a list says is dialed; who is found by it is seen when somebody answers there.
bool Handles::claims(const Endpoint &ep) const {
    return !ep.is_by_address() || (peer_.id && ep.lists_several());
}

void Handles::add(Endpoint &ep) {
    const bool claimed = claims(ep);
    ep.each_listed([&](const std::string &uri) { peer_.dialer.addresses.add(uri, claimed); });
    if (const Session *live = peer_.live()) {
        const uint32_t flags = succession(ep, live->handshake.peer().id);
        const bool unheard = introduce(ep);
        if (!report_up(ep, flags) && unheard) ep.down_event.reset();
    }
    attach(ep);
}

// Who the peer is must be known all the same: receives that name it wait for that.
void Handles::attach(Endpoint &ep) {
    const Session *live = peer_.live();
    ep.peer = &peer_;
    eps_.push_back(ep);
    ep.state.store(live ? XFER_EP_READY : XFER_EP_IDLE);
    if (live) {
        ep.set_identity(live->handshake.peer());
        if (ep.receives.load()) peer_.shard.messages.identity_known(ep);
    }
    if (!ep.inbound) peer_.admission.dialed();
}

void Handles::remove(Endpoint &ep) {
    ep.ListNode<InPeer>::unlink();
    ep.peer = nullptr;
    peer_.admission.closed(ep);
    peer_.shard.peers.review(peer_);
}

// All that it must have of the connection that there is, and for its end. Who can't be told of the
// one, for want of listening, is not told of the other.
bool Handles::introduce(Endpoint &ep) {
    const Session &live = *peer_.live();
    const Handshake &words = live.handshake;
    ep.set_info(words.peer(), words.peer_terms().blob, live.control().channel->remote());
    if (ep.down_event) return false;
    ep.down_event = std::make_unique<Notice>(ep, XFER_EVENT_PEER_DOWN, std::vector<uint8_t>());
    return true;
}

bool Handles::report_up(Endpoint &ep, uint32_t flags) {
    const Handshake &words = peer_.live()->handshake;
    return peer_.shard.outbox.notify_peer_up(ep, words.peer(), words.peer_terms().blob, flags);
}

void Handles::connected(uint32_t flags, bool silent) {
    for (Endpoint &ep : eps_) {
        const uint32_t successor = succession(ep, peer_.live()->handshake.peer().id);
        const bool unheard = introduce(ep);
        if (ep.receives.load()) peer_.shard.messages.identity_known(ep);
        ep.state.store(XFER_EP_READY);
        ep.connections.add();
        const bool tells = unheard || !silent;
        const bool told = tells && report_up(ep, successor ? successor : flags);
        if (unheard && !told && ep.of_user.load()) ep.down_event.reset();
    }
}

void Handles::report_down(const Failure &why) {
    for (Endpoint &ep : eps_)
        peer_.shard.outbox.notify_peer_down(ep, why);
}

// The user was not told of an idle end, since the peer comes back unnoticed. One that does not
// would leave its handle with us for ever, if nobody has kept it; or with a user who has it by
// XFER_ENGINE_OWN_PEERS, and closes it when the peer is down.
void Handles::stayed_away() {
    for (Endpoint &ep : eps_)
        if (ep.is_lent() || ep.of_accept())
            peer_.shard.outbox.notify_peer_down(ep, {XFER_ECLOSED, 0, 0, "it stays away"});
}

void Handles::report_gone(ConstBytes ref) {
    for (Endpoint &ep : eps_)
        peer_.shard.outbox.notify(ep, XFER_EVENT_REGION_GONE, {ref.begin(), ref.end()});
}

void Handles::set_states(uint32_t state) {
    for (Endpoint &ep : eps_)
        ep.state.store(state);
}

bool Handles::awaited() {
    for (const Endpoint &ep : eps_)
        if (ep.receives.load() > 0) return true;
    return false;
}

Endpoint *Handles::event_endpoint() {
    return eps_.empty() ? nullptr : &eps_.front();
}

Endpoint &Handles::unnamed() {
    if (!unnamed_) {
        unnamed_ = Ref<Endpoint>::adopt(new Endpoint(peer_.shard.engine, {}, 0));
        unnamed_->shard.store(&peer_.shard);
        unnamed_->peer = &peer_;
    }
    return *unnamed_;
}

}  // namespace xfer
