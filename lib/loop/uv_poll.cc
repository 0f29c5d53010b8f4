// SPDX-License-Identifier: Apache-2.0
// Descriptors: those that a loop watches, and the one that stands for the loop.
#include "loop/uv_poll.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

namespace xfer {

class UvWatch final : public Watch {
public:
    ~UvWatch() override {
        if (poll) poll->loop.unwatch(*poll);
    }
    void want(uint32_t readiness) override { poll->loop.want(*poll, readiness); }

    UvPoll *poll = nullptr;
};

void UvPoll::run() {
    if (!in_changes().linked()) loop.changed_.push_back(*this);
    if (wanted) sink->on_ready(kReadable | kWritable);  // may end this watch
}

std::unique_ptr<Watch> UvLoop::watch(int fd, WatchSink &sink) {
    std::unique_ptr<UvPoll> poll(new (std::nothrow) UvPoll(*this, fd, sink));
    std::unique_ptr<UvWatch> watch(new (std::nothrow) UvWatch);
    if (!poll || !watch) return nullptr;
    if (may_touch_uv()) {
        apply_changes();  // a watch that was there before may have had the same descriptor
        if (!introduce(*poll)) return nullptr;
    }
    ++watching_;
    watch->poll = poll.release();
    return watch;
}

bool UvLoop::introduce(UvPoll &poll) {
    if (uv_poll_init(uv_, &poll.handle, poll.fd) != 0) return false;
    poll.handle.data = &poll;
    poll.known = true;
    ++open_;
    return true;
}

void UvLoop::want(UvPoll &poll, uint32_t readiness) {
    poll.wanted = readiness;
    if (poll.wanted != poll.started && !poll.in_changes().linked()) changed_.push_back(poll);
}

// libuv stops a descriptor that has an error; ours are watched on.
void UvLoop::restart(UvPoll &poll) {
    poll.started = 0;
    want(poll, poll.wanted);
}

// Its descriptor may be closed and its number come back right after this, so libuv is told at once
// where possible.
void UvLoop::unwatch(UvPoll &poll) {
    --watching_;
    poll.sink = nullptr;
    poll.wanted = 0;
    poll.as_task().unlink();
    poll.in_changes().unlink();
    if (poll.known && may_touch_uv())
        uv_close(reinterpret_cast<uv_handle_t *>(&poll.handle), on_poll_closed);
    else
        dead_.push_back(poll);
}

void UvLoop::apply_changes() {
    while (UvPoll *poll = dead_.pop_front()) {
        if (poll->known)
            uv_close(reinterpret_cast<uv_handle_t *>(&poll->handle), on_poll_closed);
        else
            delete poll;
    }
    while (UvPoll *poll = changed_.pop_front())
        if ((poll->known || introduce(*poll)) && start(*poll))
            unregistered_ |= poll->started != 0;
        else
            defer(*poll);  // the kernel has no room for it now
}

bool UvLoop::start(UvPoll &poll) {
    if (poll.wanted == poll.started) return true;
    int events = 0;
    if (poll.wanted & kReadable) events |= UV_READABLE;
    if (poll.wanted & kWritable) events |= UV_WRITABLE;
    poll.started = poll.wanted;
    return (events ? uv_poll_start(&poll.handle, events, on_poll) : uv_poll_stop(&poll.handle)) ==
           0;
}

void UvLoop::on_poll_closed(uv_handle_t *handle) {
    UvPoll *poll = static_cast<UvPoll *>(handle->data);
    UvLoop &loop = poll->loop;
    delete poll;
    loop.handle_closed();
}

void UvLoop::on_closed(uv_handle_t *handle) {
    static_cast<UvLoop *>(handle->data)->handle_closed();
}

// ---- the descriptor of the loop ----

Result<int> UvLoop::fd() {
    std::lock_guard hold(lock_);
    if (set_) return set_.get();
    if (!own_) return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "the loop is the caller's"};
    Fd set(epoll_create1(EPOLL_CLOEXEC));
    if (!set) return os_failure(errno, "epoll_create1");
    Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer) return os_failure(errno, "timerfd_create");
    for (int member : {uv_backend_fd(uv_), timer.get()}) {
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
    apply_changes();
    doze();
    if (unregistered_) {
        // libuv tells the kernel of new polls when it looks for events, so it is made to look; what
        // it finds is found again by the next turn. Only the ring is not: it is rung anew below.
        quiet_ = true;
        uv_run(uv_, UV_RUN_NOWAIT);
        quiet_ = false;
    }
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
