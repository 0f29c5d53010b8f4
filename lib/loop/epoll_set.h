// SPDX-License-Identifier: Apache-2.0
// The descriptors that a loop watches, in an epoll set of the loop's own; libuv watches the set.
// Handles of libuv, one for each descriptor, would be told to the kernel when the loop goes to
// sleep, with no lock of ours held: a thread that closes the descriptor in between makes libuv
// abort, or watch a stranger of the same number (design 0032).
// Thread: one at a time, under the lock of the loop.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <memory>

#include "loop/loop.h"
#include "util/fd.h"
#include "util/list.h"
#include "util/status.h"

namespace xfer {

class EpollWatch;

class EpollSet {
public:
    Failure open();
    // In the child of a fork: another, empty set at the same number. The watches that there were
    // touch nothing any more.
    void forked();
    // All watches must be gone.
    ~EpollSet();

    int fd() const { return set_.get(); }
    bool empty() const { return watching_ == 0; }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted);

    // Tells the kernel what is wanted now. Changes wait for this, since most are taken back before
    // the loop sleeps.
    void apply_changes();
    // Asks the kernel what is ready; there is nothing left of the last time.
    void collect();
    // Calls the sink of the next one that was collected, if it still wants what it was ready for.
    // Ready: whether there is another one.
    bool deliver();

private:
    friend class EpollWatch;
    void remove(EpollWatch &watch);
    bool control(int operation, EpollWatch &watch);

    static constexpr int kAtOnce = 64;
    Fd set_;
    bool forked_ = false;
    size_t watching_ = 0;
    List<EpollWatch> changed_;
    epoll_event ready_[kAtOnce];
    int next_ = 0;
    int count_ = 0;
};

}  // namespace xfer
