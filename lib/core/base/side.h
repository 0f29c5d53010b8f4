// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace xfer {

// Who has dialed a connection.
enum class Side : uint8_t { ours, theirs };

}  // namespace xfer
