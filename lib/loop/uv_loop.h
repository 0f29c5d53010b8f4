// SPDX-License-Identifier: Apache-2.0
// A loop on the caller's uv_loop_t, which drives it. libuv itself is only touched on its thread and
// outside our lock: it knows one timer, one descriptor (that of the EpollSet), and a bell.
#pragma once

#include <uv.h>

#include <array>

#include "loop/engine_loop.h"
#include "util/status.h"

namespace xfer {

class LoopClosedSink {
public:
    // From libuv, with nothing of the loop in use any more: it may be destroyed here.
    virtual void on_loop_closed() = 0;

protected:
    ~LoopClosedSink() = default;
};

class UvLoop final : public EngineLoop {
public:
    // Keeps the caller's loop alive until closed; with `unref`, only from hold() on. On the loop's
    // thread.
    static Result<std::unique_ptr<UvLoop>> open(uv_loop_t *loop, bool unref = false);
    // After on_loop_closed().
    ~UvLoop() override;
    // A loop whose engine did not come to be; null is none. On its thread; later turns of the
    // caller's end it.
    static void abandon(std::unique_ptr<UvLoop> loop);

    // Before close(): from now on the caller's loop is kept alive; by another thread, from the
    // loop's next turn on. Any thread.
    void hold();
    // Ends everything; the sink hears of it in a later turn. On the loop's thread, inside or not.
    void close(LoopClosedSink &sink);
    void forked() override;  // the uv_loop_t is the caller's to fork

private:
    class Callback;

    UvLoop(uv_loop_t *loop, bool unref);
    Failure open_handles();
    template <typename Handle>
    void opened(Handle &handle) {
        handle.data = this;
        ++open_;
        if (unref_) uv_unref(reinterpret_cast<uv_handle_t *>(&handle));
    }
    void before_sleep();
    void update_timer();
    std::shared_ptr<const Bell> left() override;
    void ring() override;

    std::array<uv_handle_t *, 6> handles();
    void keep_alive();
    void close_handles();

    static void on_prepare(uv_prepare_t *handle);
    static void on_check(uv_check_t *handle);
    static void on_timer(uv_timer_t *handle);
    static void on_async(uv_async_t *handle);
    static void on_set(uv_poll_t *handle, int status, int events);
    static void on_closed(uv_handle_t *handle);

    uv_loop_t *const uv_;
    // Without data: not opened.
    uv_prepare_t prepare_{};
    uv_check_t check_{};
    uv_timer_t timer_{};  // for the first of timers_
    uv_idle_t idle_{};    // active while the loop must not sleep
    uv_async_t async_{};
    uv_poll_t poll_{};  // of watched_

    const std::thread::id home_ = std::this_thread::get_id();  // the thread of the caller's loop
    bool unref_;  // libuv does not wait for our handles
    bool abandoned_ = false;
    bool slept_ = false;
    size_t open_ = 0;  // handles that libuv knows
    LoopClosedSink *closed_sink_ = nullptr;
    std::atomic<bool> held_ = false;
    std::mutex ring_lock_;
    bool can_ring_ = false;
};

}  // namespace xfer
