// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "util/status.h"

namespace xfer::tcp {

// Where a listener is, for peers to dial: in place of a wildcard the addresses of this host, of
// that family; those of loopback only if there are no others.
Result<std::vector<std::string>> dialable_uris(int listener);

}  // namespace xfer::tcp
