// SPDX-License-Identifier: Apache-2.0
// Armed timers in order of their due time: a pairing heap whose nodes are the timers themselves, so
// that arming can't fail, and disarming costs no search. Timers that are due together fire in the
// order in which they were armed.
#pragma once

#include <cstdint>

#include "loop/loop.h"

namespace xfer {

class TimerHeap {
public:
    bool empty() const { return !first_; }
    uint64_t next_due() const { return first_ ? first_->due : kNever; }
    void arm(Timer &timer, uint64_t due);
    void disarm(Timer &timer);
    // The first timer if it is due, taken out; else null.
    Timer *pop(uint64_t now);

private:
    Timer *first_ = nullptr;
    uint64_t armed_ = 0;  // counts armings
};

}  // namespace xfer
