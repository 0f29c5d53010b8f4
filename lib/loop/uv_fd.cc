// SPDX-License-Identifier: Apache-2.0
// The descriptor that stands for an own loop.
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "loop/uv_loop.h"

namespace xfer {

Result<int> UvLoop::fd() {
    std::lock_guard hold(lock_);
    if (set_) return set_.get();
    if (!own_) return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "the loop is the caller's"};
    Fd set(epoll_create1(EPOLL_CLOEXEC));
    if (!set) return os_failure(errno, "epoll_create1");
    Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer) return os_failure(errno, "timerfd_create");
    // Ours as well, since libuv does not always watch it.
    for (int member : {uv_backend_fd(uv_), watched_.fd(), timer.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (epoll_ctl(set.get(), EPOLL_CTL_ADD, member, &event) != 0)
            return os_failure(errno, "epoll_ctl");
    }
    set_ = std::move(set);
    timer_fd_ = std::move(timer);
    if (!driven_) settle_locked();
    return set_.get();
}

void UvLoop::settle() {
    std::lock_guard hold(lock_);
    XFER_CHECK(!driven_);
    settle_locked();
}

// Costs system calls only for what changed since the last time.
void UvLoop::settle_locked() {
    if (!set_) return;
    watched_.apply_changes();
    doze();
    if (pending()) ring();
    uint64_t due = timers_.next_due();
    if (due == timer_fd_due_) return;
    timer_fd_due_ = due;
    itimerspec when{};
    if (due != kNever) {
        uint64_t ns = std::max<uint64_t>(due, 1);  // 0 would disarm
        when.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
        when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    }
    XFER_CHECK(timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
}

}  // namespace xfer
