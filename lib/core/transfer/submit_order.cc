// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/submit_order.h"

#include "core/transfer/transfer.h"

namespace xfer {

void SubmitOrder::add(Transfer &transfer) {
    transfer.waits_turn = transfer.ordered && !all_.empty();
    all_.push_back(transfer);
}

Transfer *SubmitOrder::remove(Transfer &transfer) {
    transfer.ListNode<InSubmitOrder>::unlink();
    if (all_.empty() || !all_.front().waits_turn) return nullptr;
    all_.front().waits_turn = false;
    return &all_.front();
}

}  // namespace xfer
