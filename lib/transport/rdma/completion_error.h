// SPDX-License-Identifier: Apache-2.0
// Why a request failed, as its completion says.
#pragma once

#include <infiniband/verbs.h>

#include "util/status.h"

namespace xfer::rdma {

// Of a completion with a status other than IBV_WC_SUCCESS, which is the native code. Who is not
// reached any more is XFER_EPEERLOST; a key that the peer does not take, XFER_ESTALE.
Failure completion_failure(ibv_wc_status status, Text where);

}  // namespace xfer::rdma
