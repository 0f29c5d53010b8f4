// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/dialable.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "transport/stream/address.h"

namespace xfer::tcp {

using stream::Address;

namespace {

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

// Those of this host that others may reach; with nothing but loopback, that.
std::vector<Address> host_addresses(int family) {
    ifaddrs *all = nullptr;
    getifaddrs(&all);
    std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> guard(all, [](ifaddrs *list) {
        if (list) freeifaddrs(list);
    });
    std::vector<Address> found;
    for (const ifaddrs *at = all; at; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP) ||
            (at->ifa_flags & IFF_LOOPBACK) || is_link_local(*at->ifa_addr))
            continue;
        Address address;
        address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        std::memcpy(&address.storage, at->ifa_addr, address.size);
        found.push_back(address);
    }
    if (found.empty())
        found.push_back(*stream::numeric_address(family == AF_INET ? "127.0.0.1" : "::1", 0));
    return found;
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

Result<std::vector<std::string>> dialable_uris(int listener) {
    Address bound = stream::local_address(listener);
    if (bound.size == 0) return os_failure(errno, "getsockname");
    if (!is_wildcard(bound)) return std::vector<std::string>{bound.uri()};
    std::vector<std::string> uris;
    for (Address &dialable : host_addresses(bound.storage.ss_family)) {
        dialable.set_port(port_of(bound));
        uris.push_back(dialable.uri());
    }
    return uris;
}

}  // namespace xfer::tcp
