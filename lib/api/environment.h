// SPDX-License-Identifier: Apache-2.0
// XFER_LOG, XFER_TRANSPORTS and XFER_RDMA_DEVICES fill what the program left open; they are read
// here and nowhere else.
#pragma once

#include "util/status.h"
#include "xfer/rdma.h"

namespace xfer {

// An unknown level means warn, and `warning` says so.
void choose_log(xfer_engine_options_t &options, Text &warning);

// A name in XFER_TRANSPORTS that is none is refused: half a restriction would let bytes take a path
// that was to be closed to them.
Failure choose_transports(xfer_engine_options_t &options);

// A list in XFER_RDMA_DEVICES that is malformed is refused for the same reason. `rdma`: what
// `options` points to, if the program gave it, and what it points to if the list is taken.
Failure choose_rdma_devices(xfer_engine_options_t &options, xfer_rdma_options_t &rdma);

}  // namespace xfer
