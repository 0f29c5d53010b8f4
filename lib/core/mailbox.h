// SPDX-License-Identifier: Apache-2.0
// The one door by which calls from other threads enter a loop. Messages are part of the objects
// they are about.
#pragma once

#include <mutex>

#include "util/list.h"

namespace xfer {

class Shard;

class Message : public ListNode<Message> {
public:
    virtual void arrive(Shard &shard) = 0;  // on the shard's loop

protected:
    ~Message() = default;
};

using MessageList = List<Message, Message>;

class Mailbox {
public:
    enum class Posted { closed, first, more };

    // closed: the shard has ended and the message was not taken. first: the loop must be woken.
    Posted post(Message &message) {
        std::lock_guard lock(mutex_);
        if (closed_) return Posted::closed;
        bool first = list_.empty();
        list_.push_back(message);
        return first ? Posted::first : Posted::more;
    }
    void take(MessageList &into) {
        std::lock_guard lock(mutex_);
        into.append(list_);
    }
    // False if something is still inside.
    bool close() {
        std::lock_guard lock(mutex_);
        if (!list_.empty()) return false;
        closed_ = true;
        return true;
    }

private:
    std::mutex mutex_;
    MessageList list_;
    bool closed_ = false;
};

}  // namespace xfer
