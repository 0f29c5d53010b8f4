// SPDX-License-Identifier: Apache-2.0
#include "core/peer/verdict.h"

#include "core/peer/peer.h"

namespace xfer {

void Verdict::arrive(ShardCore &) {
    if (ep_->peer && !ep_->closing) ep_->peer->admission.decide(*ep_, status_);
    delete this;
}

}  // namespace xfer
