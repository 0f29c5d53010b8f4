// SPDX-License-Identifier: Apache-2.0
// Who may post next on a path: tickets in the order of their coming, each for all that its chain
// needs, slots and bytes. Pure. Nobody holds a part of what he waits for, and nobody is overtaken:
// a ticket that fits waits behind one that does not. So each waits at most for what was granted
// before it. Who has waited for too long withdraws; that is his timer's to say.
//
// Needs no memory: tickets link themselves. Thread: none of its own.
#pragma once

#include <cstdint>

#include "util/list.h"

namespace xfer::rdma {

struct InAdmission;

struct Ticket : ListNode<InAdmission> {
    uint32_t slots = 0;
    uint64_t bytes = 0;
    void *user = nullptr;  // whose it is
};

class Admission {
public:
    // Too large: it would never fit. Closed: the path is being made anew.
    enum class Verdict : uint8_t { granted, waits, too_large, closed };

    // `bytes` under way at once; one chain alone may have more, so that any size moves.
    Admission(uint32_t slots, uint64_t bytes) : slots_(slots), bytes_(bytes) {}
    ~Admission();

    // The ticket stays the caller's. Granted: the slots are taken, and the ticket is free again.
    Verdict ask(Ticket &ticket);
    // The first that waits, if there is room for it now; it is granted then.
    Ticket *next();
    // Of what was granted, once it has ended.
    void give_back(uint32_t slots, uint64_t bytes);
    // It waits no more. Those behind it may have room now: next().
    void withdraw(Ticket &ticket) { ticket.unlink(); }

    // Nothing is granted until it is opened again, with what its queue pair has been granted.
    void close() { closed_ = true; }
    void open(uint32_t slots);
    // One that waits while it is closed, or that does not fit any more, to be sent elsewhere.
    Ticket *next_refused();

    bool waiting() const { return !tickets_.empty(); }
    uint32_t slots_taken() const { return slots_taken_; }
    uint64_t bytes_taken() const { return bytes_taken_; }

private:
    bool fits(const Ticket &ticket) const;
    void take(const Ticket &ticket);

    uint32_t slots_;
    const uint64_t bytes_;
    uint32_t slots_taken_ = 0;
    uint64_t bytes_taken_ = 0;
    bool closed_ = false;
    List<Ticket, InAdmission> tickets_;
};

}  // namespace xfer::rdma
