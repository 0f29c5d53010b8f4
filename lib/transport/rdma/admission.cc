// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/admission.h"

#include "util/check.h"

namespace xfer::rdma {

Admission::~Admission() {
    while (tickets_.pop_front()) {}
}

bool Admission::fits(const Ticket &ticket) const {
    if (ticket.slots > slots_ - slots_taken_) return false;
    return bytes_taken_ == 0 || (bytes_taken_ <= bytes_ && ticket.bytes <= bytes_ - bytes_taken_);
}

void Admission::take(const Ticket &ticket) {
    slots_taken_ += ticket.slots;
    bytes_taken_ += ticket.bytes;
}

Admission::Verdict Admission::ask(Ticket &ticket) {
    XFER_CHECK(ticket.slots > 0 && !ticket.linked());
    if (ticket.slots > slots_) return Verdict::too_large;
    if (closed_) return Verdict::closed;
    if (!tickets_.empty() || !fits(ticket)) return tickets_.push_back(ticket), Verdict::waits;
    take(ticket);
    return Verdict::granted;
}

Ticket *Admission::next() {
    if (closed_ || tickets_.empty() || !fits(tickets_.front())) return nullptr;
    Ticket *const first = tickets_.pop_front();
    take(*first);
    return first;
}

void Admission::give_back(uint32_t slots, uint64_t bytes) {
    XFER_CHECK(slots <= slots_taken_ && bytes <= bytes_taken_);
    slots_taken_ -= slots;
    bytes_taken_ -= bytes;
}

// All that was granted has ended with the queue pair that had the slots.
void Admission::open(uint32_t slots) {
    XFER_CHECK(slots_taken_ == 0 && bytes_taken_ == 0);
    slots_ = slots;
    closed_ = false;
}

Ticket *Admission::next_refused() {
    if (tickets_.empty()) return nullptr;
    if (!closed_ && tickets_.front().slots <= slots_) return nullptr;
    return tickets_.pop_front();
}

}  // namespace xfer::rdma
