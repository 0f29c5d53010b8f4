// SPDX-License-Identifier: Apache-2.0
// CRC-32C (RFC 3720), by the instructions that the processor has for it: ISA-L picks them.
#pragma once

#include <isa-l/crc.h>

#include <algorithm>
#include <cstdint>

namespace xfer {

class Crc32c {
public:
    void add(const void *bytes, uint64_t count) {
        constexpr uint64_t kMost = 1 << 30;  // the count is an int there
        auto *at = static_cast<const unsigned char *>(bytes);
        for (uint64_t n; count > 0; at += n, count -= n) {
            n = std::min(count, kMost);
            state_ = crc32_iscsi(const_cast<unsigned char *>(at), static_cast<int>(n), state_);
        }
    }
    uint32_t value() const { return ~state_; }

private:
    uint32_t state_ = UINT32_MAX;
};

}  // namespace xfer
