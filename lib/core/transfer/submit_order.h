// SPDX-License-Identifier: Apache-2.0
// The operations of one endpoint, oldest first, from their submit to their event. An ordered one
// begins when it is the oldest. Belongs to the loop of the endpoint's peer and moves with the
// endpoint, so that what stays behind on another connection, or on another loop, is still waited
// for. Each step is O(1).
#pragma once

#include "util/list.h"

namespace xfer {

class Transfer;
struct InSubmitOrder;

class SubmitOrder {
public:
    void add(Transfer &transfer);  // says whether it has to wait for its turn
    // The one whose turn has come by this, if any.
    Transfer *remove(Transfer &transfer);

private:
    List<Transfer, InSubmitOrder> all_;
};

}  // namespace xfer
