// SPDX-License-Identifier: Apache-2.0
// Addresses that the user adds to an open endpoint, on their way to its peer. What they take there
// is made before.
#pragma once

#include <list>

#include "core/base/endpoint.h"
#include "core/base/mailbox.h"
#include "core/peer/addresses.h"

namespace xfer {

class AddressMessage final : public Message {
public:
    AddressMessage(Endpoint &owner, const std::vector<std::string> &uris);
    void arrive(ShardCore &shard) override;

private:
    const Ref<Endpoint> ep_;
    std::list<Address> made_;
};

}  // namespace xfer
