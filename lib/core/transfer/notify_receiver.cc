// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/notify_receiver.h"

#include "core/base/endpoint.h"
#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/connection/request_staging.h"
#include "core/transfer/notify_counter.h"

namespace xfer {

NotifyReceiver::NotifyReceiver(Connection &connection)
    : connection_(connection),
      credit_(Ref<NotifyCredit>::adopt(new NotifyCredit(connection.shard, connection))) {}

NotifyReceiver::~NotifyReceiver() {
    credit_->forget();
}

bool NotifyReceiver::over(uint64_t number) const {
    return number <= low_water_ || over_.contains(number);
}

bool NotifyReceiver::has_room(uint64_t number) const {
    return number <= low_water_ + kNotificationSpan && begun_ - reported_ < kMaxNotifications;
}

NotifyReceiver::Open *NotifyReceiver::begin(uint64_t number, uint64_t key) {
    if (!has_room(number)) {
        connection_.close({XFER_EPROTO, 0, 0, "more notifications than there is room for"});
        return nullptr;
    }
    Open &open = open_.insert(
        number, {.notification = connection_.shard.engine.notifications().take(*credit_, key)});
    ++begun_;
    somebody();
    return &open;
}

Status NotifyReceiver::touch(uint64_t number, uint64_t key) {
    if (lost_ || over(number)) return XFER_ECANCELED;
    const Open *open = open_.find(number);
    if (!open) open = begin(number, key);
    return open && !open->copies ? XFER_OK : XFER_ECANCELED;
}

void NotifyReceiver::begun_unheard(NotificationId number, uint64_t key) {
    if (!lost_) return void(touch(number.value, key));
    // A newer connection has taken the place of this one before its paths have ended.
    if (over(number.value) || open_.contains(number.value) || !has_room(number.value)) return;
    auto notification = connection_.shard.engine.notifications().take(*credit_, key);
    open_.insert(number.value, {});
    ++begun_;
    raise(std::move(notification), XFER_EPEERLOST);
}

void NotifyReceiver::hear(const Frame &notify, ConstBytes data) {
    if (lost_ || over(notify.seq)) return;  // it failed at the peer after it was told here
    const bool counted = notify.flags & kCounted;
    const size_t length = data.size() - (counted ? kCountBytes : 0);
    const uint64_t awaited = counted ? load<uint64_t>(data.data() + length) : 0;
    if (counted && awaited == 0)
        return connection_.close({XFER_EPROTO, 0, 0, "a notify that counts no bytes"});
    Open *open = open_.find(notify.seq);
    if (!open) open = begin(notify.seq, notify.region);
    if (!open || open->copies) return;
    open->notification->bring(data.first(length));
    if (!counted) return end(notify.seq, notify.status);
    open->awaited = awaited;
    end_applied(notify.seq, *open);
}

void NotifyReceiver::applied(NotificationId number, uint64_t bytes) {
    Open *const open = lost_ ? nullptr : open_.find(number.value);
    if (!open) return;
    open->applied += bytes;
    end_applied(number.value, *open);
}

void NotifyReceiver::end_applied(uint64_t number, const Open &open) {
    if (!open.copies && open.awaited && open.applied >= open.awaited) end(number, XFER_OK);
}

void NotifyReceiver::copied(NotificationId number) {
    Open *const open = lost_ ? nullptr : open_.find(number.value);
    if (open && --open->copies == 0) finish(number.value, open->status);
}

void NotifyReceiver::end(uint64_t number, Status status) {
    connection_.lanes.discard({number});
    Open &open = *open_.find(number);
    open.status = status;
    open.copies = connection_.shard.request_staging.discard(connection_, {number});
    if (open.copies == 0) finish(number, status);
}

void NotifyReceiver::finish(uint64_t number, Status status) {
    if (number == low_water_ + 1)
        ++low_water_;
    else
        over_.insert(number, true);
    while (over_.erase(low_water_ + 1))
        ++low_water_;
    Notifications::Own notification = std::move(open_.find(number)->notification);
    open_.erase(number);
    raise(std::move(notification), status);
    send_credit(number);
}

// The user may have closed the last handle of a peer whose connection lives on: it gets a new one.
Endpoint *NotifyReceiver::somebody() {
    if (!connection_.sink.event_endpoint()) connection_.sink.announce_again();
    return connection_.sink.event_endpoint();
}

void NotifyReceiver::raise(Notifications::Own notification, Status status) {
    ShardCore &shard = connection_.shard;
    if (status == XFER_OK && shard.engine.counters().count(notification->event.tag, shard))
        return credit_->one();
    Endpoint *ep = nullptr;
    if (!catch_bad_alloc([&] { ep = somebody(); }) || !ep)
        return credit_->one();  // nobody is there to be told: we close, or lack memory
    notification->address(*ep, status);
    if (status != XFER_OK) notification->bring({});
    // Else the peer said so: it has lost a lane, and with it what it had sent by that.
    if (status == XFER_EPEERLOST && !connection_.closing()) {
        notification->event.origin = XFER_ORIGIN_PEER;
    } else if (status == XFER_EPEERLOST) {
        notification->event.origin = connection_.why.origin;
        notification->event.native_code = connection_.why.native;
    }
    shard.outbox.post(*notification.release());
}

void NotifyReceiver::send_credit(uint64_t number) {
    reported_ = credit_->count();
    Frame frame;
    frame.type = FrameType::noted;
    frame.seq = number;
    frame.region = reported_;
    connection_.send(frame);
}

// In their order. What was open stays known: a path may name it once more with its end.
void NotifyReceiver::lost() {
    if (std::exchange(lost_, true)) return;
    size_t left = open_.size();
    for (uint64_t number = low_water_ + 1; left > 0; ++number) {
        Open *const open = open_.find(number);
        if (!open) continue;
        --left;
        raise(std::move(open->notification), XFER_EPEERLOST);
    }
}

}  // namespace xfer
