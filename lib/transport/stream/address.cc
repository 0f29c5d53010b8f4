// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "util/uri.h"

namespace xfer::stream {

std::string Address::uri() const {
    return uri_of(get(), size);
}

void Address::set_port(uint16_t port) {
    in_port_t net = htons(port);
    std::memcpy(reinterpret_cast<char *>(&storage) + offsetof(sockaddr_in, sin_port), &net,
                sizeof net);
}

bool Address::is_loopback() const {
    if (storage.ss_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, &storage, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (storage.ss_family != AF_INET6) return false;
    sockaddr_in6 in6;
    std::memcpy(&in6, &storage, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

Result<Address> numeric_address(const std::string &host, uint16_t port) {
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

Address unix_address(const std::string &path) {
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    path.copy(un.sun_path, sizeof un.sun_path - 1);
    Address address;
    std::memcpy(&address.storage, &un, sizeof un);
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return address;
}

Address local_address(int fd) {
    Address address;
    address.size = sizeof address.storage;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&address.storage), &address.size) != 0)
        address.size = 0;
    return address;
}

}  // namespace xfer::stream
