// SPDX-License-Identifier: Apache-2.0
// Counts notifications of one key, from any peers, and tells once that all are there.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "core/event.h"
#include "core/handle.h"
#include "util/ref.h"
#include "util/status.h"

namespace xfer {

class Engine;
class Shard;

class NotifyCounter final : public Handle, public RefCounted<NotifyCounter>, public EventNode {
public:
    NotifyCounter(Engine &engine, uint64_t key, uint64_t expected, uint64_t user);
    ~NotifyCounter() override;
    void told() override { release(); }

    Engine &engine;
    const uint64_t key, expected;
    std::atomic<bool> closed{false};
    uint64_t seen = 0;  // under the lock of NotifyCounters
};

// Those of an engine. Thread: any.
class NotifyCounters {
public:
    bool add(NotifyCounter &counter);  // false: the key has one
    void remove(NotifyCounter &counter);
    // True if somebody counts this key; the one that makes it full tells it on `shard`, the
    // caller's.
    bool count(uint64_t key, Shard &shard);

private:
    std::mutex mutex_;
    std::map<uint64_t, NotifyCounter *> by_key_;
};

}  // namespace xfer
