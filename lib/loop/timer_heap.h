// SPDX-License-Identifier: Apache-2.0
// Armed timers in order of their due time: a binary heap in which every timer knows its slot, so
// that disarming costs no search. Timers that are due together fire in the order in which they were
// armed.
#pragma once

#include <cstdint>
#include <vector>

#include "loop/loop.h"

namespace xfer {

class TimerHeap {
public:
    bool empty() const { return heap_.empty(); }
    uint64_t next_due() const { return heap_.empty() ? kNever : heap_[0].due; }
    void arm(Timer &timer, uint64_t due);
    void disarm(Timer &timer);
    // The first timer if it is due, taken out; else null.
    Timer *pop(uint64_t now);

private:
    struct Entry {
        uint64_t due;
        uint64_t order;
        Timer *timer;
        bool before(const Entry &other) const {
            return due != other.due ? due < other.due : order < other.order;
        }
    };
    void place(size_t slot, const Entry &entry);
    void sift_up(size_t slot, Entry entry);
    void sift_down(size_t slot, Entry entry);

    std::vector<Entry> heap_;
    uint64_t armed_ = 0;  // counts armings
};

}  // namespace xfer
