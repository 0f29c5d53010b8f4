// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "util/uri.h"

namespace xfer {

// XFER_EADDR if the host of a TCP address is not numeric, or no interface here has that address.
Failure check_local_address(const Uri &uri);

}  // namespace xfer
