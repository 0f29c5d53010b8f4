// SPDX-License-Identifier: Apache-2.0
#include "loop/uv_loop.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "loop/resolver.h"

namespace xfer {

namespace {

// Bounds of one visit: what is left is done in the next turn, after the loop looked at its
// descriptors.
constexpr int kPasses = 4;
constexpr int kTimersPerPass = 256;

Failure uv_failure(int error, const char *what) {
    return {status_of_errno(-error), XFER_ORIGIN_UV, error,
            std::string(what) + ": " + uv_strerror(error)};
}

// uv_loop_init takes an epoll set, a ring and a pipe, and one more pipe with the first loop of the
// process. Where it cannot have them it leaks the first or aborts: who is out of descriptors is
// told here instead.
Failure try_descriptors() {
    Fd tried[6];
    for (size_t i = 0; i < std::size(tried); i += 2) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0) return os_failure(errno, "pipe2");
        tried[i] = Fd(fds[0]);
        tried[i + 1] = Fd(fds[1]);
    }
    return {};
}

}  // namespace

// Our code in a callback of libuv.
class UvLoop::Callback {
public:
    explicit Callback(UvLoop &loop) : loop_(loop) {
        loop_.lock_.lock();
        loop_.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
        loop_.asleep_.store(false, std::memory_order_relaxed);
        loop_.now_ = uv_hrtime();
    }
    Callback(const Callback &) = delete;
    Callback &operator=(const Callback &) = delete;
    ~Callback() {
        // An own loop only sleeps after on_prepare; of the caller's we do not know when it does.
        if (!loop_.own_ && !loop_.closing_) loop_.before_sleep();
        loop_.owner_.store(std::thread::id(), std::memory_order_relaxed);
        loop_.lock_.unlock();
    }

private:
    UvLoop &loop_;
};

UvLoop::UvLoop() = default;

Result<std::unique_ptr<UvLoop>> UvLoop::own(uint32_t spin_us) {
    std::unique_ptr<UvLoop> loop(new UvLoop);
    if (Failure failure = try_descriptors(); failure.status != XFER_OK) return failure;
    int error = uv_loop_init(&loop->own_loop_);
    if (error) return uv_failure(error, "uv_loop_init");
    loop->own_ = true;
    loop->uv_ = &loop->own_loop_;
    loop->spin_ns_ = uint64_t{spin_us} * 1000;
    return open(std::move(loop));
}

Result<std::unique_ptr<UvLoop>> UvLoop::embedded(uv_loop_t *uv, bool unref) {
    std::unique_ptr<UvLoop> loop(new UvLoop);
    loop->uv_ = uv;
    loop->unref_ = unref;
    loop->home_ = std::this_thread::get_id();
    return open(std::move(loop));
}

Result<std::unique_ptr<UvLoop>> UvLoop::open(std::unique_ptr<UvLoop> loop) {
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
    // libuv tells the kernel of descriptors when it looks for events: fd() needs them there.
    if (own_) uv_run(uv_, UV_RUN_NOWAIT);
    uv_prepare_start(&prepare_, on_prepare);
    uv_check_start(&check_, on_check);
    now_ = uv_hrtime();
    return {};
}

UvLoop::~UvLoop() {
    if (own_) {
        if (open_ > 0) close_handles();
        uv_run(uv_, UV_RUN_DEFAULT);
        XFER_CHECK(uv_loop_close(uv_) == 0);
    }
    XFER_CHECK(open_ == 0);
}

void UvLoop::abandon(std::unique_ptr<UvLoop> loop) {
    if (!loop || loop->own_ || loop->open_ == 0) return;
    loop->abandoned_ = true;
    loop.release()->close_handles();
}

void UvLoop::close(LoopClosedSink &sink) {
    XFER_CHECK(!own_);
    closed_sink_ = &sink;
    if (on_thread()) return close_handles();
    std::lock_guard hold(lock_);
    close_handles();
}

void UvLoop::close_handles() {
    resolver_.reset();
    XFER_CHECK(watched_.empty());
    closing_ = true;
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
    XFER_CHECK(!own_);
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
    // Threads of the parent that held the locks do not exist here.
    new (&lock_) std::mutex;
    new (&ring_lock_) std::mutex;
    driven_ = false;
    owner_.store(std::thread::id());
    set_.reset();
    timer_fd_.reset();
    watched_.forked();
    if (own_) uv_loop_fork(uv_);  // what it cannot make anew stays closed
}

// ---- callbacks ----

void UvLoop::on_prepare(uv_prepare_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    loop.drain();
    if (loop.closing_) return;
    if (loop.own_) loop.before_sleep();
    loop.slept_ = uv_backend_timeout(loop.uv_) != 0 && (!loop.own_ || loop.sleep_ == Sleep::kYes);
}

void UvLoop::on_check(uv_check_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    if (loop.slept_) loop.wakeups_.fetch_add(1, std::memory_order_relaxed);
    loop.slept_ = false;
    loop.drain();
}

void UvLoop::on_timer(uv_timer_t *handle) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    Callback callback(loop);
    loop.told_ = kNever;
    loop.drain();
}

// The lock is free between two of them, for the threads that wait for it.
void UvLoop::on_set(uv_poll_t *handle, int, int) {
    UvLoop &loop = *static_cast<UvLoop *>(handle->data);
    {
        Callback callback(loop);
        loop.watched_.collect();
    }
    for (bool more = true; more;) {
        Callback callback(loop);
        more = loop.watched_.deliver();
        loop.ran_ |= more;
    }
}

