// SPDX-License-Identifier: Apache-2.0
// The operations of one channel, on the side that wants them done: waiting to leave, then waiting
// for their answers, which come in order.
#pragma once

#include <utility>

#include "transport/transport.h"

namespace xfer::stream {

class SendQueue {
public:
    void start(uint32_t max_ops) { max_ops_ = max_ops; }
    uint32_t max_ops() const { return max_ops_; }
    bool full() const { return count_ >= max_ops_; }
    bool waiting() const { return !posted_.empty(); }

    void post(Op &op);
    Op &depart();  // the next one is put into a batch: gets its number
    // Its last byte is out of our hands, and it may be answered. What follows it may still be
    // withdrawn, as long as it has no answer.
    void left(Op &op, bool notify_follows) {
        left_ = op.seq;
        op.left = !notify_follows;
        if (notify_follows) followed_ = &op;
    }
    void notify_left() {
        if (Op *op = std::exchange(followed_, nullptr)) op->left = true;
    }
    Op *followed() const { return followed_; }
    // True if it had not departed: on_done comes by deliver_canceled().
    bool withdraw(Op &op);

    // Answers of the peer. False: one that the protocol does not allow.
    bool acknowledged(uint64_t seq, PathSink &sink);
    bool refused(uint64_t seq, Status status, PathSink &sink);
    Op *answered(uint64_t seq, uint32_t bytes);  // by data; null: not allowed
    void got(Op &op, Status status, PathSink &sink);

    bool has_canceled() const { return !canceled_.empty(); }
    void deliver_canceled(PathSink &sink);
    void fail_all(Status status, PathSink &sink);

private:
    using Ops = List<Op, InPath>;
    void finish(Op &op, Status status, PathSink &sink);

    Ops posted_, asked_, canceled_;
    uint32_t max_ops_ = 0, count_ = 0;
    uint64_t departed_ = 0;   // highest number given
    uint64_t left_ = 0;       // highest number that may be answered
    Op *followed_ = nullptr;  // its notify has not left whole; null: or it was answered before
};

}  // namespace xfer::stream
