// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/notify_receiver.h"

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/peer.h"

namespace xfer {

class Notification final : public EventNode {
public:
    Notification(Had &had, uint64_t key) : had_(had) {
        event.kind = XFER_EVENT_NOTIFY;
        event.tag = key;
    }
    void address(Endpoint &ep, Status status) {
        ep_ = Ref(ep);
        event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
        event.status = status;
    }
    void bring(ConstBytes data) {
        data_.assign(data.begin(), data.end());
        event.data = data_.empty() ? nullptr : data_.data();
        event.data_length = data_.size();
    }
    bool still_valid() override {
        if (ep_->gone()) event.ep = nullptr;
        event.user = ep_->user.load();
        return true;
    }
    void released() override {
        had_->one();
        delete this;
    }

private:
    Ref<Endpoint> ep_;
    Ref<Had> had_;
    std::vector<uint8_t> data_;
};

// ---- Had

Had::Had(Connection &from) : shard_(from.shard), connection_(&from) {}

// The peer hears of it in portions: it waits only when it has begun kMaxNotifications more.
void Had::one() {
    if ((count_.fetch_add(1) + 1) % (kMaxNotifications / 4) != 0 || posted_.exchange(true)) return;
    retain();
    if (!shard_.post(*this)) release();
}

void Had::arrive(Shard &) {
    posted_.store(false);
    if (connection_) connection_->notify_receiver.tell_had();
    release();
}

// ---- NotifyReceiver

NotifyReceiver::NotifyReceiver(Connection &connection)
    : connection_(connection), had_(Ref<Had>::adopt(new Had(connection))) {}

NotifyReceiver::~NotifyReceiver() {
    had_->forget();
}

bool NotifyReceiver::over(uint64_t number) const {
    return number <= floor_ || over_.contains(number);
}

bool NotifyReceiver::begin(uint64_t number, uint64_t key) {
    if (number > floor_ + kNotificationSpan || begun_ - told_had_ >= kMaxNotifications) {
        connection_.close({XFER_EPROTO, 0, 0, "more notifications than there is room for"});
        return false;
    }
    open_.emplace(number, std::make_unique<Notification>(*had_, key));
    ++begun_;
    somebody();
    return true;
}

Status NotifyReceiver::touch(uint64_t number, uint64_t key) {
    if (lost_ || over(number)) return XFER_ECANCELED;
    const bool known = open_.contains(number);
    return known || begin(number, key) ? XFER_OK : XFER_ECANCELED;
}

void NotifyReceiver::unseen(NotificationId number, uint64_t key) {
    if (!lost_) return void(touch(number.value, key));
    // A newer connection has taken the place of this one before its paths have ended.
    if (over(number.value) || open_.contains(number.value)) return;
    open_.emplace(number.value, nullptr);
    raise(std::make_unique<Notification>(*had_, key), XFER_EPEERLOST);
}

void NotifyReceiver::hear(const Frame &notify, ConstBytes data) {
    if (lost_ || over(notify.seq)) return;  // it failed at the peer after it was told here
    if (!open_.contains(notify.seq) && !begin(notify.seq, notify.region)) return;
    open_.at(notify.seq)->bring(data);
    end(notify.seq, notify.status);
}

void NotifyReceiver::end(uint64_t number, Status status) {
    connection_.discard({number});
    over_.insert(number);
    const auto at = open_.find(number);
    std::unique_ptr<Notification> notification = std::move(at->second);
    open_.erase(at);
    while (over_.erase(floor_ + 1))
        ++floor_;
    raise(std::move(notification), status);
    tell_had(number);
}

// The user may have closed the last handle of a peer whose connection lives on: it gets a new one.
Endpoint *NotifyReceiver::somebody() {
    if (!connection_.peer->event_endpoint())
        connection_.shard.inbound.announce_again(*connection_.peer);
    return connection_.peer->event_endpoint();
}

void NotifyReceiver::raise(std::unique_ptr<Notification> notification, Status status) {
    Shard &shard = connection_.shard;
    if (status == XFER_OK && shard.engine.count(notification->event.tag, shard)) return had_->one();
    Endpoint *ep = nullptr;
    if (!catch_bad_alloc([&] { ep = somebody(); }) || !ep)
        return had_->one();  // nobody is there to be told: we close, or lack memory
    notification->address(*ep, status);
    // Else the peer said so: it has lost a lane, and with it what it had sent by that.
    if (status == XFER_EPEERLOST && !connection_.closing()) {
        notification->event.origin = XFER_ORIGIN_PEER;
    } else if (status == XFER_EPEERLOST) {
        notification->event.origin = connection_.why.origin;
        notification->event.native_code = connection_.why.native;
    }
    shard.outbox.post(*notification.release());
}

void NotifyReceiver::tell_had(uint64_t number) {
    told_had_ = had_->count();
    Frame frame;
    frame.type = FrameType::noted;
    frame.seq = number;
    frame.region = told_had_;
    connection_.send(frame);
}

// What was open stays known: a path may name it once more with its end.
void NotifyReceiver::lost() {
    if (std::exchange(lost_, true)) return;
    for (auto &[number, notification] : open_)
        raise(std::move(notification), XFER_EPEERLOST);
}

}  // namespace xfer
