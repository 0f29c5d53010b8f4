// SPDX-License-Identifier: Apache-2.0
#include "device/stream_call.h"

namespace xfer {

void StreamCall::ring() noexcept {
    const std::lock_guard lock(mutex_);
    if (sink_) sink_->ring();
}

void StreamCall::leave() {
    const std::lock_guard lock(mutex_);
    sink_ = nullptr;
}

void StreamCall::arrived() noexcept {
    if (apply(TicketInput::arrive) == TicketOutput::ring) ring();
}

void StreamCall::forgotten() noexcept {
    gone_.store(true);
    ring();
    release();
}

}  // namespace xfer
