// SPDX-License-Identifier: Apache-2.0
// A notification at its owner, from its first put to the end of its event, and how many of a
// connection the application has had.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/event.h"
#include "core/base/mailbox.h"
#include "util/ref.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer {

class Connection;
class Endpoint;
class ShardCore;

// Counted where the application takes them. Thread: any, but for the connection.
class NotifyCredit final : public RefCounted<NotifyCredit>, public Message {
public:
    NotifyCredit(ShardCore &shard, Connection &from) : shard_(shard), connection_(&from) {}
    void one();
    void arrive(ShardCore &shard) override;  // the peer is owed the news
    uint64_t count() const { return count_.load(std::memory_order_relaxed); }
    void forget() { connection_ = nullptr; }  // it ends

private:
    friend class RefCounted<NotifyCredit>;
    ~NotifyCredit() = default;
    ShardCore &shard_;
    Connection *connection_;
    std::atomic<uint64_t> count_{0};
    std::atomic<bool> posted_{false};
};

class Notifications;

class Notification final : public EventNode {
public:
    void address(Endpoint &ep, Status status);
    void bring(ConstBytes data);
    bool still_valid() override;
    void released() override;

private:
    friend class Notifications;
    explicit Notification(Notifications &owner) : pool_(owner) {}

    Notifications &pool_;
    Ref<Endpoint> ep_;
    Ref<NotifyCredit> credit_;
    std::vector<uint8_t> data_;
};

// Those of an engine that are not in use. Thread: any.
class Notifications {
public:
    struct GiveBack {
        void operator()(Notification *notification) const;
    };
    using Own = std::unique_ptr<Notification, GiveBack>;

    ~Notifications();
    Own take(NotifyCredit &had, uint64_t key);  // throws std::bad_alloc

private:
    friend class Notification;
    void give_back(Notification &notification);

    std::mutex mutex_;
    EventList free_;
    uint32_t spares_ = 0;
};

}  // namespace xfer
