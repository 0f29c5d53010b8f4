// SPDX-License-Identifier: Apache-2.0
// Keeps a socket from the children that its process forks. A copy of it there would hide the end of
// the parent from its peers and keep the parent's port, for as long as the child lives. In the
// child another socket, connected to nobody, takes its number.
#pragma once

#include "util/list.h"

namespace xfer {

class ForkGuard : public ListNode<> {
public:
    ForkGuard() = default;
    ~ForkGuard() { drop(); }
    ForkGuard(const ForkGuard &) = delete;
    ForkGuard &operator=(const ForkGuard &) = delete;

    void hold(int socket);  // in place of another; its owner keeps it until drop()
    void drop();

    static void replace_all();  // in the child

private:
    int socket_ = -1;
};

}  // namespace xfer
