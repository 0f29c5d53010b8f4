// SPDX-License-Identifier: Apache-2.0
// Addresses of sockets: of a host and a port, or of a path.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "util/status.h"

namespace xfer::stream {

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
    sa_family_t family() const { return storage.ss_family; }
    std::string uri() const;
    bool is_loopback() const;  // 127.0.0.0/8, ::1
    void set_port(uint16_t port);
};

// Of a numeric host, which may name a zone (fe80::1%eth0). Looks nothing up.
Result<Address> numeric_address(const std::string &host, uint16_t port);
Address unix_address(const std::string &path);  // as parse_uri() lets it pass
Address local_address(int fd);                  // of no size if there is none

}  // namespace xfer::stream
