// SPDX-License-Identifier: Apache-2.0
#include "core/poll_gate.h"

namespace xfer {

Status PollGate::enter() {
    uint32_t state = 0;
    if (state_.compare_exchange_strong(state, kInside)) return XFER_OK;
    return state & kClosed ? XFER_ECLOSED : XFER_EBUSY;
}

bool PollGate::leave() {
    uint32_t state = kInside;
    if (state_.compare_exchange_strong(state, 0)) return false;
    std::lock_guard lock(mutex_);
    state_.fetch_and(~kInside);
    left_.notify_all();
    return true;
}

void PollGate::await_empty() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return !(state_.load() & kInside); });
}

}  // namespace xfer
