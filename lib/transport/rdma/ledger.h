// SPDX-License-Identifier: Apache-2.0
// What a send queue owes: the slots that its requests occupy, and which completion gives which of
// them back. Pure; a queue pair has one, with as many slots as the device has granted.
//
// A chain is one post list, of which the last request alone is signaled. Requests of a reliable
// connection complete in their order, so the completion of a chain stands for it and for all before
// it. A device that took only the first of a list leaves *orphans*: they are unsignaled, nothing
// will tell their end, and so no slot behind them can ever be given back. The ledger is degraded
// then, as after a completion with an error, and takes no more; once the queue pair is in ERR and
// flushed, or destroyed, all that was owed is returned as failed.
//
// Needs no memory after its construction. Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/rdma/request_id.h"

namespace xfer::rdma {

class Ledger {
public:
    // `user`: whose the chain is.
    struct Chain {
        uint32_t requests = 0;
        void *user = nullptr;
    };
    // Full: wait until some chain ends. Too large: it never fits. Degraded: the queue pair is to be
    // made anew first. After each of these nothing is reserved.
    enum class Verdict : uint8_t { reserved, full, too_large, degraded };

    Ledger(uint32_t slots, uint32_t generation);  // may throw

    uint32_t capacity() const { return capacity_; }
    uint32_t free() const { return degraded_ ? 0 : capacity_ - depth_; }
    uint32_t depth() const { return depth_; }  // slots that are reserved or occupied
    bool degraded() const { return degraded_; }

    // Slots for a whole chain, or none: what waits for slots holds none.
    Verdict reserve(uint32_t requests);
    // The number of all requests of the chain that was reserved last.
    uint64_t id() const { return RequestId{RequestKind::chain, generation_, next_}.word(); }
    // The device has taken so many of its requests. All of them: it ends by completion. Else those
    // are orphans, if there are any, and the rest of the slots is free again.
    void posted(Chain chain, uint32_t taken);

    // A completion. False: it is of no request that this ledger knows as under way. With an error
    // the ledger is degraded, and the chain ends when all is flushed.
    bool completed(uint64_t id, bool ok);
    // Chains that have ended well, the oldest first.
    std::optional<Chain> pop_done();

    // Nothing that was posted is under way any more: the rest ends, none of it well.
    void flushed();
    std::optional<Chain> pop_failed();

private:
    Chain &at(uint32_t index) { return chains_[index & (chains_.size() - 1)]; }
    void degrade(uint32_t index);
    Chain pop();

    const uint32_t capacity_, generation_;
    std::vector<Chain> chains_;  // a ring: there are no more chains than slots
    // Chains by their number, which wraps: popped up to first_, ended well up to done_, posted up
    // to next_. None from bad_ on ends well, once the ledger is degraded.
    uint32_t first_ = 0, done_ = 0, bad_ = 0, next_ = 0;
    uint32_t depth_ = 0, reserved_ = 0;
    bool degraded_ = false, flushed_ = false;
};

}  // namespace xfer::rdma
