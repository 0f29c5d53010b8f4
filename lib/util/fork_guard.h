// SPDX-License-Identifier: Apache-2.0
// Keeps a socket from the children that its process forks. A copy of it there would hide the end of
// the parent from its peers and keep the parent's port, for as long as the child lives. In the
// child another socket, connected to nobody, takes its number.
#pragma once

#include <mutex>

#include "util/list.h"

namespace xfer {

class ForkGuard : public ListNode<> {
public:
    ForkGuard() = default;
    ~ForkGuard() { drop(); }
    ForkGuard(const ForkGuard &) = delete;
    ForkGuard &operator=(const ForkGuard &) = delete;

    // In place of another; its owner keeps it until drop().
    void hold(int socket) {
        drop();
        const std::lock_guard lock(all_->mutex);
        socket_ = socket;
        all_->guards.push_back(*this);
    }
    void drop() {
        if (socket_ < 0) return;
        const std::lock_guard lock(all_->mutex);
        socket_ = -1;
        unlink();
    }

    static void begin_with_process();  // when the library is loaded

private:
    struct All {
        std::mutex mutex;
        List<ForkGuard> guards;
    };
    static void replace_all();

    static All *all_;  // never destroyed: a loop's thread may outlive the statics of its process

    int socket_ = -1;
};

}  // namespace xfer
