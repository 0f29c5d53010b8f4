// SPDX-License-Identifier: Apache-2.0
// Lets one thread at a time poll, until a join closes it. Who leaves a gate that nobody closes
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
    Status enter();  // XFER_OK, XFER_EBUSY, XFER_ECLOSED
    bool leave();    // true: it was closed meanwhile
    bool interrupted() const { return state_.load() == (kInside | kClosed); }
    void close() { state_.fetch_or(kClosed); }
    void await_empty();  // after close()

private:
    static constexpr uint32_t kInside = 1, kClosed = 2;
    std::atomic<uint32_t> state_{0};
    std::mutex mutex_;
    std::condition_variable left_;
};

}  // namespace xfer
