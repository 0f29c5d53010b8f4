// SPDX-License-Identifier: Apache-2.0
// What every handle of the C ABI begins with: a word that tells live handles of the right type from
// anything else.
#pragma once

#include <atomic>
#include <cstdint>

namespace xfer {

enum class Magic : uint32_t {
    engine = 0x78666531,
    region = 0x78667231,
    endpoint = 0x78667031,
    batch = 0x78666231,
    counter = 0x78666331,
};

class Handle {
public:
    explicit Handle(Magic magic) : magic_(static_cast<uint32_t>(magic)) {}
    ~Handle() { magic_.store(0, std::memory_order_relaxed); }
    bool is(Magic magic) const {
        return magic_.load(std::memory_order_relaxed) == static_cast<uint32_t>(magic);
    }

private:
    std::atomic<uint32_t> magic_;
};

}  // namespace xfer
