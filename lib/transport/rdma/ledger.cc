// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/ledger.h"

#include <algorithm>
#include <bit>

#include "util/check.h"

namespace xfer::rdma {

namespace {

// Of numbers that wrap, less than 2^31 apart.
bool is_before(uint32_t left, uint32_t right) {
    return static_cast<int32_t>(left - right) < 0;
}

}  // namespace

Ledger::Ledger(uint32_t slots) : slots_(slots), records_(std::bit_ceil(slots)) {
    XFER_CHECK(slots > 0 && slots <= uint32_t{1} << 30);  // numbers wrap
}

Admitted Ledger::reserve(uint32_t requests) {
    XFER_CHECK(reserved_ == 0 && requests > 0);
    if (degraded_) return Admitted::degraded;
    if (requests > slots_) return Admitted::too_large;
    if (requests > slots_ - outstanding()) return Admitted::full;
    reserved_ = requests;
    answered_ = false;
    return Admitted::granted;
}

void Ledger::append(uint64_t cookie, uint32_t requests) {
    next_ += requests;
    Record &added = record(last_++);
    added = {};
    added.end.cookie = cookie;
    added.end.requests = requests;
    added.past = next_;
}

void Ledger::posted(uint64_t cookie, uint32_t requests) {
    XFER_CHECK(requests > 0 && requests <= reserved_);
    append(cookie, requests);
    reserved_ -= requests;
    answered_ = true;
}

void Ledger::refused(uint64_t cookie, uint32_t taken) {
    XFER_CHECK(reserved_ > 0);
    if (taken > 0) append(cookie, std::min(taken, reserved_));
    degraded_ |= taken > 0 || answered_;
    reserved_ = 0;
}

bool Ledger::is_outstanding(uint32_t sequence) const {
    return sequence - reached_ < next_ - reached_;
}

bool Ledger::completed(uint32_t sequence) {
    if (!is_outstanding(sequence)) return false;
    end_through(sequence, 0);
    return true;
}

bool Ledger::failed(uint32_t sequence, int native) {
    XFER_CHECK(native != 0);
    if (!is_outstanding(sequence)) return false;
    degraded_ = true;
    end_through(sequence, native);
    return true;
}

// After a success, what is before it succeeded: else the queue pair would be in ERR, and this
// request flushed. After an error, a chain before it that nothing was told of is unknown.
void Ledger::end_through(uint32_t sequence, int native) {
    reached_ = sequence + 1;
    for (; told_ != last_; ++told_) {
        Record &chain = record(told_);
        const uint32_t first = chain.past - chain.end.requests;
        if (is_before(sequence, first)) return;
        // The first bad news of a chain is the cause: what follows was flushed.
        const bool is_news = chain.end.how == ChainEnd::How::unknown;
        const bool is_over = !is_before(sequence + 1, chain.past);
        if (is_news && native && is_before(sequence, chain.past)) {
            chain.end.how = ChainEnd::How::failed;
            chain.end.native = native;
        } else if (is_news && !native && is_over) {
            chain.end.how = ChainEnd::How::done;
        }
        if (!is_over) return;
        chain.ended = true;
    }
}

void Ledger::drained() {
    degraded_ = true;
    reached_ = next_;
    for (; told_ != last_; ++told_)
        record(told_).ended = true;
}

std::optional<ChainEnd> Ledger::pop_ended() {
    if (first_ == last_ || !record(first_).ended) return std::nullopt;
    const Record &chain = record(first_++);
    freed_ = chain.past;
    return chain.end;
}

}  // namespace xfer::rdma
