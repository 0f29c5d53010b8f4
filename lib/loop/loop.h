// SPDX-License-Identifier: Apache-2.0
// What the engine asks of an event loop: a clock, timers, deferred tasks, readiness of descriptors,
// names, and being woken by other threads. EngineLoop is the real one; the tests have a simulated
// one. Thread: all on the loop's thread, but for wake().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "util/list.h"
#include "util/status.h"

namespace xfer {

// Time is in nanoseconds of a clock that never goes back.
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kNever = UINT64_MAX;

class Timer;
class TimerSink {
public:
    virtual void on_timer(Timer &timer) = 0;

protected:
    ~TimerSink() = default;
};

// Fires once, not before `due`. Belongs to its user; must be disarmed before it is destroyed.
class Timer {
public:
    explicit Timer(TimerSink &sink) : sink(sink) {}
    Timer(const Timer &) = delete;
    Timer &operator=(const Timer &) = delete;
    ~Timer() { XFER_CHECK(!armed()); }
    bool armed() const { return slot != kFree; }

    TimerSink &sink;
    uint64_t due = 0;
    static constexpr size_t kFree = SIZE_MAX;
    size_t slot = kFree;  // the loop's: counts armings
    // The heap's: the first of those below this one; side by side, they know their neighbours, and
    // the first of them knows the one above instead.
    Timer *below = nullptr, *next = nullptr, *before = nullptr;
};

// Runs once, in the same turn of the loop if that is not ending, and always before the loop sleeps.
class Task : public ListNode<> {
public:
    virtual void run() = 0;

protected:
    ~Task() = default;
};

enum Readiness : uint32_t { kReadable = 1, kWritable = 2 };

class WatchSink {
public:
    virtual void on_ready(uint32_t readiness) = 0;

protected:
    ~WatchSink() = default;
};

// Watches a descriptor, level-triggered, until it is destroyed; the descriptor may be closed right
// after that.
class Watch {
public:
    virtual ~Watch() = default;
    virtual void want(uint32_t readiness) = 0;  // 0 pauses
};

struct InPolled;
// Memory that another process writes, and what is to be done when it has. Unlinked by its end.
class Poller : public ListNode<InPolled> {
public:
    virtual bool poll() = 0;  // looks; true: there was something
    // Before the loop sleeps: true if a descriptor will tell from now on, false to look again.
    virtual bool doze() = 0;

protected:
    ~Poller() = default;
};

class ResolveSink {
public:
    // Numeric addresses in the order to be tried, or a failure. Called once, never from inside
    // resolve().
    virtual void on_resolved(Result<std::vector<std::string>> addresses) = 0;

protected:
    ~ResolveSink() = default;
};

// A name being resolved; destroying it forgets the question.
class Resolving {
public:
    virtual ~Resolving() = default;
};

class WakeSink {
public:
    virtual void on_wake() = 0;  // on the loop's thread, after one or more wake()

protected:
    ~WakeSink() = default;
};

class Loop {
public:
    virtual ~Loop() = default;
    virtual uint64_t now() = 0;                        // of this turn
    virtual uint64_t clock() = 0;                      // of this moment
    virtual void arm(Timer &timer, uint64_t due) = 0;  // an armed timer is moved
    virtual void disarm(Timer &timer) = 0;             // an unarmed one is left alone
    virtual void defer(Task &task) = 0;                // a deferred one stays where it is
    // Something is due before `until`: a loop of our own looks for it instead of going to sleep,
    // which would cost both sides a wake-up.
    virtual void expect(uint64_t until) = 0;
    // Null: the kernel can't watch it, or has no memory for it.
    virtual std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) = 0;
    virtual void look_at(Poller &poller) = 0;  // in every turn, until it dozes
    virtual std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) = 0;
    // What a thread beside this loop would do next, in a world that has none: runs the task after a
    // while. A task that waits for that stays where it is. False: there are threads.
    virtual bool simulate_thread(Task &) { return false; }
    virtual void set_wake_sink(WakeSink &sink) = 0;
    virtual void wake() = 0;  // any thread; coalesced
};

}  // namespace xfer
