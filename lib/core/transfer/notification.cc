// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/notification.h"

#include <utility>

#include "core/base/endpoint.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/transfer/notify_receiver.h"

namespace xfer {

// ---- NotifyCredit

// The peer hears of it in portions: it waits only when it has begun kMaxNotifications more.
void NotifyCredit::one() {
    if ((count_.fetch_add(1) + 1) % (kMaxNotifications / 4) != 0 || posted_.exchange(true)) return;
    retain();
    if (!shard_.post(*this)) release();
}

void NotifyCredit::arrive(ShardCore &) {
    posted_.store(false);
    if (connection_) connection_->notify_receiver.send_credit();
    release();
}

// ---- Notification

void Notification::address(Endpoint &ep, Status status) {
    ep_ = Ref(ep);
    event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    event.status = status;
}

void Notification::bring(ConstBytes data) {
    data_.assign(data.begin(), data.end());
    event.data = data_.empty() ? nullptr : data_.data();
    event.data_length = data_.size();
}

bool Notification::still_valid() {
    if (ep_->gone()) event.ep = nullptr;
    event.user = ep_->user.load();
    return true;
}

// Last its endpoint, by which the engine may go, and the pool with it.
void Notification::released() {
    const Ref<Endpoint> ep = std::move(ep_);
    const Ref<NotifyCredit> had = credit_;
    pool_.give_back(*this);
    had->one();
}

// ---- Notifications

Notifications::~Notifications() {
    while (EventNode *free = free_.pop_front())
        delete static_cast<Notification *>(free);
}

Notifications::Own Notifications::take(NotifyCredit &had, uint64_t key) {
    Own notification;
    {
        std::lock_guard lock(mutex_);
        notification.reset(static_cast<Notification *>(free_.pop_front()));
        if (notification) --spares_;
    }
    if (!notification) notification.reset(new Notification(*this));
    notification->credit_ = Ref(had);
    notification->event.kind = XFER_EVENT_NOTIFY;
    notification->event.tag = key;
    return notification;
}

void Notifications::GiveBack::operator()(Notification *notification) const {
    notification->pool_.give_back(*notification);
}

void Notifications::give_back(Notification &notification) {
    notification.event = {};
    notification.data_.clear();
    notification.credit_ = {};
    notification.ep_ = {};
    std::lock_guard lock(mutex_);
    if (spares_ == kSpareNotifications) return delete &notification;
    free_.push_front(notification);
    ++spares_;
}

}  // namespace xfer
