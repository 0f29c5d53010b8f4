// SPDX-License-Identifier: Apache-2.0
#include "core/peer/peer_table.h"

#include "core/base/shard_core.h"

namespace xfer {

Peer *PeerTable::find(const Endpoint &ep) {
    Peer *found = nullptr;
    ep.each_listed([&](const std::string &uri) {
        const Address *address = found ? nullptr : by_address_.find(uri);
        if (address) found = address->peer;
    });
    return found;
}

Peer &PeerTable::at(const EngineId &id) {
    if (Peer *known = find(id)) return *known;
    auto peer = std::make_unique<Peer>(shard_);
    peer->name(id);
    return take_in(std::move(peer));
}

void PeerTable::open(Endpoint &ep, std::unique_ptr<Peer> spare) {
    Peer *known = ep.expected ? find(*ep.expected) : find(ep);
    if (known && catch_bad_alloc([&] { known->handles.add(ep); })) return;
    if (!known && ep.expected) spare->expect(*ep.expected);
    take_in(std::move(spare)).handles.attach(ep);
}

Peer &PeerTable::take_in(std::unique_ptr<Peer> peer) {
    peers_.push_back(*peer);
    if (peer->id) by_id_.insert(*peer);
    peer->dialer.addresses.enter(by_address_);
    return *peer.release();
}

void PeerTable::review(Peer &peer) {
    if (!peer.unused()) return;
    peer.ListNode<InShard>::unlink();
    peer.TreeNode<ById>::unlink();
    peer.dialer.addresses.leave();
    unused_.push_back(peer);
    shard_.loop.defer(shard_);
}

}  // namespace xfer