// The ring only ends the sleep: on_check, which follows, takes the wake.
void UvLoop::on_async(uv_async_t *) {}

// Tells libuv what there is to wait for. Last thing before the loop may sleep.
//
// No wake-up is lost: wake() sets woken_, then looks at asleep_; we set asleep_, then look at
// woken_ (in pending()). All four are sequentially consistent, so at least one side sees the other:
// either wake() rings, or we do not sleep. A wake() that finds woken_ set needs nothing: whoever
// set it is doing the same, and the loop's exchange in take_wake(), coming after ours, also shows
// it all that happened before ours.
void UvLoop::before_sleep() {
    watched_.apply_changes();
    tell_timer();
    if (held_.load(std::memory_order_relaxed)) keep_alive();
    if (!own_ || sleep_ == Sleep::kYes) {
        doze();
        asleep_.store(true);
    }
    if (pending() || (own_ && eager_ && ran_))
        uv_idle_start(&idle_, [](uv_idle_t *) {});
    else
        uv_idle_stop(&idle_);
}

bool UvLoop::pending() const {
    const bool wait = !own_ || sleep_ == Sleep::kYes || !driven_;
    return woken_.load() || stopping_.load() || !tasks_.empty() || (wait && !polled_.empty());
}

void UvLoop::tell_timer() {
    uint64_t due = std::min(timers_.next_due(), limit_);
    if (due == told_) return;
    told_ = due;
    if (due == kNever) {
        uv_timer_stop(&timer_);
        return;
    }
    uint64_t ms = due / kNsPerMs + (due % kNsPerMs != 0);  // never early
    uint64_t now = uv_now(uv_);
    uv_timer_start(&timer_, on_timer, ms > now ? ms - now : 0, 0);
}

void UvLoop::drain() {
    for (int pass = 0; pass < kPasses && !closing_; ++pass) {
        bool ran = take_wake();
        ran |= fire_timers();
        ran |= run_tasks();
        ran |= poll_memory();
        if (!ran) return;
        ran_ = true;
    }
}

bool UvLoop::take_wake() {
    if (!woken_.load(std::memory_order_relaxed) || !woken_.exchange(false)) return false;
    if (wake_sink_) wake_sink_->on_wake();
    return true;
}

bool UvLoop::fire_timers() {
    int fired = 0;
    for (; fired < kTimersPerPass; ++fired) {
        Timer *timer = timers_.pop(now_);
        if (!timer) break;
        timer->sink.on_timer(*timer);
    }
    return fired > 0;
}

bool UvLoop::run_tasks() {
    if (tasks_.empty()) return false;
    List<Task> batch;
    batch.append(tasks_);
    while (Task *task = batch.pop_front())
        task->run();
    return true;
}

bool UvLoop::poll_memory() {
    bool ran = false;
    List<Poller, InPolled> batch;
    batch.append(polled_);
    while (Poller *poller = batch.pop_front()) {
        polled_.push_back(*poller);
        ran |= poller->poll();  // may end it
    }
    return ran;
}

// Those who still find something keep the loop awake.
void UvLoop::doze() {
    while (!polled_.empty() && polled_.front().doze())
        polled_.pop_front();
}

// ---- what the engine asks ----

uint64_t UvLoop::clock() {
    return uv_hrtime();
}

void UvLoop::arm(Timer &timer, uint64_t due) {
    timers_.arm(timer, due);
}
void UvLoop::disarm(Timer &timer) {
    timers_.disarm(timer);
}

std::unique_ptr<Watch> UvLoop::watch(int fd, WatchSink &sink, uint32_t wanted) {
    return watched_.watch(fd, sink, wanted);
}

void UvLoop::defer(Task &task) {
    if (!task.linked()) tasks_.push_back(task);
}

void UvLoop::look_at(Poller &poller) {
    if (!poller.linked()) polled_.push_back(poller);
}

std::unique_ptr<Resolving> UvLoop::resolve(const std::string &host, ResolveSink &sink) {
    if (!resolver_) resolver_ = std::make_unique<Resolver>(*this);
    return resolver_->ask(host, sink);
}

void UvLoop::set_wake_sink(WakeSink &sink) {
    wake_sink_ = &sink;
}

void UvLoop::wake() {
    if (woken_.exchange(true)) return;
    if (asleep_.load()) ring();
}

void UvLoop::ring() {
    std::lock_guard hold(ring_lock_);
    if (can_ring_) uv_async_send(&async_);
}

// ---- other threads ----

UvLoop::Inside::Inside(UvLoop &loop) : loop_(loop) {
    if (loop_.on_thread()) return;
    loop_.lock_.lock();
    enter();
}

UvLoop::Inside::Inside(UvLoop &loop, std::try_to_lock_t) : loop_(loop) {
    if (loop_.on_thread()) return;
    inside_ = loop_.lock_.try_lock();
    if (inside_) enter();
}

void UvLoop::Inside::enter() {
    locked_ = true;
    loop_.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    loop_.now_ = uv_hrtime();
}

UvLoop::Inside::~Inside() {
    if (!locked_) return;
    loop_.owner_.store(std::thread::id(), std::memory_order_relaxed);
    if (loop_.own_ && !loop_.driven_) loop_.settle_locked();
    // A loop that is not asleep comes by on_prepare, which waits for our lock, before it sleeps.
    else if (loop_.asleep_.load()) {
        loop_.watched_.apply_changes();
        if (loop_.pending() || loop_.timers_.next_due() < loop_.told_) loop_.ring();
    }
    loop_.lock_.unlock();
}

}  // namespace xfer
