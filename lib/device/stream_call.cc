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

void StreamCall::begin(bool in_graph) {
    result() = {};
    word().store(Ticket::begin(in_graph));
}

void StreamCall::write_status(xfer_status_t status, uint32_t flags) {
    std::atomic_ref(result().flags).store(flags, std::memory_order_relaxed);
    std::atomic_ref(result().status).store(status, std::memory_order_release);
}

void StreamCall::count_run(bool failed) {
    const uint64_t failures = result().failures + failed, runs = result().runs + 1;
    std::atomic_ref(result().failures).store(failures, std::memory_order_relaxed);
    std::atomic_ref(result().runs).store(runs, std::memory_order_release);
}

// Behind the end of the batch no launch moves anything: what is behind it in the stream is not to
// believe in the last run that did.
void StreamCall::arrived() noexcept {
    if (apply(TicketInput::arrive) == TicketOutput::ring) return ring();
    const bool passes_by = Ticket::phase(word().load()) == Ticket::over;
    if (passes_by && std::atomic_ref(result().status).load() == XFER_OK)
        write_status(XFER_ECANCELED, XFER_FENCED);
}

void StreamCall::forgotten() noexcept {
    gone_.store(true);
    ring();
    release();
}

}  // namespace xfer
