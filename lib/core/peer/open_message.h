// SPDX-License-Identifier: Apache-2.0
// xfer_ep_open, on its way to the loop that its peer falls to.
#pragma once

#include <memory>

#include "core/base/endpoint.h"
#include "core/base/shard_core.h"
#include "core/peer/peer_table.h"

namespace xfer {

class OpenMessage final : public Message {
public:
    // `spare`: to be its peer, if none is there by its identity or addresses.
    OpenMessage(Endpoint &ep, std::unique_ptr<Peer> spare) : ep_(ep), spare_(std::move(spare)) {}
    void arrive(ShardCore &shard) override {
        const std::unique_ptr<OpenMessage> self(this);
        if (shard.closing()) return shard.close(ep_);
        shard.peers.open(ep_, std::move(spare_));
    }

private:
    Endpoint &ep_;
    std::unique_ptr<Peer> spare_;
};

}  // namespace xfer
