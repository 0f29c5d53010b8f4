// SPDX-License-Identifier: Apache-2.0
// TCP sockets as links use them: never blocking, never inherited, never waiting for more to send.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "util/fd.h"
#include "util/status.h"

namespace xfer::tcp {

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
    std::string uri() const;
    void set_port(uint16_t port);
};

// Of a numeric host, which may name a zone (fe80::1%eth0). Looks nothing up.
Result<Address> address_of(const std::string &host, uint16_t port);

Result<Fd> listen_at(const Address &address);
// What became of it can be asked when the socket is writable.
Result<Fd> start_connect(const Address &address);
bool writable(int fd);      // now
int connect_error(int fd);  // 0: connected; EINPROGRESS: not yet
// The next peer; errno says why there is none.
Fd accept_from(int listener, Address &peer);

// Where a listener is, for peers to dial: in place of a wildcard an address of this host.
Result<std::string> dialable_uri(int listener);

// Throws away what has arrived, so that closing the socket ends the connection without a reset.
void discard_arrived(int fd);

}  // namespace xfer::tcp
