// SPDX-License-Identifier: Apache-2.0
// The socket between two neighbours: packets, each whole or not at all, and descriptors along with
// them. It proves who is at the other end, and its end is the end of everything that they share.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "util/fd.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer::shm {

constexpr size_t kMaxPacket = 8192, kMaxPacketFds = 1;

constexpr uint8_t kBell[] = {1};  // the packet that only wakes

struct Packet {
    bool is_bell() const { return bytes.size() == sizeof kBell && bytes[0] == kBell[0]; }
    std::vector<uint8_t> bytes;
    std::vector<Fd> fds;
};

// At abstract addresses: names in the kernel's own space, which end with their socket. They hold
// within a network name space, and are guarded by nothing.
Result<Fd> listen_at(const std::string &name);
Result<Fd> connect_to(const std::string &name);
Fd accept_from(int listener);

class RendezvousSocket {
public:
    explicit RendezvousSocket(Fd fd) : fd_(std::move(fd)) {}
    // Asks the kernel who is there. XFER_EACCESS: another user, who gets nothing of us.
    Failure meet();

    // 0, or errno. EAGAIN: not now.
    int send(ConstBytes bytes, std::span<const int> fds = {});
    // 0, or errno: EAGAIN, EPIPE (it was closed), EBADMSG (what nobody sends).
    int receive(Packet &packet);
    // Wakes the other end. Each end has a socket of its own, and each call says that it does not
    // wait, so that nothing the other end does makes this block. A queue that is full has packets
    // that are to be read, and each of them wakes. False: not now, for want of the kernel's memory.
    bool ring();
    // False of a process that has ended or has become another program: neither has this socket any
    // more.
    bool there() const;
    // Of which nothing runs any more; false also if nobody can tell.
    bool gone() const;
    pid_t pid() const { return pid_; }

    int process() const { return process_.get(); }  // readable when that has ended; -1: unknown
    int fd() const { return fd_.get(); }
    Fd release() { return std::move(fd_); }

private:
    Fd fd_, process_;
    pid_t pid_ = 0;
};

}  // namespace xfer::shm
