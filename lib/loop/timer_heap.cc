// SPDX-License-Identifier: Apache-2.0
#include "loop/timer_heap.h"

#include <utility>

namespace xfer {

namespace {

bool sooner(const Timer &one, const Timer &other) {
    return one.due != other.due ? one.due < other.due : one.slot < other.slot;
}

// One heap of two, either of which may be none: the later root becomes the first below the other.
Timer *meld(Timer *one, Timer *other) {
    if (!one || !other) return one ? one : other;
    if (sooner(*other, *one)) std::swap(one, other);
    other->before = one;
    other->next = one->below;
    if (other->next) other->next->before = other;
    one->below = other;
    return one;
}

// One heap of those that stood side by side below a root: first in pairs, then all the pairs.
Timer *meld_row(Timer *row) {
    Timer *pairs = nullptr;
    while (row) {
        Timer *one = row, *other = row->next;
        row = other ? other->next : nullptr;
        one->before = one->next = nullptr;
        if (other) other->before = other->next = nullptr;
        Timer *pair = meld(one, other);
        pair->next = pairs;
        pairs = pair;
    }
    Timer *whole = nullptr;
    while (Timer *pair = pairs) {
        pairs = std::exchange(pair->next, nullptr);
        whole = meld(whole, pair);
    }
    return whole;
}

}  // namespace

void TimerHeap::arm(Timer &timer, uint64_t due) {
    disarm(timer);
    timer.due = due;
    timer.slot = ++armed_;
    first_ = meld(first_, &timer);
}

void TimerHeap::disarm(Timer &timer) {
    if (!timer.armed()) return;
    timer.slot = Timer::kFree;
    Timer *row = meld_row(std::exchange(timer.below, nullptr));
    if (&timer == first_) {
        first_ = row;
        return;
    }
    (timer.before->below == &timer ? timer.before->below : timer.before->next) = timer.next;
    if (timer.next) timer.next->before = timer.before;
    timer.before = timer.next = nullptr;
    first_ = meld(first_, row);
}

Timer *TimerHeap::pop(uint64_t now) {
    if (!first_ || first_->due > now) return nullptr;
    Timer *timer = first_;
    disarm(*timer);
    return timer;
}

}  // namespace xfer
