// SPDX-License-Identifier: Apache-2.0
// How an own loop is driven: by a thread, or by who polls.
#include <algorithm>

#include "loop/uv_loop.h"

namespace xfer {

namespace {

// Between two passes through libuv, for a loop that does not sleep. One costs a microsecond.
constexpr uint64_t kGlancesNs = 10'000;
// While libuv watches our set, each packet wakes both. Who has looked so often has not slept for a
// while.
constexpr uint32_t kLooks = 256;

}  // namespace

void UvLoop::begin_driving() {
    std::lock_guard hold(lock_);
    XFER_CHECK(own_ && !driven_);
    driven_ = true;
    asleep_.store(false);
}

void UvLoop::end_driving() {
    std::lock_guard hold(lock_);
    driven_ = false;
    limit_ = kNever;
    // From here on a wake() must make the descriptor readable; one that came before is seen by
    // settle().
    asleep_.store(true);
}

void UvLoop::pass(Sleep sleep) {
    sleep_ = sleep;
    if (sleep == Sleep::kNo) {
        uv_run(uv_, UV_RUN_NOWAIT);
        if (!nested_) look();
        return;
    }
    looks_ = 0;
    if (!nested_) uv_poll_start(&poll_, UV_READABLE, on_set);
    nested_ = true;
    uv_run(uv_, UV_RUN_ONCE);
}

// At our set alone.
void UvLoop::look() {
    {
        Inside inside(*this);
        watched_.apply_changes();
        watched_.collect();
    }
    for (bool more = true; more;) {
        Inside inside(*this);
        more = watched_.deliver();
        ran_ |= more;
        if (!more && ran_) drain();
    }
    if (!nested_ || ++looks_ < kLooks) return;
    uv_poll_stop(&poll_);
    nested_ = false;
}

// What libuv watches is asked for now and then: with its own set and ours in it, that is two system
// calls. In between only ours is asked, and not even that while there is work that needs no
// descriptor, or memory to look at, which costs nothing. True: libuv need not be asked yet.
bool UvLoop::glance() {
    {
        Inside inside(*this);
        // Who waits by the descriptor is to find it silent after a turn: libuv takes the bell.
        if (set_ || now_ >= passed_ + kGlancesNs || watched_.empty()) {
            passed_ = now_;
            return false;
        }
        sleep_ = Sleep::kNo;
        drain();
        if (ran_ || !polled_.empty()) return true;
    }
    look();
    return true;
}

void UvLoop::glance_or_pass() {
    if (!glance()) pass(Sleep::kNo);
}

void UvLoop::run() {
    begin_driving();
    eager_ = spin_ns_ > 0;
    if (eager_) expect(uv_hrtime() + spin_ns_);
    while (!stopping_.load(std::memory_order_acquire)) {
        ran_ = false;
        if (uv_hrtime() < expected_)
            glance_or_pass();
        else
            pass(Sleep::kYes);
        if (eager_ && ran_) expect(uv_hrtime() + spin_ns_);
    }
    stopping_.store(false);
    end_driving();
}

void UvLoop::stop() {
    stopping_.store(true);
    wake();
}

void UvLoop::turn(uint64_t timeout_ns) {
    eager_ = true;
    ran_ = false;
    if (glance() && (ran_ || timeout_ns == 0)) return;
    begin_driving();
    if (timeout_ns == 0) {
        pass(Sleep::kNo);
        return end_driving();
    }
    uint64_t start = uv_hrtime();
    uint64_t until = timeout_ns < kNever - start ? start + timeout_ns : kNever;
    expect(start + spin_ns_);
    uint64_t spin_until = std::min(until, expected_);
    while (!ran_ && uv_hrtime() < spin_until)
        glance_or_pass();
    limit_ = until;
    while (!ran_ && (until == kNever || uv_hrtime() < until))
        pass(Sleep::kYes);
    end_driving();
}

}  // namespace xfer
