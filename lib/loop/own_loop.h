// SPDX-License-Identifier: Apache-2.0
// A loop of the engine's own: run() drives it on a thread, or turn() where the user polls. It
// sleeps in epoll_wait, in the set of what it watches, so that a packet costs one system call to
// hear of; an eventfd in the same set ends its sleep. (lib/design/0043)
#pragma once

#include "loop/engine_loop.h"
#include "loop/spin_limit.h"
#include "util/fd.h"
#include "util/status.h"

namespace xfer {

class OwnLoop final : public EngineLoop {
public:
    // Destroyed not while it is driven, when watches and questions are gone.
    static Result<std::unique_ptr<OwnLoop>> open(SpinLimit spin = SpinLimit::fixed(0));
    void forked() override;
    // When nothing drives it any more: gives its descriptors back. Who enters it finds it as it was
    // left, and nothing to do. Any thread.
    void close();

    // Drives the loop on this thread until stop(), which any thread may call, also before.
    void run();
    void stop();

    // Waits at most `timeout_ns` (kNever: no limit) and returns after the first pass in which
    // anything ran. One thread at a time.
    void turn(uint64_t timeout_ns);
    // The descriptor that is readable when a turn would find something to do. Once it was asked
    // for, which costs system calls, it is kept up to date by settle(), to be called after the last
    // turn, and by leaving Inside. One thread at a time, not during turn(). fd(): any thread.
    Result<int> fd();
    void settle();

private:
    OwnLoop() = default;
    void begin_driving();
    void end_driving();
    uint64_t until_of(uint64_t timeout_ns);
    void pass(uint64_t until);
    uint64_t prepare(uint64_t until);
    void deliver();
    std::shared_ptr<const Bell> left() override;
    void ring() override;
    void settle_locked();

    std::shared_ptr<Bell> bell_;
    bool rung_ = false;  // and the loop has not come by since
    SpinLimit spin_ = SpinLimit::fixed(0);
    uint64_t looked_ = 0;    // at the descriptors, last
    bool driven_ = false;    // by run(), or by a turn that keeps the descriptor up to date
    bool sleeping_ = false;  // in epoll_wait, or about to be
    bool eager_ = false;     // does not sleep after something ran
    std::atomic<bool> stopping_ = false;
    std::atomic<bool> asked_ = false;  // for the descriptor
    Fd timer_fd_;                      // readable when the first timer is due
    uint64_t timer_fd_due_ = kNever;
};

}  // namespace xfer
