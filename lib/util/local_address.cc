// SPDX-License-Identifier: Apache-2.0
#include "util/local_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>

#include "util/fd.h"

namespace xfer {

// The kernel is asked by binding a datagram socket to any port: nothing listens meanwhile, and it
// knows of addresses that stand in no list of interfaces.
Failure check_local_address(const Uri &uri) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo *found = nullptr;
    if (::getaddrinfo(uri.host.c_str(), nullptr, &hints, &found) != 0 || !found)
        return {XFER_EADDR, XFER_ORIGIN_NONE, 0,
                to_string(uri) + ": listening needs a numeric address or localhost"};
    const Fd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const bool bound = fd && ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
    const int error = bound ? 0 : errno;
    ::freeaddrinfo(found);
    if (bound || status_of_errno(error) != XFER_EADDR) return {};
    return os_failure(error, to_string(uri) + ": no address of this host");
}

}  // namespace xfer
