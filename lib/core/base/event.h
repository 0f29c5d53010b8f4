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
    virtual void ended_quietly() { released(); }  // instead of all these: it has no event

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

// How many events wait in the two halves of an EventQueue. Who takes the last one looks at what has
// come before it sleeps, and who pushes looks, after it has, whether it was the last: the two do
// not both miss the other. Nor do who enters a poll and then asks for the size, and who pushes and
// then looks whether somebody polls.
template <template <typename> typename Atomic = std::atomic>
class EventCounts {
public:
    // With the lock. True: there was nothing, so that who waits must be woken.
    bool came(uint64_t count) {
        const uint64_t before = come_.load(std::memory_order_relaxed);
        come_.store(before + count);
        return before == 0 && taken_.load() == 0;
    }
    bool has_come() const { return come_.load(std::memory_order_relaxed) != 0; }
    // With the lock, when none is left of those before. Who asks for the size finds them in one
    // half at least.
    void take() {
        taken_.store(come_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        come_.store(0);
    }
    void popped() {
        const uint64_t left = taken_.load(std::memory_order_relaxed) - 1;
        taken_.store(left, left ? std::memory_order_relaxed : std::memory_order_seq_cst);
    }
    uint64_t size() const { return come_.load() + taken_.load(); }

private:
    Atomic<uint64_t> come_{}, taken_{};
};

// From the loops to the dispatching side, which takes all that has come at once, and then one by
// one. Thread: any may push and ask for the size; one at a time pops.
class EventQueue {
public:
    // True if the queue was empty: who waits must be woken.
    bool push(EventList &events, uint64_t count) {
        std::lock_guard lock(mutex_);
        come_.append(events);
        return counts_.came(count);
    }
    EventNode *pop() {
        if (taken_.empty() && !take()) return nullptr;
        counts_.popped();
        return taken_.pop_front();
    }
    uint64_t size() const { return counts_.size(); }

private:
    bool take() {
        if (!counts_.has_come()) return false;
        std::lock_guard lock(mutex_);
        taken_.append(come_);
        counts_.take();
        return true;
    }

    std::mutex mutex_;
    EventList come_;
    EventList taken_;
    EventCounts<> counts_;
};

}  // namespace xfer
