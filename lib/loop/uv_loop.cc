// SPDX-License-Identifier: Apache-2.0
#include "loop/uv_loop.h"

#include <new>
#include <utility>

namespace xfer {

namespace {

Failure uv_failure(int error, const char *what) {
    return {status_of_errno(-error), XFER_ORIGIN_UV, error,
            std::string(what) + ": " + uv_strerror(error)};
}

}  // namespace

// Our code in a callback of libuv.
class UvLoop::Callback {
public:
    explicit Callback(UvLoop &loop) : loop_(loop) {
        loop_.lock_.lock();
        loop_.enter();
        loop_.asleep_.store(false, std::memory_order_relaxed);
    }
    Callback(const Callback &) = delete;
    Callback &operator=(const Callback &) = delete;
    ~Callback() {
        if (!loop_.over_) loop_.before_sleep();  // we do not know when it does
        loop_.leave();
    }

private:
    UvLoop &loop_;
};

UvLoop::UvLoop(uv_loop_t *loop, bool unref) : uv_(loop), unref_(unref) {}

Result<std::unique_ptr<UvLoop>> UvLoop::open(uv_loop_t *uv, bool unref) {
    std::unique_ptr<UvLoop> loop(new UvLoop(uv, unref));
    Failure why = loop->open_handles();
    if (why.status == XFER_OK) return loop;
    abandon(std::move(loop));
    return why;
}

Failure UvLoop::open_handles() {
    if (int error = uv_async_init(uv_, &async_, on_async))
        return uv_failure(error, "uv_async_init");
    opened(async_);
    can_ring_ = true;
    if (Failure why = watched_.open(); why.status != XFER_OK) return why;
    if (int error = uv_poll_init(uv_, &poll_, watched_.fd()))
        return uv_failure(error, "uv_poll_init");
    opened(poll_);
    uv_prepare_init(uv_, &prepare_);
    uv_check_init(uv_, &check_);
    uv_timer_init(uv_, &timer_);
    uv_idle_init(uv_, &idle_);
    opened(prepare_), opened(check_), opened(timer_), opened(idle_);
    uv_poll_start(&poll_, UV_READABLE, on_set);
    uv_prepare_start(&prepare_, on_prepare);
    uv_check_start(&check_, on_check);
    now_ = clock();
    return {};
}

UvLoop::~UvLoop() {
    XFER_CHECK(open_ == 0);
}

void UvLoop::abandon(std::unique_ptr<UvLoop> loop) {
    if (!loop || loop->open_ == 0) return;
    loop->abandoned_ = true;
    loop.release()->close_handles();
}

void UvLoop::close(LoopClosedSink &sink) {
    closed_sink_ = &sink;
    if (on_thread()) return close_handles();
    std::lock_guard hold(lock_);
    close_handles();
}

void UvLoop::close_handles() {
    forget_names();
    XFER_CHECK(watched_.empty());
    over_ = true;
    asleep_.store(false);
    {
        std::lock_guard hold(ring_lock_);
        can_ring_ = false;
    }
    for (uv_handle_t *handle : handles())
        if (handle->data) uv_close(handle, on_closed);
}

std::array<uv_handle_t *, 6> UvLoop::handles() {
    return {reinterpret_cast<uv_handle_t *>(&poll_),    reinterpret_cast<uv_handle_t *>(&async_),
            reinterpret_cast<uv_handle_t *>(&prepare_), reinterpret_cast<uv_handle_t *>(&check_),
            reinterpret_cast<uv_handle_t *>(&timer_),   reinterpret_cast<uv_handle_t *>(&idle_)};
}

// A loop that nothing keeps alive does not turn: its own thread does it at once.
void UvLoop::hold() {
    held_.store(true);
    if (std::this_thread::get_id() == home_) return keep_alive();
    wake();
}

void UvLoop::keep_alive() {
    if (!std::exchange(unref_, false)) return;
    for (uv_handle_t *handle : handles())
        uv_ref(handle);
}

void UvLoop::on_closed(uv_handle_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    if (--loop.open_ > 0) return;
    if (loop.abandoned_)
        delete &loop;
    else if (loop.closed_sink_)
        loop.closed_sink_->on_loop_closed();  // may destroy it
}

void UvLoop::forked() {
    EngineLoop::forked();
    new (&ring_lock_) std::mutex;  // threads of the parent that held it do not exist here
}

// ---- callbacks

void UvLoop::on_prepare(uv_prepare_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    loop.drain();
    if (loop.over_) return;
    loop.slept_ = uv_backend_timeout(loop.uv_) != 0;
}

void UvLoop::on_check(uv_check_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    if (std::exchange(loop.slept_, false)) loop.wakeups_.fetch_add(1, std::memory_order_relaxed);
    loop.drain();
}

void UvLoop::on_timer(uv_timer_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    loop.sleeps_until_ = kNever;
    loop.drain();
}

// The lock is free between two of them, for the threads that wait for it.
void UvLoop::on_set(uv_poll_t *handle, int, int) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    {
        Callback callback(loop);
        loop.watched_.wait(0);
    }
    for (bool more = true; more;) {
        Callback callback(loop);
        more = loop.watched_.deliver();
    }
}

// The ring only ends the sleep: on_check, which follows, takes the wake.
void UvLoop::on_async(uv_async_t *) {}

// Tells libuv what there is to wait for. Last thing before the loop may sleep.
void UvLoop::before_sleep() {
    watched_.apply_changes();
    update_timer();
    if (held_.load(std::memory_order_relaxed)) keep_alive();
    doze();
    asleep_.store(true);
    if (pending())
        uv_idle_start(&idle_, [](uv_idle_t *) {});
    else
        uv_idle_stop(&idle_);
}

void UvLoop::update_timer() {
    const uint64_t due = timers_.next_due();
    if (due == sleeps_until_) return;
    sleeps_until_ = due;
    if (due == kNever) {
        uv_timer_stop(&timer_);
        return;
    }
    const uint64_t ms = due / kNsPerMs + (due % kNsPerMs != 0);  // never early
    const uint64_t now = uv_now(uv_);
    uv_timer_start(&timer_, on_timer, ms > now ? ms - now : 0, 0);
}

// One that is not asleep comes by on_prepare, which waits for our lock, before it sleeps.
// It is rung at once: after it was left the loop may be gone.
std::shared_ptr<const Bell> UvLoop::left() {
    if (asleep_.load() && must_wake_sleeper()) ring();
    return nullptr;
}

void UvLoop::ring() {
    std::lock_guard hold(ring_lock_);
    if (can_ring_) uv_async_send(&async_);
}

}  // namespace xfer
