// SPDX-License-Identifier: Apache-2.0
// Brings events to the user: on a loop that also drives sockets, on a loop of its own, or when
// polled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/engine_core.h"
#include "core/base/event.h"
#include "core/engine/callback_watch.h"
#include "core/engine/poll_gate.h"
#include "loop/own_loop.h"
#include "loop/uv_loop.h"

namespace xfer {

class EventDispatcher final : public EventSink,
                              public WakeSink,
                              public Task,
                              public LoopClosedSink {
public:
    enum class Mode {
        with_io,   // callbacks on the only I/O loop
        own_loop,  // callbacks on a loop and thread of its own, or embedded in the caller's
        turns,     // polled; the poll drives the I/O loop
        queue,     // polled; I/O has its own threads
    };

    EventDispatcher(const Options &options, EventNode &last) : options_(options), last_(last) {}
    ~EventDispatcher();

    Failure open();  // where threads of their own do I/O
    // The only I/O loop, where the dispatching side drives it.
    Failure open(OwnLoop &io);
    Failure open(UvLoop &io);
    void start();    // the thread
    void stop();     // and waits for it
    void release();  // after the end
    void forked();   // in the child of a fork

    Mode mode() const { return mode_; }
    bool dispatches() const override { return mode_ == Mode::with_io; }
    void dispatch(EventNode &node) override;                     // on the dispatching thread
    void hand_over(EventList &events, uint64_t count) override;  // from I/O
    void hand_in(EventNode &node) override;
    Status poll(xfer_event_t *events, uint32_t event_size, uint32_t max, uint32_t timeout_ms,
                uint32_t &count);
    Status wake();  // by the user: a poll that waits returns
    Status fd(int &fd);

    bool ended() const { return ended_.load(std::memory_order_acquire); }
    // Both wait for the engine's end, up to `timeout_ms` as that of xfer_engine_join.
    bool wait_ended(uint32_t timeout_ms);
    bool drain(uint32_t timeout_ms);  // polled: takes the events, and drops them
    // Polled: nobody polls any more, and whoever does is sent away.
    void end_polls();
    CallbackWatch::State callbacks() const { return callbacks_.state(); }
    bool on_thread() const;  // a callback is running, on the calling thread
    uint64_t queued() const { return queue_.size(); }
    uint64_t delivered() const { return sequence_.load(std::memory_order_relaxed); }
    UvLoop *callers_loop() const { return callers_; }

    void on_wake() override;
    void run() override;
    void on_loop_closed() override;

private:
    void call(EventNode &node, uint64_t turn);
    void take_for(xfer_event_t *events, uint32_t event_size, uint32_t max, uint32_t timeout_ms,
                  uint32_t &count);
    uint32_t take(xfer_event_t *events, uint32_t event_size, uint32_t max);
    bool passes();
    void wait(uint32_t timeout_ms);
    void ring();

    const Options &options_;
    EventNode &last_;  // the engine's own end
    Mode mode_ = Mode::with_io;
    EngineLoop *loop_ = nullptr;  // that dispatches or is turned
    OwnLoop *turned_ = nullptr;
    UvLoop *callers_ = nullptr;
    std::unique_ptr<OwnLoop> own_;  // of the thread
    std::unique_ptr<UvLoop> embedded_;
    std::thread thread_;
    EventQueue queue_;
    Fd bell_;               // queue mode: readable while something is queued
    uint32_t passed_ = 0;   // polls without a turn, since the last one,
    uint64_t moment_ = 0;   // and when that was
    EventList unreleased_;  // whose data, or last handle, the last poll gave out
    PollGate gate_;
    std::atomic<bool> woken_{false};     // by the user: one poll does not wait
    std::atomic<bool> fd_asked_{false};  // of the loop that is polled
    CallbackWatch callbacks_;
    std::atomic<uint64_t> sequence_{0};
    std::atomic<bool> ended_{false};
    std::mutex mutex_;
    std::condition_variable ended_cv_;
};

}  // namespace xfer
