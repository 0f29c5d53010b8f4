// SPDX-License-Identifier: Apache-2.0
#include "loop/timer_heap.h"

namespace xfer {

void TimerHeap::place(size_t slot, const Entry &entry) {
    heap_[slot] = entry;
    entry.timer->slot = slot;
}

void TimerHeap::sift_up(size_t slot, Entry entry) {
    while (slot > 0) {
        size_t parent = (slot - 1) / 2;
        if (!entry.before(heap_[parent])) break;
        place(slot, heap_[parent]);
        slot = parent;
    }
    place(slot, entry);
}

void TimerHeap::sift_down(size_t slot, Entry entry) {
    for (;;) {
        size_t child = 2 * slot + 1;
        if (child >= heap_.size()) break;
        if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
        if (!heap_[child].before(entry)) break;
        place(slot, heap_[child]);
        slot = child;
    }
    place(slot, entry);
}

void TimerHeap::arm(Timer &timer, uint64_t due) {
    disarm(timer);
    timer.due = due;
    Entry entry{due, ++armed_, &timer};
    heap_.push_back(entry);
    sift_up(heap_.size() - 1, entry);
}

void TimerHeap::disarm(Timer &timer) {
    if (!timer.armed()) return;
    size_t slot = timer.slot;
    timer.slot = Timer::kFree;
    Entry last = heap_.back();
    heap_.pop_back();
    if (slot == heap_.size()) return;
    if (slot > 0 && last.before(heap_[(slot - 1) / 2]))
        sift_up(slot, last);
    else
        sift_down(slot, last);
}

Timer *TimerHeap::pop(uint64_t now) {
    if (heap_.empty() || heap_[0].due > now) return nullptr;
    Timer *timer = heap_[0].timer;
    disarm(*timer);
    return timer;
}

}  // namespace xfer
