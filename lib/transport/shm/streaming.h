// SPDX-License-Identifier: Apache-2.0
// A copy past the caches, for what is more than they hold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xfer::shm {

// As memcpy. What it wrote comes before all that is written afterwards.
void streaming_copy(uint8_t *to, const uint8_t *from, size_t length);

}  // namespace xfer::shm
