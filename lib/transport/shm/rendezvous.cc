// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "util/peer_user.h"

namespace xfer::shm {

namespace {

constexpr int kBacklog = 1024;
#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;
#endif

struct Address {
    sockaddr_un un{};
    socklen_t size = 0;
    explicit Address(const std::string &name) {
        un.sun_family = AF_UNIX;
        name.copy(un.sun_path + 1, sizeof un.sun_path - 1);
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&un); }
};

Fd open_socket() {
    return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Before Linux 6.5 by its number, which the socket proves to be its own still: it is asked again
// whether it is there before anything is done with it.
Fd process_of(int socket, pid_t pid) {
    int fd = -1;
    socklen_t size = sizeof fd;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return Fd(fd);
    return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

Result<Fd> listen_at(const std::string &name) {
    Fd fd = open_socket();
    if (!fd) return os_failure(errno, "socket");
    const Address address(name);
    take_descriptors(fd.get(), false);
    if (::bind(fd.get(), address.get(), address.size) != 0) return os_failure(errno, "bind");
    if (::listen(fd.get(), kBacklog) != 0) return os_failure(errno, "listen");
    return fd;
}

Result<Fd> connect_to(const std::string &name) {
    Fd fd = open_socket();
    if (!fd) return os_failure(errno, "socket");
    const Address address(name);
    take_descriptors(fd.get(), false);
    if (::connect(fd.get(), address.get(), address.size) != 0) return os_failure(errno, "connect");
    if (!is_same_user(fd.get())) fd.distrust();
    return fd;
}

Fd accept_from(int listener) {
    return Fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Failure RendezvousSocket::meet() {
    if (!is_same_user(fd_.get())) {
        fd_.distrust();
        return {XFER_EACCESS, XFER_ORIGIN_NONE, 0, "another user"};
    }
    take_descriptors(fd_.get(), true);
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return os_failure(errno, "asking who is there");
    pid_ = who.pid;  // 0: of a name space that we can't see
    if (pid_ > 0) process_ = process_of(fd_.get(), pid_);
    return {};
}

bool RendezvousSocket::there() const {
    pollfd ask[2] = {{fd_.get(), POLLRDHUP, 0}, {process_.get(), POLLIN, 0}};
    return process_ && ::poll(ask, 2, 0) == 0;
}

bool RendezvousSocket::gone() const {
    pollfd ask[2] = {{fd_.get(), POLLRDHUP, 0}, {process_.get(), POLLIN, 0}};
    return ::poll(ask, 2, 0) > 0;
}

int RendezvousSocket::send(ConstBytes bytes, std::span<const int> fds) {
    iovec vector{const_cast<uint8_t *>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(kMaxPacketFds * sizeof(int))] = {};
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    while (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

bool RendezvousSocket::ring() {
    while (::send(fd_.get(), kBell, sizeof kBell, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == ENOMEM || errno == ENOBUFS) return false;
        if (errno != EINTR) return true;  // who is gone is told by reading
    }
    return true;
}

int RendezvousSocket::receive(Packet &packet) {
    packet.fds.clear();
    packet.fds.reserve(kMaxPacketFds + 1);  // held at once; padding has room for one more
    uint8_t bytes[kMaxPacket];  // most packets have one byte: the rest is not worth zeroing
    iovec vector{bytes, sizeof bytes};
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(kMaxPacketFds * sizeof(int))];
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t size;
    // A reset (the other end was closed with packets unread) is told once, before what was sent.
    while ((size = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0)
        if (errno != EINTR && errno != ECONNRESET) return errno;
    for (cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            packet.fds.emplace_back(fd);
        }
    }
    packet.bytes.assign(bytes, bytes + size);
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return EBADMSG;
    return size == 0 ? EPIPE : 0;
}

}  // namespace xfer::shm
