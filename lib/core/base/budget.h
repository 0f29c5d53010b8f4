// SPDX-License-Identifier: Apache-2.0
// How many peers an engine is connected to, or about to be: the bound that its user gave; also how
// many its user is asked about. Any loop takes and gives; one that finds none left counts
// as a waiter, and is woken by the others.
#pragma once

#include <atomic>
#include <cstdint>

namespace xfer {

class Budget {
public:
    explicit Budget(uint32_t bound) : bound_(bound) {}

    bool take() {
        for (uint32_t taken = taken_.load(); taken < bound_;)
            if (taken_.compare_exchange_weak(taken, taken + 1)) return true;
        return false;
    }
    void give() { taken_.fetch_sub(1); }

    std::atomic<uint32_t> waiters{0};  // loops on which a peer waits for a slot

private:
    const uint32_t bound_;
    std::atomic<uint32_t> taken_{0};
};

}  // namespace xfer
