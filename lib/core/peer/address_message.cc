// SPDX-License-Identifier: Apache-2.0
#include "core/peer/address_message.h"

#include "core/base/shard_core.h"
#include "core/peer/peer.h"

namespace xfer {

AddressMessage::AddressMessage(Endpoint &owner, const std::vector<std::string> &uris) : ep_(owner) {
    for (const std::string &uri : uris)
        made_.emplace_back(nullptr, uri);
}

void AddressMessage::arrive(ShardCore &shard) {
    ShardCore *home = ep_->shard.load();
    if (home != &shard && home->post(*this)) return;
    if (home == &shard && ep_->peer && !ep_->closing) ep_->peer->add_addresses(*ep_, made_);
    delete this;
}

}  // namespace xfer
