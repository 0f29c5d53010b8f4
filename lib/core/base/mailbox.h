// SPDX-License-Identifier: Apache-2.0
// The one door by which calls from other threads enter a loop. Messages are part of the objects
// they are about.
#pragma once

#include <atomic>
#include <mutex>

#include "util/list.h"

namespace xfer {

class ShardCore;

class Message : public ListNode<Message> {
public:
    virtual void arrive(ShardCore &shard) = 0;  // on the shard's loop

protected:
    ~Message() = default;
};

using MessageList = List<Message, Message>;

class Mailbox {
public:
    enum class Posted { closed, first, more };

    // closed: the shard has ended and the message was not taken. first: the loop must be woken.
    Posted post(Message &message) {
        return post(message, [] {});
    }
    // `then` is done if the message is taken, before it arrives and before anything behind it.
    template <typename Then>
    Posted post(Message &message, Then then) {
        std::lock_guard lock(mutex_);
        if (closed_) return Posted::closed;
        bool first = list_.empty();
        list_.push_back(message);
        then();
        any_.store(true, std::memory_order_release);
        return first ? Posted::first : Posted::more;
    }
    // The loop alone takes, and closes.
    void take(MessageList &into) {
        if (!any_.load(std::memory_order_acquire)) return;
        std::lock_guard lock(mutex_);
        any_.store(false, std::memory_order_relaxed);
        into.append(list_);
    }
    // False if something is still inside.
    bool close() {
        std::lock_guard lock(mutex_);
        if (!list_.empty()) return false;
        closed_ = true;
        return true;
    }
    bool empty() const { return !any_.load(std::memory_order_relaxed); }  // to the loop's knowledge
    bool closed() const { return closed_; }                               // on the loop

private:
    std::mutex mutex_;
    MessageList list_;
    std::atomic<bool> any_{false};
    bool closed_ = false;
};

}  // namespace xfer
