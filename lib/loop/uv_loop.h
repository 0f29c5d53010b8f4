// SPDX-License-Identifier: Apache-2.0
// The Loop over libuv: on a uv_loop_t of its own, driven by run() on a thread or by turn() where
// the user polls, or on the caller's uv_loop_t.
//
// Who may touch what. Our code on a loop always runs under the loop's lock: every callback of libuv
// takes it, and other threads come in between callbacks with Inside. libuv itself is only touched
// from its callbacks (an embedded loop: from all of its thread): it knows one timer, one descriptor
// (that of the EpollSet), and a bell. So a watch, a timer or a task takes effect before the loop
// sleeps, whoever asked for it.
#pragma once

#include <uv.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "loop/epoll_set.h"
#include "loop/loop.h"
#include "loop/timer_heap.h"
#include "util/fd.h"
#include "util/list.h"
#include "util/status.h"

namespace xfer {

class Resolver;

class LoopClosedSink {
public:
    // From libuv, with nothing of the loop in use any more: it may be destroyed here.
    virtual void on_loop_closed() = 0;

protected:
    ~LoopClosedSink() = default;
};

class UvLoop final : public Loop {
public:
    static Result<std::unique_ptr<UvLoop>> own(uint32_t spin_us);
    // Keeps the caller's loop alive until closed; with `unref`, only from hold() on. On the loop's
    // thread.
    static Result<std::unique_ptr<UvLoop>> embedded(uv_loop_t *loop, bool unref = false);
    // Own: not while it is driven. Embedded: after on_loop_closed(). Watches and questions must be
    // gone.
    ~UvLoop() override;
    // A loop whose engine did not come to be; null is none. An embedded one, on its thread, is
    // ended by later turns of the caller's.
    static void abandon(std::unique_ptr<UvLoop> loop);

    // Own loops: drives the loop on this thread until stop(), which any thread may call, also
    // before.
    void run();
    void stop();

    // Own loops without a thread: waits at most `timeout_ns` (kNever: no limit) and returns after
    // the first pass in which anything ran. One thread at a time.
    void turn(uint64_t timeout_ns);
    // The descriptor that is readable when a turn would find something to do. Once it was asked
    // for, which costs system calls, it is kept up to date by settle(), to be called after the last
    // turn, and by leaving Inside. One thread at a time, not during turn(). fd(): any thread.
    Result<int> fd();
    void settle();

    // Embedded, before close(): from now on the caller's loop is kept alive; by another thread,
    // from the loop's next turn on. Any thread.
    void hold();
    // Embedded: ends everything; the sink hears of it in a later turn. On the loop's thread, inside
    // or not.
    void close(LoopClosedSink &sink);
    // In the child of a fork, before anything else is done with the loop there: an own loop parts
    // with what it shares with the parent, so that it can be destroyed; the caller's is the
    // caller's to fork.
    void forked();

    // How often the loop slept and woke up. Thread: any.
    uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
    // Whether the calling thread is inside the loop now. Thread: any.
    bool on_thread() const {
        return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }

    // Any thread: inside the loop for a while, between its callbacks. What was asked of the loop
    // meanwhile takes effect at leaving. Entering when the thread is inside already changes
    // nothing.
    class Inside {
    public:
        explicit Inside(UvLoop &loop);
        Inside(UvLoop &loop, std::try_to_lock_t);  // see operator bool
        Inside(const Inside &) = delete;
        Inside &operator=(const Inside &) = delete;
        ~Inside();
        explicit operator bool() const { return inside_; }

    private:
        void enter();
        UvLoop &loop_;
        bool inside_ = true;
        bool locked_ = false;
    };

    uint64_t now() override { return now_; }
    uint64_t clock() override;
    void arm(Timer &timer, uint64_t due) override;
    void disarm(Timer &timer) override;
    void defer(Task &task) override;
    void expect(uint64_t until) override { expected_ = std::max(expected_, until); }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) override;
    void look_at(Poller &poller) override;
    std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) override;
    void set_wake_sink(WakeSink &sink) override;
    void wake() override;

private:
    class Callback;
    enum class Sleep { kNo, kYes };

    UvLoop();
    static Result<std::unique_ptr<UvLoop>> open(std::unique_ptr<UvLoop> loop);
    Failure open_handles();
    template <typename Handle>
    void opened(Handle &handle) {
        handle.data = this;
        ++open_;
        if (unref_) uv_unref(reinterpret_cast<uv_handle_t *>(&handle));
    }

    void begin_driving();
    void end_driving();
    void pass(Sleep sleep);
    bool glance();
    void look();
    void glance_or_pass();

    void drain();
    bool take_wake();
    bool fire_timers();
    bool run_tasks();
    bool poll_memory();
    void doze();
    bool pending() const;
    void before_sleep();
    void tell_timer();
    void ring();

    void settle_locked();
    std::array<uv_handle_t *, 6> handles();
    void keep_alive();
    void close_handles();

    static void on_prepare(uv_prepare_t *handle);
    static void on_check(uv_check_t *handle);
    static void on_timer(uv_timer_t *handle);
    static void on_async(uv_async_t *handle);
    static void on_set(uv_poll_t *handle, int status, int events);
    static void on_closed(uv_handle_t *handle);

    uv_loop_t own_loop_;
    uv_loop_t *uv_ = nullptr;
    // Without data: not opened.
    uv_prepare_t prepare_{};
    uv_check_t check_{};
    uv_timer_t timer_{};  // for the first of timers_, or limit_
    uv_idle_t idle_{};    // active while the loop must not sleep
    uv_async_t async_{};
    uv_poll_t poll_{};  // of watched_

    bool own_ = false;
    bool driven_ = false;  // a thread is in run() or turn()
    bool closing_ = false;
    bool abandoned_ = false;
    bool unref_ = false;  // libuv does not wait for our handles
    bool slept_ = false;
    bool eager_ = false;  // does not sleep after something ran
    bool ran_ = false;
    Sleep sleep_ = Sleep::kNo;
    uint64_t spin_ns_ = 0;
    uint64_t expected_ = 0;  // no sleep before
    uint64_t passed_ = 0;    // when libuv last looked, without sleep
    uint32_t looks_ = 0;     // at our set alone, since the loop last slept
    bool nested_ = true;     // libuv watches our set
    uint64_t now_ = 0;
    uint64_t limit_ = kNever;  // of this turn()
    uint64_t told_ = kNever;   // when timer_ fires
    size_t open_ = 0;          // handles that libuv knows

    TimerHeap timers_;
    List<Task> tasks_;
    List<Poller, InPolled> polled_;
    EpollSet watched_;
    WakeSink *wake_sink_ = nullptr;
    LoopClosedSink *closed_sink_ = nullptr;
    std::unique_ptr<Resolver> resolver_;

    Fd set_;  // of fd()
    Fd timer_fd_;
    uint64_t timer_fd_due_ = kNever;

    std::mutex lock_;
    std::atomic<std::thread::id> owner_;
    std::atomic<bool> woken_ = false;
    std::atomic<bool> asleep_ = true;
    std::atomic<bool> stopping_ = false;
    std::atomic<bool> held_ = false;
    std::thread::id home_;  // embedded: the thread of the caller's loop
    std::atomic<uint64_t> wakeups_ = 0;
    std::mutex ring_lock_;
    bool can_ring_ = false;
};

}  // namespace xfer
