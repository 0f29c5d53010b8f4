// SPDX-License-Identifier: Apache-2.0
// Ends the sleep of a loop that watches it. Shared, since who rings it may outlive the loop.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "util/fd.h"

namespace xfer {

class Bell {
public:
    Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    int fd() const { return fd_.get(); }  // -1: there is none, and errno says why
    // It is watched edge-triggered: nobody has to read it.
    void ring() const {
        const uint64_t one = 1;
        while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR)
            continue;
    }

private:
    const Fd fd_;
};

}  // namespace xfer
