// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/notify_sender.h"

#include <algorithm>

#include "core/connection/connection.h"
#include "core/transfer/flow.h"
#include "util/memory.h"

namespace xfer {

void NotifySender::begin_waiting() {
    while (!held_.empty() && room()) {
        Transfer &transfer = held_.front();
        if (!catch_bad_alloc([&] { open_.insert(last_ + 1, &transfer); })) {
            flow_.end(transfer, XFER_ENOMEM);
            continue;
        }
        transfer.notification_number = ++last_;
        transfer.notification = Transfer::Notification::begun;
        transfer.ListNode<InQueue>::unlink();
        // One without data is said at once: what has begun is told to the owner, even if canceled.
        if (transfer.drawn())
            transfer.try_complete();
        else
            flow_.queue(transfer);
    }
}

// Those of which something is held back on its way out stay for the next time.
void NotifySender::close_what_left() {
    if (!flow_.connection()->handshake.agreed(kCountedNotify)) return;
    List<Transfer, InQueue> leaving;
    leaving.append(leaving_);
    while (Transfer *transfer = leaving.pop_front()) {
        // What was refused is counted by nobody: its end says so.
        if (transfer->status != XFER_OK || transfer->told()) continue;
        if (const uint64_t awaited = transfer->left())
            send(*transfer, XFER_OK, awaited);
        else
            leaving_.push_back(*transfer);
    }
}

void NotifySender::close(Transfer &transfer, Status status) {
    transfer.ListNode<InQueue>::unlink();
    send(transfer, status, 0);
}

void NotifySender::say_again() {
    open_.each([&](uint64_t, Transfer *transfer) {
        if (transfer->awaits_noted()) send(*transfer, XFER_OK, 0);
    });
}

void NotifySender::send(Transfer &transfer, Status status, uint64_t awaited) {
    transfer.notification = Transfer::Notification::closed;
    Frame frame;
    frame.type = FrameType::notify;
    frame.seq = transfer.notification_number;
    frame.region = transfer.notify_key;
    frame.status = status;
    uint8_t body[kMaxNotifyData + kCountBytes];
    uint8_t *end = body;
    if (status == XFER_OK)
        end = std::copy(transfer.notify_data.begin(), transfer.notify_data.end(), end);
    if (awaited) {
        frame.flags = kCounted;
        store<uint64_t>(end, awaited);
        end += kCountBytes;
    }
    frame.length = static_cast<uint32_t>(end - body);
    flow_.connection()->send(frame, {body, frame.length});
}

// How many the peer's application has had; false if it can't be.
bool NotifySender::consumed(uint64_t total) {
    if (total > last_ || total < consumed_) return false;
    consumed_ = total;
    return true;
}

void NotifySender::noted(const Frame &frame) {
    Transfer **const open = open_.find(frame.seq);
    Transfer *transfer = open ? *open : nullptr;
    // Of one that is over and forgotten, it comes late.
    const bool sound = transfer ? transfer->told() : frame.seq <= last_;
    if (!consumed(frame.region) || !sound)
        return flow_.connection()->close(
            {XFER_EPROTO, 0, 0, "the peer notes what it was not told"});
    if (!transfer) return;
    transfer->notification = Transfer::Notification::noted;
    transfer->progress = flow_.now();
    if (transfer->drawn()) transfer->try_complete();
}

void NotifySender::end(Transfer &transfer) {
    if (transfer.status != XFER_OK) {
        // The owner's application may have been told that it has ended well.
        if (transfer.told()) transfer.maybe_applied = true;
        const Connection *live = flow_.connection();
        if (live && live->usable()) close(transfer, transfer.status);
    }
    open_.erase(transfer.notification_number);
}

void NotifySender::reset() {
    open_.clear();
    last_ = consumed_ = 0;
    oldest_ = 1;
}

}  // namespace xfer
