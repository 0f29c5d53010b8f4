// SPDX-License-Identifier: Apache-2.0
// Events wait inside the objects that they are about: nothing is allocated to tell that something
// ended, and a queue of events can't outgrow the objects.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

#include "util/list.h"
#include "util/text.h"
#include "xfer/xfer.h"

namespace xfer {

// As in the header, without its prefix: "PEER_UP".
std::string_view event_name(uint32_t kind);

class EventNode : public ListNode<EventNode> {
public:
    // It is about to be told; false: to nobody, as what it is about has gone meanwhile.
    virtual bool still_valid() { return true; }
    // Its handle goes with it, unless it is kept while this is being told: a poll ends with it.
    virtual bool ends_handle() const { return false; }
    virtual void given() {}  // to the user, and not dropped by a join: what comes with it is his
    virtual void dequeued() {
    }  // the user is about to see it: the object may be used again from inside the callback
    virtual void released() {}  // the user is done with `event.data`; may destroy the object

    // In the event's data, until released(): why it failed. Nothing, if that is not known.
    void explain(const Text &why) {
        event.data = why.empty() ? nullptr : why.c_str();
        event.data_length = why.size();
    }

    xfer_event_t event{};

protected:
    ~EventNode() = default;
};

using EventList = List<EventNode, EventNode>;

// From the loops to the dispatching side. Thread: any.
class EventQueue {
public:
    // True if the queue was empty: who waits must be woken.
    bool push(EventList &events, uint64_t count) {
        std::lock_guard lock(mutex_);
        bool was_empty = list_.empty();
        list_.append(events);
        count_.fetch_add(count);
        return was_empty;
    }
    EventNode *pop() {
        if (size() == 0) return nullptr;
        std::lock_guard lock(mutex_);
        EventNode *node = list_.pop_front();
        if (node) count_.fetch_sub(1, std::memory_order_relaxed);
        return node;
    }
    // Sequentially consistent, as the push: who enters a poll and then looks here, and who pushes
    // and then looks whether somebody polls, do not both miss the other.
    uint64_t size() const { return count_.load(); }

private:
    std::mutex mutex_;
    EventList list_;
    std::atomic<uint64_t> count_{0};
};

}  // namespace xfer
