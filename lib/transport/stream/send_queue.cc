// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/send_queue.h"

namespace xfer::stream {

void SendQueue::post(Op &op) {
    op.seq = 0;
    op.canceled = op.unmapped = false;
    posted_.push_back(op);
    ++count_;
}

Op &SendQueue::depart() {
    Op &op = *posted_.pop_front();
    op.seq = ++departed_;
    asked_.push_back(op);
    return op;
}

bool SendQueue::withdraw(Op &op) {
    op.canceled = true;
    if (op.seq != 0) return false;
    op.ListNode<InPath>::unlink();
    canceled_.push_back(op);
    return true;
}

void SendQueue::finish(Op &op, Status status, PathSink &sink) {
    if (op.unmapped && !op.canceled && status != XFER_EPEERLOST) status = XFER_EIO;
    op.ListNode<InPath>::unlink();
    --count_;
    if (followed_ == &op) followed_ = nullptr;
    sink.on_done(op, status);
}

bool SendQueue::acknowledged(uint64_t seq, PathSink &sink) {
    if (asked_.empty() || seq < asked_.front().seq || seq > left_) return false;
    while (!asked_.empty() && asked_.front().seq <= seq) {
        if (asked_.front().dir != Dir::put) return false;
        finish(asked_.front(), XFER_OK, sink);
    }
    return true;
}

bool SendQueue::refused(uint64_t seq, Status status, PathSink &sink) {
    if (asked_.empty() || seq != asked_.front().seq || seq > left_) return false;
    // That a connection is lost its own end tells.
    finish(asked_.front(), status == XFER_EPEERLOST ? XFER_EPROTO : status, sink);
    return true;
}

Op *SendQueue::answered(uint64_t seq, uint32_t bytes) {
    if (asked_.empty() || seq != asked_.front().seq || seq > left_) return nullptr;
    Op &op = asked_.front();
    return op.dir != Dir::put && op.bytes == bytes ? &op : nullptr;
}

// What was discarded on its way in did not arrive. An atomic was done, canceled or not.
void SendQueue::got(Op &op, Status status, PathSink &sink) {
    finish(op, op.canceled && op.dir == Dir::get ? XFER_ECANCELED : status, sink);
}

void SendQueue::deliver_canceled(PathSink &sink) {
    while (!canceled_.empty())
        finish(canceled_.front(), XFER_ECANCELED, sink);
}

void SendQueue::fail_all(Status status, PathSink &sink) {
    for (;;) {
        deliver_canceled(sink);
        if (!asked_.empty())
            finish(asked_.front(), status, sink);
        else if (!posted_.empty())
            finish(posted_.front(), status, sink);
        else
            return;
    }
}

}  // namespace xfer::stream
