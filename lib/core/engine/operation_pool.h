// SPDX-License-Identifier: Apache-2.0
// The operations of one call each that are not in use. Any thread takes one, and its end gives it
// back.
#pragma once

#include <mutex>

#include "core/transfer/cancel_request.h"
#include "core/transfer/operation.h"
#include "util/list.h"

namespace xfer {

// `Kind` is an operation that can be cleared for the next one.
template <typename Kind>
class OperationPool {
public:
    explicit OperationPool(CancelRequests &requests) : requests_(requests) {}
    ~OperationPool() {
        while (Pooled *pooled = pop())
            delete pooled;
    }

    // Throws std::bad_alloc.
    Kind *take() {
        Pooled *pooled = pop();
        return pooled ? pooled : new Pooled(*this);
    }

private:
    class Pooled final : public Kind {
    public:
        explicit Pooled(OperationPool &owner) : pool_(owner), cover_(owner.requests_) {}
        // Last what it had hold of: by that the engine may go, and the pool with it.
        void released() override {
            [[maybe_unused]] const auto held = this->clear();
            pool_.push(*this);
        }

    private:
        OperationPool &pool_;
        const CancelCover cover_;
    };

    Pooled *pop() {
        std::lock_guard lock(mutex_);
        return static_cast<Pooled *>(free_.pop_front());
    }
    void push(Pooled &pooled) {
        std::lock_guard lock(mutex_);
        free_.push_front(pooled);
    }

    CancelRequests &requests_;
    std::mutex mutex_;
    List<Operation, InQueue> free_;  // they link without memory that could lack
};

}  // namespace xfer
