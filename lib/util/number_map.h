// SPDX-License-Identifier: Apache-2.0
// Items by numbers that are given out one after the other, from 1: an open-addressing hash table
// with linear probing (Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R), where
// the place of a number is its low bits, so that the latest ones lie side by side. It takes memory
// to grow, and for nothing else. As long as each has its own place, no step depends on how many
// there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "util/check.h"

namespace xfer {

template <typename T>
class NumberMap {
public:
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    bool contains(uint64_t number) const { return place_of(number) != kNowhere; }
    T *find(uint64_t number) {
        const size_t at = place_of(number);
        return at == kNowhere ? nullptr : &slots_[at].item;
    }

    // Room for one more, so that inserting it needs no memory. Throws std::bad_alloc.
    void make_room() {
        if (2 * (size_ + 1) > room_) grow();
    }
    T &insert(uint64_t number, T item) {
        XFER_CHECK(number != 0 && !contains(number));
        make_room();
        const size_t at = free_place(number);
        slots_[at] = {number, std::move(item)};
        ++size_;
        displaced_ += at != home(number);
        return slots_[at].item;
    }
    // False: it was not there.
    bool erase(uint64_t number) {
        size_t gap = place_of(number);
        if (gap == kNowhere) return false;
        displaced_ -= gap != home(number);
        // What was pushed past the gap comes back into it.
        for (size_t at = next(gap); displaced_ > 0 && slots_[at].number != 0; at = next(at)) {
            const size_t own = home(slots_[at].number);
            if (((at - own) & (room_ - 1)) < ((at - gap) & (room_ - 1))) continue;
            displaced_ -= gap == own;
            slots_[gap] = std::move(slots_[at]);
            gap = at;
        }
        slots_[gap] = {};
        --size_;
        return true;
    }
    void clear() {
        slots_.reset();
        size_ = room_ = displaced_ = 0;
    }
    // In no order. The map stays as it is meanwhile.
    template <typename Visit>
    void each(Visit visit) {
        for (size_t at = 0; at < room_; ++at)
            if (slots_[at].number != 0) visit(slots_[at].number, slots_[at].item);
    }

private:
    struct Slot {
        uint64_t number = 0;  // 0: free
        T item{};
    };
    static constexpr size_t kNowhere = SIZE_MAX, kFirst = 16;

    size_t home(uint64_t number) const { return number & (room_ - 1); }
    size_t next(size_t at) const { return (at + 1) & (room_ - 1); }
    size_t place_of(uint64_t number) const {
        if (room_ == 0 || number == 0) return kNowhere;
        size_t at = home(number);
        while (slots_[at].number != number) {
            if (slots_[at].number == 0) return kNowhere;
            at = next(at);
        }
        return at;
    }
    size_t free_place(uint64_t number) const {
        size_t at = home(number);
        while (slots_[at].number != 0)
            at = next(at);
        return at;
    }
    void grow() {
        const size_t room = room_ ? 2 * room_ : kFirst;
        auto slots = std::make_unique<Slot[]>(room);
        slots.swap(slots_);
        const size_t had = std::exchange(room_, room);
        displaced_ = 0;
        for (size_t from = 0; from < had; ++from) {
            if (slots[from].number == 0) continue;
            const size_t at = free_place(slots[from].number);
            displaced_ += at != home(slots[from].number);
            slots_[at] = std::move(slots[from]);
        }
    }

    std::unique_ptr<Slot[]> slots_;
    size_t room_ = 0, size_ = 0;  // a power of two, or 0; at most half of it
    size_t displaced_ = 0;        // that are not in their own place
};

}  // namespace xfer
