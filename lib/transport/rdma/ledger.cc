// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/ledger.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "util/check.h"

namespace xfer::rdma {

Ledger::Ledger(uint32_t slots, uint32_t generation)
    : capacity_(slots), generation_(generation & 0xffffff), chains_(std::bit_ceil(slots)) {}

Ledger::Verdict Ledger::reserve(uint32_t requests) {
    XFER_CHECK(requests > 0 && reserved_ == 0);
    if (requests > capacity_) return Verdict::too_large;
    if (degraded_) return Verdict::degraded;
    if (requests > capacity_ - depth_) return Verdict::full;
    depth_ += reserved_ = requests;
    return Verdict::reserved;
}

// What was not taken gives its slots back at once; orphans are a chain that no completion ends.
void Ledger::posted(Chain chain, uint32_t taken) {
    XFER_CHECK(reserved_ && chain.requests == reserved_ && taken <= reserved_);
    depth_ -= std::exchange(reserved_, 0u) - taken;
    if (taken < chain.requests) degrade(next_);
    if (taken == 0) return;
    chain.requests = taken;
    at(next_++) = chain;
}

// The earliest fault counts.
void Ledger::degrade(uint32_t index) {
    if (!std::exchange(degraded_, true) || index - first_ < bad_ - first_) bad_ = index;
}

// A device that tells of success behind a fault is not believed.
bool Ledger::completed(uint64_t id, bool ok) {
    const RequestId request = RequestId::of(id);
    const uint32_t place = request.index - first_;
    if (request.kind != RequestKind::chain || request.generation != generation_) return false;
    if (flushed_ || place >= next_ - first_ || place < done_ - first_) return false;
    if (!ok)
        degrade(request.index);
    else if (!degraded_ || place < bad_ - first_)
        done_ = request.index + 1;
    return true;
}

Ledger::Chain Ledger::pop() {
    const Chain chain = at(first_++);
    depth_ -= chain.requests;
    return chain;
}

std::optional<Ledger::Chain> Ledger::pop_done() {
    if (first_ == done_) return std::nullopt;
    return pop();
}

void Ledger::flushed() {
    degraded_ = flushed_ = true;
}

std::optional<Ledger::Chain> Ledger::pop_failed() {
    if (!flushed_ || first_ != done_ || first_ == next_) return std::nullopt;
    ++done_;
    return pop();
}

}  // namespace xfer::rdma
