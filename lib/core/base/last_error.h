// SPDX-License-Identifier: Apache-2.0
// The last connection or attempt that failed, for `describe`. It needs no memory.
#pragma once

#include <cstdint>

#include "util/status.h"

namespace xfer {

struct LastError {
    Failure why;      // status XFER_OK: none yet
    Text where;       // the address, as far as one is known
    uint64_t at = 0;  // on the loop's clock
};

}  // namespace xfer
