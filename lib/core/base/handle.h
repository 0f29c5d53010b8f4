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

// Polymorphic, and the first base of each handle: so it is the primary base, at the address of the
// object, and any handle can be asked for its type before it is known to be of that type.
class Handle {
public:
    explicit Handle(Magic magic) : magic_(static_cast<uint32_t>(magic)) {}
    virtual ~Handle() { magic_.store(0, std::memory_order_relaxed); }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    bool is(Magic magic) const {
        return magic_.load(std::memory_order_relaxed) == static_cast<uint32_t>(magic);
    }

private:
    std::atomic<uint32_t> magic_;
};

}  // namespace xfer
