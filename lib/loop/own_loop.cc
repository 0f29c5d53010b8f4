// SPDX-License-Identifier: Apache-2.0
#include "loop/own_loop.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace xfer {

namespace {

// Between two looks at the descriptors, for a loop that has other work or memory to look at, which
// costs no system call.
constexpr uint64_t kGlancesNs = 10'000;

}  // namespace

Result<std::unique_ptr<OwnLoop>> OwnLoop::open(SpinLimit spin) {
    std::unique_ptr<OwnLoop> loop(new OwnLoop);
    if (Failure why = loop->watched_.open(); why.status != XFER_OK) return why;
    loop->bell_ = std::make_shared<Bell>();
    if (loop->bell_->fd() < 0) return os_failure(errno, "eventfd");
    if (!loop->watched_.add_edge(loop->bell_->fd())) return os_failure(errno, "epoll_ctl");
    loop->spin_ = spin;
    loop->now_ = loop->clock();
    return loop;
}

void OwnLoop::forked() {
    EngineLoop::forked();
    driven_ = sleeping_ = false;
    bell_.reset();
    timer_fd_.reset();
}

void OwnLoop::close() {
    std::lock_guard hold(lock_);
    XFER_CHECK(!driven_);
    over_ = true;
    asked_.store(false);
    forget_names();
    watched_.close();
    timer_fd_.reset();  // the bell stays: who has left may be about to ring it
}

// ---- driving

void OwnLoop::begin_driving() {
    std::lock_guard hold(lock_);
    XFER_CHECK(!driven_);
    driven_ = true;
    asleep_.store(false);
}

void OwnLoop::end_driving() {
    std::lock_guard hold(lock_);
    driven_ = false;
    // From here on a wake() must make the descriptor readable; one that came before is seen by
    // settle().
    asleep_.store(true);
}

void OwnLoop::run() {
    begin_driving();
    ran_ = true;
    while (!stopping_.load(std::memory_order_acquire))
        pass(kNever);
    stopping_.store(false);
    end_driving();
}

void OwnLoop::stop() {
    stopping_.store(true);
    wake();
}

// When a turn of so long ends; 0: at once. Until it has spun it does not sleep.
uint64_t OwnLoop::until_of(uint64_t timeout_ns) {
    if (timeout_ns == 0) return 0;
    if (timeout_ns == kNever && !spin_.ns()) return kNever;
    const Inside inside(*this);
    expect(now_ + spin_.ns());
    return timeout_ns < kNever - now_ ? now_ + timeout_ns : kNever;
}

void OwnLoop::turn(uint64_t timeout_ns) {
    eager_ = true;
    ran_ = false;
    const bool asked = asked_.load();
    if (!asked && timeout_ns == 0) return pass(0);
    if (asked) begin_driving();
    const uint64_t until = until_of(timeout_ns);
    do
        pass(until);
    while (!ran_ && until && (until == kNever || clock() < until));
    if (asked) end_driving();
}

// What is due; then what the descriptors tell, for which it sleeps until `until` if there is
// nothing else to do. 0: it does not.
void OwnLoop::pass(uint64_t until) {
    uint64_t sleep_ns = 0;
    {
        const Inside inside(*this);
        if (std::exchange(ran_, false)) {
            spin_.worked(now_);
            expect(now_ + spin_.ns());
        }
        drain();
        if (now_ < expected_ || (ran_ && (eager_ || spin_.ns()))) until = 0;
        const bool busy = until == 0 && (ran_ || polls_memory());
        if (busy && !asked_.load() && now_ < looked_ + kGlancesNs) return;
        looked_ = now_;
        sleep_ns = prepare(until);
    }
    const bool found = watched_.wait(sleep_ns);
    if (sleep_ns) wakeups_.fetch_add(1, std::memory_order_relaxed);
    if (found || sleep_ns) deliver();
}

// How long it may sleep. Last thing before it does.
uint64_t OwnLoop::prepare(uint64_t until) {
    watched_.apply_changes();
    rung_ = false;
    if (until == 0) return 0;
    doze();
    asleep_.store(true);
    sleeps_until_ = std::min(timers_.next_due(), until);
    sleeping_ = !pending() && !stopping_.load() && sleeps_until_ > now_;
    if (!sleeping_) {
        asleep_.store(!driven_);
        return 0;
    }
    return sleeps_until_ == kNever ? kNever : sleeps_until_ - now_;
}

// The lock is free between two of them, for the threads that wait for it.
void OwnLoop::deliver() {
    for (bool more = true; more;) {
        const Inside inside(*this);
        sleeping_ = rung_ = false;
        if (driven_) asleep_.store(false, std::memory_order_relaxed);
        more = watched_.deliver();
        ran_ |= more;
        if (!more && ran_) drain();
    }
}

// A loop that is awake comes by prepare(), which waits for our lock, before it sleeps.
// Where polls drive it, it is rung under the lock: the descriptor is not readable after a poll that
// has seen all.
std::shared_ptr<const Bell> OwnLoop::left() {
    if (sleeping_ && !rung_ && must_wake_sleeper()) {
        rung_ = true;
        if (!asked_.load()) return bell_;
        ring();
    } else if (!sleeping_ && !driven_) {
        settle_locked();
    }
    return nullptr;
}

void OwnLoop::ring() {
    bell_->ring();
}

// ---- the descriptor

Result<int> OwnLoop::fd() {
    std::lock_guard hold(lock_);
    if (asked_.load()) return watched_.fd();
    timer_fd_ = Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer_fd_) return os_failure(errno, "timerfd_create");
    if (!watched_.add_edge(timer_fd_.get())) return os_failure(errno, "epoll_ctl");
    asked_.store(true);
    if (!driven_) settle_locked();
    return watched_.fd();
}

void OwnLoop::settle() {
    std::lock_guard hold(lock_);
    XFER_CHECK(!driven_);
    settle_locked();
}

// Costs system calls only for what changed since the last time.
void OwnLoop::settle_locked() {
    if (!asked_.load()) return;
    watched_.apply_changes();
    doze();
    if (pending() && !std::exchange(rung_, true)) ring();
    const uint64_t due = timers_.next_due();
    if (due == timer_fd_due_) return;
    timer_fd_due_ = due;
    itimerspec when{};
    if (due != kNever) {
        const uint64_t ns = std::max<uint64_t>(due, 1);  // 0 would disarm
        when.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
        when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    }
    XFER_CHECK(timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
}

}  // namespace xfer
