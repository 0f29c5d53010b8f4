// SPDX-License-Identifier: Apache-2.0
// What a batch is told at its submit, to its peer or on a stream.
#pragma once

#include "api/building.h"

namespace xfer {

// Checks the options, and copies the data of the notification into the batch, which nobody else
// has.
Status take_submit(Batch &batch, const xfer_submit_options_t *given, xfer_submit_options_t &options,
                   Failure &why);
// All else of them, and what its event says of it.
void set_submit(Batch &batch, uint64_t user, const xfer_submit_options_t &options);

}  // namespace xfer
