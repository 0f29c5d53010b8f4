// SPDX-License-Identifier: Apache-2.0
// The peers of one loop, by identity and by address.
#pragma once

#include <memory>

#include "core/peer/addresses.h"
#include "core/peer/peer.h"

namespace xfer {

class PeerTable {
public:
    explicit PeerTable(ShardCore &shard) : shard_(shard) {}

    List<Peer, InShard> &all() { return peers_; }
    Peer *find(const EngineId &id) { return by_id_.find(id); }
    Peer *find(const Endpoint &ep);  // by its addresses
    Peer &at(const EngineId &id);    // made, if it is not known
    Peer &take_in(std::unique_ptr<Peer> peer);
    // Finds the endpoint its peer; `spare` becomes it, if none is known.
    void open(Endpoint &ep, std::unique_ptr<Peer> spare);
    // It goes if nothing keeps it, at the end of the turn.
    void review(Peer &peer);
    void destroy_unused() { unused_.destroy_all(); }
    bool empty() const { return peers_.empty() && unused_.empty(); }

private:
    ShardCore &shard_;
    Tree<Peer, ById, &Peer::id> by_id_;
    AddressIndex by_address_;
    OwningList<Peer, InShard> peers_, unused_;
};

}  // namespace xfer
