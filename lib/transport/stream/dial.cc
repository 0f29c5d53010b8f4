// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/dial.h"

#include <cerrno>
#include <utility>

#include "transport/stream/socket.h"
#include "transport/stream/socket_stream.h"

namespace xfer::stream {

void Dial::add(const std::vector<std::string> &hosts, uint16_t port) {
    last_ = {XFER_ENAME, XFER_ORIGIN_NONE, 0, remote_ + ": the name has no address"};
    for (const std::string &host : hosts) {
        if (auto address = numeric_address(host, port))
            addresses_.push_back(*address);
        else
            last_ = address.error();
    }
}

bool Dial::begin_next() {
    while (has_next())
        if (begin(addresses_[next_++])) return true;
    return !attempts_.empty();
}

bool Dial::begin(const Address &address) {
    Result<Fd> fd = start_connect(address);
    if (!fd) {
        last_ = fd.error();
        return false;
    }
    Attempt &made = attempts_.emplace_back(std::move(*fd));
    // On one host it is connected already: its first readiness is that of the connection.
    const bool there = writable(made.fd.get());
    made.watch = loop_.watch(made.fd.get(), watching_, there ? kReadable : kWritable);
    if (made.watch && there) loop_.defer(soon_);
    if (made.watch) return true;
    attempts_.pop_back();
    last_ = {XFER_ENOMEM, XFER_ORIGIN_NONE, 0, remote_ + ": the loop takes no more descriptors"};
    return false;
}

// Any of the attempts may be what is ready.
std::unique_ptr<ByteStream> Dial::connected(bool &failed) {
    for (auto at = attempts_.begin(); at != attempts_.end();) {
        const int error = connect_error(at->fd.get());
        if (error == 0)
            return std::make_unique<SocketStream>(std::move(at->fd), std::move(at->watch));
        if (error == EINPROGRESS) {
            (at++)->watch->want(kWritable);
            continue;
        }
        failed = true;
        last_ = os_failure(error, remote_ + ": connect");
        log_.debug("{}", last_.message);
        at = attempts_.erase(at);
    }
    return nullptr;
}

// Whatever the system calls it, there is no way there; but what is missing here is not the peer's
// doing.
Failure Dial::why() const {
    Failure why = last_;
    if (why.status != XFER_ENOFILES && why.status != XFER_ENOMEM && why.status != XFER_ENAME)
        why.status = XFER_EUNREACHABLE;
    return why;
}

}  // namespace xfer::stream
