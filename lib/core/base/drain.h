// SPDX-License-Identifier: Apache-2.0
// The end of all work before the end of an engine: nothing new begins, peers are told, and when
// what is under way has ended, one DRAINED event says so. Thread: any.
#pragma once

#include <atomic>

#include "core/base/cancel_index.h"
#include "core/base/event.h"
#include "util/status.h"

namespace xfer {

class ShardCore;

class Drain {
public:
    // False if it has begun before. `shards` holds are given back one by one.
    bool begin(uint64_t user, uint32_t shards);
    bool revoke();  // nobody took it up
    bool on() const { return state_.load() != State::off; }

    // Something is under way: in a shard, or between two.
    void hold() { holds_.fetch_add(1); }
    void release(ShardCore &shard);
    void finish(Status status, ShardCore &shard);             // the first word counts
    void cancel(const CancelScope &scope, ShardCore &shard);  // the wait, not what it waits for

private:
    enum class State { off, starting, pending, told };
    class Event final : public EventNode {};

    std::atomic<State> state_{State::off};
    std::atomic<uint32_t> holds_{0};
    Event event_;
};

}  // namespace xfer
