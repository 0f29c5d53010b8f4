// SPDX-License-Identifier: Apache-2.0
// A watched descriptor as libuv knows it. It outlives its Watch, until libuv has closed it.
#pragma once

#include <uv.h>

#include "loop/loop.h"
#include "loop/uv_loop.h"

namespace xfer {

struct UvPollChanged {};

struct UvPoll final : Task, ListNode<UvPollChanged> {
    UvPoll(UvLoop &on, int of, WatchSink &to) : loop(on), fd(of), sink(&to) {}
    // For a descriptor that libuv could not take: it is called ready in every turn, as its user's
    // next system call tells what can be done, and is tried again.
    void run() override;
    ListNode<> &as_task() { return *this; }
    ListNode<UvPollChanged> &in_changes() { return *this; }

    uv_poll_t handle;
    UvLoop &loop;
    int fd;
    WatchSink *sink;  // null once the Watch is gone
    uint32_t wanted = 0;
    uint32_t started = 0;
    bool known = false;  // to libuv
};

}  // namespace xfer
