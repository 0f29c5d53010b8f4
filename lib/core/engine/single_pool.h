// SPDX-License-Identifier: Apache-2.0
// The operations of one call each that are not in use. Any thread takes one, and its end gives it
// back.
#pragma once

#include <mutex>

#include "core/transfer/single.h"
#include "util/list.h"

namespace xfer {

class SinglePool {
public:
    Single *take() {  // null: there is none
        std::lock_guard lock(mutex_);
        return static_cast<Single *>(free_.pop_front());
    }
    void give(Single &single) {
        std::lock_guard lock(mutex_);
        free_.push_front(single);
    }
    void clear() {
        while (Single *single = take())
            delete single;
    }

private:
    std::mutex mutex_;
    List<Transfer, InQueue> free_;  // they link without memory that could lack
};

}  // namespace xfer
