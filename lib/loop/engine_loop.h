// SPDX-License-Identifier: Apache-2.0
// What each loop of an engine has: wake-ups, timers, tasks, memory to look at, descriptors, and the
// turn lock under which all of it runs. How it waits is up to its kind: OwnLoop, which a thread of
// ours or a poll drives, or UvLoop, on the caller's uv_loop_t.
//
// Who may touch what. Our code on a loop always runs under the loop's lock, and other threads come
// in with Inside whenever it is free, also while the loop sleeps. So a watch, a timer or a task
// takes effect before the loop sleeps, or ends its sleep, whoever asked for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "loop/bell.h"
#include "loop/epoll_set.h"
#include "loop/loop.h"
#include "loop/timer_heap.h"
#include "util/list.h"

namespace xfer {

class Resolver;

class EngineLoop : public Loop {
public:
    ~EngineLoop() override;

    // In the child of a fork, before anything else is done with the loop there: it parts with what
    // it shares with the parent, so that it can be destroyed.
    virtual void forked();

    // How often the loop slept and woke up. Thread: any.
    uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
    // Whether the calling thread is inside the loop now. Thread: any.
    bool on_thread() const {
        return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

    // Any thread: inside the loop for a while. What was asked of the loop meanwhile takes effect at
    // leaving. Entering when the thread is inside already changes nothing.
    class Inside {
    public:
        explicit Inside(EngineLoop &loop) : loop_(loop) {
            if (loop.on_thread()) return;
            loop.lock_.lock();
            enter();
        }
        Inside(EngineLoop &loop, std::try_to_lock_t) : loop_(loop) {  // see operator bool
            if (loop.on_thread()) return;
            inside_ = loop.lock_.try_lock();
            if (inside_) enter();
        }
        Inside(const Inside &) = delete;
        Inside &operator=(const Inside &) = delete;
        ~Inside() {
            if (!locked_) return;
            const std::shared_ptr<const Bell> bell = loop_.left();
            loop_.leave();
            if (bell) bell->ring();  // now that whom it wakes finds the lock free
        }
        explicit operator bool() const { return inside_; }

    private:
        void enter() {
            locked_ = true;
            loop_.enter();
        }
        EngineLoop &loop_;
        bool inside_ = true;
        bool locked_ = false;
    };

    // Any thread but one that is inside: the turn lock alone, if it is free, for who asks nothing
    // of the loop and has no use for its clock.
    std::unique_lock<std::mutex> try_hold() { return {lock_, std::try_to_lock}; }

    // For who is inside: what was deferred meanwhile, as a turn would do it.
    bool has_deferred() const { return !tasks_.empty(); }
    void run_deferred();
    // What was asked of the loop waits for its turn. Any thread.
    bool turn_due() const {
        return woken_.load(std::memory_order_relaxed) || deferred_.load(std::memory_order_relaxed);
    }

    uint64_t now() override { return now_; }
    uint64_t clock() override;
    void arm(Timer &timer, uint64_t due) override { timers_.arm(timer, due); }
    void disarm(Timer &timer) override { timers_.disarm(timer); }
    void defer(Task &task) override;
    void expect(uint64_t until) override { expected_ = std::max(expected_, until); }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) override;
    void look_at(Poller &poller) override;
    std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) override;
    void set_wake_sink(WakeSink &sink) override { wake_sink_ = &sink; }
    void wake() override;

protected:
    EngineLoop();
    void forget_names();  // while the loop can still be asked

    void enter() {  // with the lock
        owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
        now_ = clock();
    }
    void leave() {
        owner_.store(std::thread::id(), std::memory_order_relaxed);
        lock_.unlock();
    }
    // Inside is about to be left. Returns what wakes the loop, if it has to be woken: rung when the
    // lock is free, by when the loop may be gone.
    virtual std::shared_ptr<const Bell> left() = 0;
    virtual void ring() = 0;  // ends the loop's sleep. Thread: any

    // What is due, until there is nothing or others should have their turn.
    void drain();
    // Before it sleeps: those who look at memory arrange to be woken. Who still finds something
    // keeps the loop awake.
    void doze();
    bool polls_memory() const { return !polled_.empty(); }
    bool pending() const;  // there is something to do that no descriptor and no timer tells of
    // Asked by a visitor, and the loop sleeps already: whether it has to be woken.
    bool must_wake_sleeper();

    TimerHeap timers_;
    EpollSet watched_;
    uint64_t now_ = 0;
    uint64_t expected_ = 0;           // no sleep before
    uint64_t sleeps_until_ = kNever;  // until when it sleeps, if nothing happens
    bool ran_ = false;                // something has, since the driver last set this
    bool over_ = false;               // nothing runs any more

    std::mutex lock_;
    std::atomic<bool> asleep_ = true;  // or about to be: a wake must ring
    std::atomic<uint64_t> wakeups_ = 0;

private:
    bool take_wake();
    bool fire_timers();
    bool run_tasks();
    bool poll_memory();

    List<Task> tasks_;
    std::atomic<bool> deferred_ = false;  // there are some
    List<Poller, InPolled> polled_;
    WakeSink *wake_sink_ = nullptr;
    std::unique_ptr<Resolver> resolver_;
    std::atomic<std::thread::id> owner_;
    std::atomic<bool> woken_ = false;
};

}  // namespace xfer
