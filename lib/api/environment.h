// SPDX-License-Identifier: Apache-2.0
// XFER_LOG and XFER_TRANSPORTS fill what the program left open; they are read here and nowhere
// else.
#pragma once

#include "util/status.h"

namespace xfer {

// An unknown level means warn, and `warning` says so.
void choose_log(xfer_engine_options_t &options, Text &warning);

// A name in XFER_TRANSPORTS that is none is refused: half a restriction would let bytes take a path
// that was to be closed to them.
Failure choose_transports(xfer_engine_options_t &options);

}  // namespace xfer
