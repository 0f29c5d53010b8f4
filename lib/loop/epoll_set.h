// SPDX-License-Identifier: Apache-2.0
// The descriptors that a loop watches, in an epoll set of the loop's own: an OwnLoop sleeps in it,
// a caller's libuv watches it. Handles of libuv, one for each descriptor, would be told to the
// kernel when the loop goes to sleep, with no lock of ours held: a thread that closes the
// descriptor in between makes libuv abort, or watch another descriptor of the same number
// (design 0032). Thread: one at a time, under the lock of the loop, but for wait().
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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
    void close() { set_.reset(); }  // all watches must be gone, as for
    ~EpollSet();

    int fd() const { return set_.get(); }
    bool empty() const { return watching_ == 0; }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted);

    // Tells the kernel what is wanted now. Changes wait for this, since most are taken back before
    // the loop sleeps.
    void apply_changes();
    // A descriptor of which the kernel tells each time that it becomes readable, but nobody else:
    // it ends a wait. False, with errno: the set takes no more.
    bool add_edge(int fd);

    // Asks the kernel what is ready, for which it waits at most so long (kNever: no limit); there
    // is nothing left of the last time. False: nothing. Thread: who drives the loop, with the lock
    // or without: watches may come and go meanwhile.
    bool wait(uint64_t ns);
    // Calls the sink of the next one that was collected, if it still wants what it was ready for.
    // Ready: whether there is another one.
    bool deliver();

private:
    friend class EpollWatch;
    void remove(EpollWatch &watch);
    bool control(int operation, EpollWatch &watch);
    EpollWatch *find(uint64_t id) const;

    // The kernel knows a watch by the number of a slot and how often that was used: what it told
    // of one that is gone means nobody.
    struct Slot {
        EpollWatch *watch = nullptr;
        uint32_t used = 0;
        uint32_t next_free = 0;
    };
    static constexpr int kAtOnce = 64;
    Fd set_;
    bool forked_ = false;
    size_t watching_ = 0;
    std::vector<Slot> slots_;
    uint32_t first_free_ = 0;  // slots_.size(): none
    List<EpollWatch> changed_;
    epoll_event ready_[kAtOnce];
    int next_ = 0;
    int count_ = 0;
};

}  // namespace xfer
