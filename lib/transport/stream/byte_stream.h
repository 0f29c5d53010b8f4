// SPDX-License-Identifier: Apache-2.0
// What carries the bytes of a channel, there and back: a connected socket, or a pair of rings. It
// is made with a WatchSink, which it tells of what was wanted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "transport/path.h"
#include "util/fd.h"
#include "wire/limits.h"

namespace xfer::stream {

class ByteStream {
public:
    virtual ~ByteStream() = default;
    virtual Scope scope() const = 0;  // how far the other end is
    // A write is no system call: nothing is gained by writing more at once.
    virtual bool direct() const { return false; }
    // Of control frames that wait: with more the channel stops to read until they have left.
    virtual size_t pause_at() const { return kControlPause; }
    // Without waiting: the bytes that went, or -1 and errno. EAGAIN: none now. 0 read: the end.
    virtual ssize_t write(std::span<const iovec> from) = 0;
    virtual ssize_t read(std::span<const iovec> into) = 0;
    virtual void want(uint32_t readiness) = 0;  // from now on; see Watch
    // What is written from here on may wait for end(), and go with it.
    virtual void cork() {}
    // False: end() could lose some of what was written, as the peer's host has not said to have it.
    virtual bool delivered() const { return true; }
    // While the peer's host is to acknowledge something: the milliseconds since it last did. Null:
    // nothing is.
    virtual std::optional<uint32_t> unacknowledged_ms() const { return std::nullopt; }
    // Nothing is read any more.
    virtual void end() = 0;
    virtual Fd release() = 0;  // for another loop; null: it can't go there
};

}  // namespace xfer::stream
