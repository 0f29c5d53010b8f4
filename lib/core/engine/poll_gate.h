// SPDX-License-Identifier: Apache-2.0
// Lets one thread at a time poll, until a join closes it, and says whether it looks: what is queued
// meanwhile needs no wake-up. Who leaves a gate that nobody closes
// touches nothing of it afterwards, so that the engine may be freed at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "util/status.h"

namespace xfer {

class PollGate {
public:
    // XFER_OK, and it looks; XFER_EBUSY, XFER_ECLOSED.
    Status enter() {
        uint32_t state = 0;
        if (state_.compare_exchange_strong(state, kInside | kLooking)) return XFER_OK;
        return state & kClosed ? XFER_ECLOSED : XFER_EBUSY;
    }
    void look_away() { state_.fetch_and(~kLooking); }
    // True: it was closed meanwhile.
    bool leave() {
        uint32_t state = state_.load(std::memory_order_relaxed);
        while (!(state & kClosed))
            if (state_.compare_exchange_weak(state, 0)) return false;
        leave_closed();
        return true;
    }
    void look() { state_.fetch_or(kLooking); }  // who has closed it
    bool looking() const { return state_.load() & kLooking; }
    bool entered() const { return state_.load() & kInside; }
    bool interrupted() const {
        constexpr uint32_t kBoth = kInside | kClosed;
        return (state_.load() & kBoth) == kBoth;
    }
    void close() { state_.fetch_or(kClosed); }
    void await_empty();  // after close()

private:
    void leave_closed();

    static constexpr uint32_t kInside = 1, kClosed = 2, kLooking = 4;
    std::atomic<uint32_t> state_{0};
    std::mutex mutex_;
    std::condition_variable left_;
};

}  // namespace xfer
