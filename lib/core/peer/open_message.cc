// SPDX-License-Identifier: Apache-2.0
#include "core/peer/open_message.h"

#include "core/base/shard_core.h"
#include "core/peer/peer_table.h"

namespace xfer {

void OpenMessage::arrive(ShardCore &shard) {
    const std::unique_ptr<OpenMessage> self(this);
    if (shard.closing()) return shard.close(ep_);
    Peer *known = ep_.expected ? shard.peers.find(*ep_.expected) : shard.peers.find(ep_);
    if (known && catch_bad_alloc([&] { known->add(ep_); })) return;
    if (!known && ep_.expected) spare_->expect(*ep_.expected);
    shard.peers.take_in(std::move(spare_)).attach(ep_);
}

}  // namespace xfer
