// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/queue_pair_end.h"

#include <utility>

#include "transport/rdma/adapter.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kFlushNs = 1'000 * kNsPerMs;  // for an adapter to flush what was posted
constexpr uint64_t kDestroyPauseNs = 20 * kNsPerMs;
constexpr uint32_t kDestroyTries = 10;

}  // namespace

QueuePairEnd::QueuePairEnd(Adapter &adapter, QueuePairEndSink &sink)
    : adapter_(adapter), sink_(sink) {}

QueuePairEnd::~QueuePairEnd() {
    adapter_.loop().disarm(limit_);
}

void QueuePairEnd::begin(QueuePair &pair) {
    pair_ = &pair;
    Loop &loop = adapter_.loop();
    loop.arm(limit_, loop.now() + kFlushNs);
    pair.fail();
    loop.defer(*this);
}

void QueuePairEnd::on_drained() {
    adapter_.loop().defer(*this);
}

void QueuePairEnd::run() {
    if (pair_->is_drained()) flushed();
}

void QueuePairEnd::on_timer(Timer &) {
    flushed_ ? try_to_destroy() : flushed();
}

void QueuePairEnd::flushed() {
    if (std::exchange(flushed_, true)) return;
    adapter_.loop().disarm(limit_);
    sink_.on_flushed();
}

void QueuePairEnd::destroy() {
    if (!std::exchange(destroying_, true)) try_to_destroy();
}

// What refers to it may have to end first.
void QueuePairEnd::try_to_destroy() {
    Loop &loop = adapter_.loop();
    const Failure why = pair_->destroy();
    if (why.status != XFER_OK && ++tries_ < kDestroyTries)
        return loop.arm(limit_, loop.now() + kDestroyPauseNs);
    if (why.status != XFER_OK) adapter_.log().error("{}", why.message);
    sink_.on_destroyed();
}

}  // namespace xfer::rdma
