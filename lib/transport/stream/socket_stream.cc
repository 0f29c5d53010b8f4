// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/socket_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "transport/stream/socket.h"
#include "util/tsan_ignore.h"

namespace xfer::stream {

namespace {

msghdr message_of(std::span<const iovec> vectors) {
    msghdr message{};
    message.msg_iov = const_cast<iovec *>(vectors.data());
    message.msg_iovlen = std::min<size_t>(vectors.size(), IOV_MAX);
    return message;
}

}  // namespace

ssize_t SocketStream::write(std::span<const iovec> from) {
    const TsanIgnore copies;
    const msghdr message = message_of(from);
    const int more = corked_ ? MSG_MORE : 0;
    return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | more);
}

ssize_t SocketStream::read(std::span<const iovec> into) {
    const TsanIgnore copies;
    if (fd_.distrusted()) return read_bytes_only(into);
    msghdr message = message_of(into);
    return ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
}

// To receive a descriptor is to close it, here and now, where nobody asked for it. So it is looked
// first whether one is among the bytes; if so nothing is received any more.
ssize_t SocketStream::read_bytes_only(const iovec &into) {
    msghdr look = message_of({&into, 1});
    const ssize_t size = ::recvmsg(fd_.get(), &look, MSG_PEEK | MSG_DONTWAIT);
    if (size <= 0) return size;
    if (look.msg_flags & MSG_CTRUNC) {
        errno = EBADMSG;
        return -1;
    }
    return ::recv(fd_.get(), into.iov_base, static_cast<size_t>(size), MSG_DONTWAIT);
}

// What ends it is met again by the next read.
ssize_t SocketStream::read_bytes_only(std::span<const iovec> into) {
    ssize_t total = 0;
    for (const iovec &vector : into) {
        if (vector.iov_len == 0) continue;
        const ssize_t size = read_bytes_only(vector);
        if (size <= 0) return total > 0 ? total : size;
        total += size;
        if (static_cast<size_t>(size) < vector.iov_len) break;
    }
    return total;
}

bool SocketStream::delivered() const {
    return unacknowledged(fd_.get()) == 0;
}

std::optional<uint32_t> SocketStream::unacknowledged_ms() const {
    return stream::unacknowledged_ms(fd_.get());
}

void SocketStream::end() {
    watch_.reset();
    if (!fd_.distrusted()) discard_arrived(fd_.get());
    fork_guard_.drop();
    fd_.reset();
}

Fd SocketStream::release() {
    watch_.reset();
    fork_guard_.drop();
    return std::move(fd_);
}

}  // namespace xfer::stream
