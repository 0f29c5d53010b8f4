// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers in byte buffers, whatever the machine's own order is.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace xfer {

using ConstBytes = std::span<const uint8_t>;
using Bytes = std::span<uint8_t>;

static_assert(std::endian::native == std::endian::little,
              "big-endian machines need swaps in load and store");

template <typename T>
T load(const uint8_t *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <typename T>
void store(uint8_t *to, T value) {
    std::memcpy(to, &value, sizeof value);
}

}  // namespace xfer
