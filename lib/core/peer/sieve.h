// SPDX-License-Identifier: Apache-2.0
// Which of many goes first when there are too many: SIEVE (Zhang et al., "SIEVE is Simpler than
// LRU", NSDI 2024). A hand goes from the oldest to the newest and around again; what was used since
// it last came by is spared once, the first that was not is taken. A use only sets a flag, nothing
// moves. The order of the two lists is that of coming in: what the hand has passed, what is ahead.
#pragma once

#include "util/list.h"

namespace xfer {

struct InSieve;

class SieveNode : public ListNode<InSieve> {
public:
    void used() { used_ = true; }

private:
    template <typename T>
    friend class Sieve;
    bool used_ = false;
};

template <typename T>
class Sieve {
public:
    void insert(T &item) {
        item.used_ = false;
        ahead_.push_back(item);
    }
    void remove(T &item) { item.ListNode<InSieve>::unlink(); }

    // The next to go of those that may; null: none may. It stays in, behind the hand.
    template <typename MayGo>
    T *pick(MayGo may_go) {
        for (int rounds = 0; rounds < 3; ++rounds) {  // the rest of one, and two whole ones
            while (T *item = ahead_.pop_front()) {
                passed_.push_back(*item);
                if (!may_go(*item)) continue;
                if (!item->used_) return item;
                item->used_ = false;
            }
            ahead_.append(passed_);
        }
        return nullptr;
    }

private:
    List<T, InSieve> passed_, ahead_;
};

}  // namespace xfer
