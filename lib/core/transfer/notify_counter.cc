// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/notify_counter.h"

#include <charconv>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"

namespace xfer {

NotifyCounter::NotifyCounter(EngineCore &owner, uint64_t name, uint64_t due, uint32_t limit_ms,
                             uint64_t user)
    : Handle(Magic::counter), engine(owner), key(name), expected(due), timeout_ms(limit_ms) {
    engine.retain();
    event.kind = XFER_EVENT_COUNTER;
    event.user = user;
    event.object = this;
    event.tag = key;
}

NotifyCounter::~NotifyCounter() {
    engine.release();
}

void NotifyCounter::on_timer(Timer &) {
    engine.counters().expire(*this, engine.first_shard());
}

// A message has a reference of its own.
bool NotifyCounter::start() {
    if (!timeout_ms) return true;
    retain();
    if (engine.first_shard().post(start_)) return true;
    release();
    return false;
}

void NotifyCounter::stop() {
    if (!timeout_ms) return;
    retain();
    if (!engine.first_shard().post(stop_)) release();
}

void NotifyCounter::Start::arrive(ShardCore &shard) {
    counter_.engine.counters().time(counter_, shard);
    counter_.release();
}

void NotifyCounter::Stop::arrive(ShardCore &shard) {
    counter_.engine.counters().untime(counter_, shard);
    counter_.release();
}

// ---- NotifyCounters

namespace {

// A number as text, without memory.
Text decimal(uint64_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return std::string_view(digits, static_cast<size_t>(end - digits));
}

}  // namespace

Status NotifyCounters::add(NotifyCounter &counter) {
    std::lock_guard lock(mutex_);
    if (closed_) return XFER_ECLOSED;
    return by_key_.emplace(counter.key, &counter).second ? XFER_OK : XFER_EEXIST;
}

bool NotifyCounters::remove(NotifyCounter &counter) {
    std::lock_guard lock(mutex_);
    by_key_.erase(counter.key);
    return !std::exchange(counter.ended, true);  // nobody waits for it
}

bool NotifyCounters::count(uint64_t key, ShardCore &shard) {
    std::lock_guard lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return false;
    NotifyCounter &counter = *at->second;
    if (++counter.seen >= counter.expected) end(counter, XFER_OK, shard);
    return true;
}

void NotifyCounters::end(NotifyCounter &counter, Status status, ShardCore &shard) {
    if (counter.ended) return;
    counter.ended = true;
    counter.event.status = status;
    counter.event.index = counter.seen;
    if (status != XFER_OK) {
        counter.reason = decimal(counter.seen) + " of " + decimal(counter.expected) +
                         " notifications with key " + decimal(counter.key) + " came";
        counter.explain(counter.reason);
    }
    counter.retain();  // the event's
    shard.outbox.post(counter);
}

// One that the engine's close has ended meanwhile has no time left.
void NotifyCounters::time(NotifyCounter &counter, ShardCore &shard) {
    {
        std::lock_guard lock(mutex_);
        if (closed_) return;
    }
    counter.retain();
    timed_.push_back(counter);
    shard.loop.arm(counter.timer_, shard.now() + counter.timeout_ms * kNsPerMs);
}

void NotifyCounters::untime(NotifyCounter &counter, ShardCore &shard) {
    if (!counter.timer_.armed()) return;
    shard.loop.disarm(counter.timer_);
    counter.ListNode<InTimed>::unlink();
    counter.release();
}

void NotifyCounters::expire(NotifyCounter &counter, ShardCore &shard) {
    {
        std::lock_guard lock(mutex_);
        end(counter, XFER_ETIMEDOUT, shard);
    }
    counter.ListNode<InTimed>::unlink();
    counter.release();
}

// Those that wait end with the engine.
void NotifyCounters::close(ShardCore &shard) {
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
        for (const auto &[key, counter] : by_key_)
            end(*counter, XFER_ECANCELED, shard);
    }
    while (!timed_.empty())
        untime(timed_.front(), shard);
}

}  // namespace xfer
