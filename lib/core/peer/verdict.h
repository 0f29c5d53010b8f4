// SPDX-License-Identifier: Apache-2.0
// What the application has decided of a peer that came to us, on its way there.
#pragma once

#include "core/base/endpoint.h"
#include "core/base/mailbox.h"

namespace xfer {

class Verdict final : public Message {
public:
    Verdict(Endpoint &ep, Status status) : ep_(ep), status_(status) {}
    void arrive(ShardCore &shard) override;

private:
    const Ref<Endpoint> ep_;
    const Status status_;
};

}  // namespace xfer
