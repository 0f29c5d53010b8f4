// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "util/status.h"

namespace xfer::tcp {

// Where a listener is, for peers to dial: in place of a wildcard an address of this host.
Result<std::string> dialable_uri(int listener);

}  // namespace xfer::tcp
