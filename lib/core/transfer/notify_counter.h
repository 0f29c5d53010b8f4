// SPDX-License-Identifier: Apache-2.0
// Counts notifications of one key, from any peers, and tells once: that all are there, or that they
// were not in time, or not before the engine's close.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "core/base/event.h"
#include "core/base/handle.h"
#include "core/base/mailbox.h"
#include "loop/loop.h"
#include "util/ref.h"
#include "util/status.h"

namespace xfer {

class EngineCore;
class ShardCore;
struct InTimed;

class NotifyCounter final : public Handle,
                            public RefCounted<NotifyCounter>,
                            public EventNode,
                            public TimerSink,
                            public ListNode<InTimed> {
public:
    NotifyCounter(EngineCore &engine, uint64_t key, uint64_t expected, uint32_t timeout_ms,
                  uint64_t user);
    ~NotifyCounter() override;
    void on_timer(Timer &timer) override;
    void released() override { release(); }
    // Its time counts from now on, on the engine's first loop, and no more. False: the loop has
    // ended.
    bool start();
    void stop();

    EngineCore &engine;
    const uint64_t key, expected;
    const uint32_t timeout_ms;  // 0: none
    std::atomic<bool> closed{false};
    uint64_t seen = 0;   // under the lock of NotifyCounters, as is
    bool ended = false;  // its event is on its way
    Text reason;         // why it failed

private:
    friend class NotifyCounters;
    class Start final : public Message {
    public:
        explicit Start(NotifyCounter &owner) : counter_(owner) {}
        void arrive(ShardCore &shard) override;

    private:
        NotifyCounter &counter_;
    } start_{*this};
    class Stop final : public Message {
    public:
        explicit Stop(NotifyCounter &owner) : counter_(owner) {}
        void arrive(ShardCore &shard) override;

    private:
        NotifyCounter &counter_;
    } stop_{*this};
    Timer timer_{*this};
};

// Those of an engine.
class NotifyCounters {
public:
    // ---- any thread
    Status add(NotifyCounter &counter);   // XFER_EEXIST: the key has one
    bool remove(NotifyCounter &counter);  // false: it has ended, and its event was or will be told
    // True if somebody counts this key; the one that makes it full tells it on `shard`, the
    // caller's.
    bool count(uint64_t key, ShardCore &shard);

    // ---- the engine's first loop
    void time(NotifyCounter &counter, ShardCore &shard);
    void untime(NotifyCounter &counter, ShardCore &shard);
    void expire(NotifyCounter &counter, ShardCore &shard);
    void close(ShardCore &shard);

private:
    static void end(NotifyCounter &counter, Status status, ShardCore &shard);

    std::mutex mutex_;
    std::map<uint64_t, NotifyCounter *> by_key_;
    bool closed_ = false;                 // with the lock: none is added any more
    List<NotifyCounter, InTimed> timed_;  // each has a reference for it; the first loop's
};

}  // namespace xfer
