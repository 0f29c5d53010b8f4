// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/flush.h"

#include "core/transfer/flow.h"

namespace xfer {

void Flush::withdraw() {
    flow->complete(*this);
}

void Flush::ended() {
    Operation::ended();
    explain(reason);
}

void Flush::settle(FirstFailure &failures) {
    failures.tell(event, reason);
    explain(reason);
}

}  // namespace xfer
