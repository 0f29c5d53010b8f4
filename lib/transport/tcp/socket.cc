// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "util/uri.h"

namespace xfer::tcp {

namespace {

constexpr int kBacklog = 1024;
// Last resort for peers that vanish without a word; the engine's heartbeats notice earlier.
constexpr int kKeepaliveSeconds = 30;
constexpr int kKeepaliveProbes = 3;
constexpr unsigned kUserTimeoutMs = 60'000;
// Measured: tests/bench/README.md.
constexpr int kLoopbackSendBytes = 512 * 1024;  // of payload; the kernel doubles it

template <typename T>
bool set_option(int fd, int level, int option, T value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

Result<Fd> open_socket(const Address &address) {
    Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return os_failure(errno, address.uri() + ": socket");
    return fd;
}

bool is_loopback(const Address &address) {
    if (address.storage.ss_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &address.storage, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    sockaddr_in6 in6;
    std::memcpy(&in6, &address.storage, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

// None of these can fail on a TCP socket; a connection without them is still a connection.
void tune(int fd, const Address &peer) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (is_loopback(peer)) {
        // The kernel would let it grow until what is copied in has left the caches when it is
        // copied out. That a peer on this host has died, the kernel knows without asking.
        set_option(fd, SOL_SOCKET, SO_SNDBUF, kLoopbackSendBytes);
        return;
    }
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds / kKeepaliveProbes);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Address local_address(int fd) {
    Address address;
    address.size = sizeof address.storage;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&address.storage), &address.size) != 0)
        address.size = 0;
    return address;
}

bool is_wildcard(const Address &address) {
    if (address.storage.ss_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &address.storage, sizeof in);
        return in.sin_addr.s_addr == htonl(INADDR_ANY);
    }
    sockaddr_in6 in;
    std::memcpy(&in, &address.storage, sizeof in);
    return IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr);
}

bool is_link_local(const sockaddr &address) {
    if (address.sa_family != AF_INET6) return false;
    sockaddr_in6 in;
    std::memcpy(&in, &address, sizeof in);
    return IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr);
}

// An address of this host that others may reach; with nothing but loopback, that.
Address host_address(int family) {
    ifaddrs *all = nullptr;
    getifaddrs(&all);
    std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> guard(all, [](ifaddrs *list) {
        if (list) freeifaddrs(list);
    });
    for (const ifaddrs *at = all; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP) ||
            (at->ifa_flags & IFF_LOOPBACK) || is_link_local(*at->ifa_addr))
            continue;
        Address address;
        address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        std::memcpy(&address.storage, at->ifa_addr, address.size);
        return address;
    }
    return *address_of(family == AF_INET ? "127.0.0.1" : "::1", 0);
}

uint16_t port_of(const Address &address) {
    in_port_t port;  // at the same place in both families
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    std::memcpy(&port,
                reinterpret_cast<const char *>(&address.storage) + offsetof(sockaddr_in, sin_port),
                sizeof port);
    return ntohs(port);
}

}  // namespace

std::string Address::uri() const {
    return uri_of(get(), size);
}

void Address::set_port(uint16_t port) {
    in_port_t net = htons(port);
    std::memcpy(reinterpret_cast<char *>(&storage) + offsetof(sockaddr_in, sin_port), &net,
                sizeof net);
}

Result<Address> address_of(const std::string &host, uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0 || !found)
        return Failure{XFER_EADDR, XFER_ORIGIN_NONE, 0, host + ": not a numeric address"};
    Address address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.size = found->ai_addrlen;
    freeaddrinfo(found);
    address.set_port(port);
    return address;
}

Result<Fd> listen_at(const Address &address) {
    Result<Fd> fd = open_socket(address);
    if (!fd) return fd;
    set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
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
    return fd;
}

bool writable(int fd) {
    pollfd ask{fd, POLLOUT, 0};
    return ::poll(&ask, 1, 0) == 1;
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
    if (fd) tune(fd.get(), peer);
    return fd;
}

Result<std::string> dialable_uri(int listener) {
    Address bound = local_address(listener);
    if (bound.size == 0) return os_failure(errno, "getsockname");
    if (!is_wildcard(bound)) return bound.uri();
    Address dialable = host_address(bound.storage.ss_family);
    dialable.set_port(port_of(bound));
    return dialable.uri();
}

void discard_arrived(int fd) {
    // TCP drops, without copying, what it would have received.
    constexpr size_t kAny = 1 << 30;
    ::recv(fd, nullptr, kAny, MSG_TRUNC | MSG_DONTWAIT);
}

}  // namespace xfer::tcp
