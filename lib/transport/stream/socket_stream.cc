// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/socket_stream.h"

#include <sys/socket.h>

#include <algorithm>
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
    msghdr message = message_of(into);
    return ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
}

bool SocketStream::delivered() const {
    return unacknowledged(fd_.get()) == 0;
}

void SocketStream::end() {
    watch_.reset();
    discard_arrived(fd_.get());
    fd_.reset();
}

Fd SocketStream::release() {
    watch_.reset();
    return std::move(fd_);
}

}  // namespace xfer::stream
