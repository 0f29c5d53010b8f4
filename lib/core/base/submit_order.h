// SPDX-License-Identifier: Apache-2.0
// The operations of one endpoint, oldest first, from their submit to their event. An ordered one
// begins when it is the oldest. Belongs to the loop of the endpoint's peer and moves with the
// endpoint, so that what stays behind on another connection, or on another loop, is still waited
// for. Each step is O(1).
#pragma once

#include "util/list.h"

namespace xfer {

struct InSubmitOrder;  // a list tag

// An operation, as its order sees it.
class Ordered : public ListNode<InSubmitOrder> {
public:
    bool ordered = false;     // begins when all that its endpoint was given before has ended
    bool waits_turn = false;  // ordered, and not the oldest of its endpoint

protected:
    ~Ordered() = default;
};

class SubmitOrder {
public:
    // Says whether it has to wait for its turn.
    void add(Ordered &operation) {
        operation.waits_turn = operation.ordered && !all_.empty();
        all_.push_back(operation);
    }
    // The one whose turn has come by this, if any. Of what was never added, nothing comes.
    Ordered *remove(Ordered &operation) {
        operation.ListNode<InSubmitOrder>::unlink();
        if (all_.empty() || !all_.front().waits_turn) return nullptr;
        all_.front().waits_turn = false;
        return &all_.front();
    }

private:
    List<Ordered, InSubmitOrder> all_;
};

}  // namespace xfer
