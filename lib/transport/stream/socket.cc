// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/socket.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "util/peer_user.h"
#include "util/tsan_ignore.h"

namespace xfer::stream {

namespace {

constexpr int kBacklog = 1024;
// Last resort for peers that vanish without a word; the engine's heartbeats notice earlier.
constexpr int kKeepaliveSeconds = 30;
constexpr int kKeepaliveProbes = 3;
constexpr unsigned kUserTimeoutMs = 60'000;
// Of a peer that has no room: one may be lost on a good way.
constexpr uint8_t kUnansweredProbes = 2;
// Measured: tests/bench/README.md.
constexpr int kLoopbackSendBytes = 512 * 1024;  // of payload; the kernel doubles it

template <typename T>
bool set_option(int fd, int level, int option, T value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

Result<Fd> open_socket(const Address &address) {
    Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return os_failure(errno, address.uri() + ": socket");
    if (address.family() == AF_UNIX) take_descriptors(fd.get(), false);
    return fd;
}

// Whoever is at the other end of TCP can't send descriptors along. Urgent bytes come in line, so
// that a look ahead sees what comes with them.
void distrust_others(Fd &fd, const Address &peer) {
    if (peer.family() != AF_UNIX || is_same_user(fd.get())) return;
    if (take_descriptors(fd.get(), false)) return;  // as it was from its beginning
    fd.distrust();
    set_option(fd.get(), SOL_SOCKET, SO_OOBINLINE, 1);
}

bool is_ready(int fd, short for_what) {
    pollfd ask{fd, for_what, 0};
    return ::poll(&ask, 1, 0) == 1;
}

}  // namespace

// A connection without these is still a connection.
void tune(int fd, const Address &peer) {
    const bool path = peer.family() == AF_UNIX;
    if (!path) set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (path || peer.is_loopback()) {
        // Of TCP the kernel would let it grow until what is copied in has left the caches when it
        // is copied out; of a UNIX socket it would leave it small. That a peer on this host has
        // died, the kernel knows without asking.
        set_option(fd, SOL_SOCKET, SO_SNDBUF, kLoopbackSendBytes);
        return;
    }
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds / kKeepaliveProbes);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Result<Fd> listen_at(const Address &address, mode_t mode) {
    Result<Fd> fd = open_socket(address);
    if (!fd) return fd;
    set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (mode && ::fchmod(fd->get(), mode) != 0) return os_failure(errno, address.uri() + ": chmod");
    if (::bind(fd->get(), address.get(), address.size) != 0)
        return os_failure(errno, address.uri() + ": bind");
    if (::listen(fd->get(), kBacklog) != 0) return os_failure(errno, address.uri() + ": listen");
    return fd;
}

Result<Fd> start_connect(const Address &address) {
    Result<Fd> fd = open_socket(address);
    if (!fd) return fd;
    tune(fd->get(), address);
    if (::connect(fd->get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
        return os_failure(errno, address.uri() + ": connect");
    distrust_others(*fd, address);
    return fd;
}

bool readable(int fd) {
    return is_ready(fd, POLLIN);
}

bool writable(int fd) {
    return is_ready(fd, POLLOUT);
}

int connect_error(int fd) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    if (error != 0) return error;
    Address peer, self = local_address(fd);
    peer.size = sizeof peer.storage;
    if (getpeername(fd, reinterpret_cast<sockaddr *>(&peer.storage), &peer.size) != 0)
        return errno == ENOTCONN ? EINPROGRESS : errno;
    // With nobody listening, a port that the system chose for us may be the very one that we dial.
    bool self_connected =
        peer.size == self.size && std::memcmp(&peer.storage, &self.storage, peer.size) == 0;
    return self_connected ? ECONNREFUSED : 0;
}

Fd accept_from(int listener, Address &peer) {
    peer.size = sizeof peer.storage;
    Fd fd(::accept4(listener, reinterpret_cast<sockaddr *>(&peer.storage), &peer.size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) distrust_others(fd, peer);
    return fd;
}

Source source_of(int fd, const Address &peer) {
    if (peer.family() == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &peer.storage, sizeof in);
        return {Source::Kind::ipv4, ntohl(in.sin_addr.s_addr)};
    }
    if (peer.family() == AF_INET6) {
        sockaddr_in6 in6;
        std::memcpy(&in6, &peer.storage, sizeof in6);
        uint64_t value = 0;
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
        for (size_t i = 0; i < 8; ++i)
            value = value << 8 | in6.sin6_addr.s6_addr[mapped ? 8 + i : i];
        if (mapped) return {Source::Kind::ipv4, value & UINT32_MAX};
        return {Source::Kind::ipv6, value};
    }
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
    return {Source::Kind::user, who.uid};
}

bool is_stream(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

void discard_arrived(int fd) {
    // TCP drops, without copying, what it would have received. A UNIX socket knows nothing of this,
    // and needs not: after a reset too the peer is handed what we have sent.
    constexpr size_t kAny = 1 << 30;
    const TsanIgnore nowhere;
    ::recv(fd, nullptr, kAny, MSG_TRUNC | MSG_DONTWAIT);
}

int unacknowledged(int fd) {
    int protocol = 0, bytes = 0;
    socklen_t size = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return 0;
    return protocol == IPPROTO_TCP && ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

std::optional<uint32_t> unacknowledged_ms(int fd) {
    tcp_info info{};
    info.tcpi_snd_wnd = 1;  // of a kernel before 5.4, which does not tell
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
    const bool waits = info.tcpi_unacked > 0 && info.tcpi_snd_wnd > 0;
    if (!waits && info.tcpi_probes < kUnansweredProbes) return std::nullopt;
    return info.tcpi_last_ack_recv;
}

}  // namespace xfer::stream
