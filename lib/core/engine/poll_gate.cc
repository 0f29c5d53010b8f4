// SPDX-License-Identifier: Apache-2.0
#include "core/engine/poll_gate.h"

namespace xfer {

void PollGate::leave_closed() {
    std::lock_guard lock(mutex_);
    state_.fetch_and(~(kInside | kLooking));
    left_.notify_all();
}

void PollGate::await_empty() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return !(state_.load() & kInside); });
}

}  // namespace xfer
