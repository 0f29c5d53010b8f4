// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of a link, there and back: a connected socket, or a pair of rings. It is
// made with a WatchSink, which it tells of what was wanted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "util/fd.h"

namespace xfer::stream {

class Carrier {
public:
    virtual ~Carrier() = default;
    // Without waiting: the bytes that went, or -1 and errno. EAGAIN: none now. 0 read: the end.
    virtual ssize_t write(std::span<const iovec> from) = 0;
    virtual ssize_t read(std::span<const iovec> into) = 0;
    virtual void want(uint32_t readiness) = 0;  // from now on; see Watch
    // What is written from here on may wait for end(), and go with it.
    virtual void cork() {}
    // Nothing is read any more; what was written still arrives.
    virtual void end() = 0;
    virtual Fd release() = 0;  // for another loop; null: it can't go there
};

}  // namespace xfer::stream
