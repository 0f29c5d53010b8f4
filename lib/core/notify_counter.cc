// SPDX-License-Identifier: Apache-2.0
#include "core/notify_counter.h"

#include "core/engine.h"
#include "core/shard.h"

namespace xfer {

NotifyCounter::NotifyCounter(Engine &owner, uint64_t name, uint64_t due, uint64_t user)
    : Handle(Magic::counter), engine(owner), key(name), expected(due) {
    engine.retain();
    event.kind = XFER_EVENT_COUNTER;
    event.user = user;
    event.object = this;
    event.tag = key;
    event.index = expected;
}

NotifyCounter::~NotifyCounter() {
    engine.release();
}

bool NotifyCounters::add(NotifyCounter &counter) {
    std::lock_guard lock(mutex_);
    return by_key_.emplace(counter.key, &counter).second;
}

void NotifyCounters::remove(NotifyCounter &counter) {
    std::lock_guard lock(mutex_);
    by_key_.erase(counter.key);
}

bool NotifyCounters::count(uint64_t key, Shard &shard) {
    std::lock_guard lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return false;
    NotifyCounter &counter = *at->second;
    if (++counter.seen == counter.expected) {
        counter.retain();  // the event's
        shard.tell(counter);
    }
    return true;
}

}  // namespace xfer
