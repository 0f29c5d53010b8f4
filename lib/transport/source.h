// SPDX-License-Identifier: Apache-2.0
// Where a newcomer comes from, as far as it can't choose: an IPv4 address, the /64 of an IPv6
// address, the user at the other end of a UNIX socket.
#pragma once

#include <cstdint>
#include <string>

namespace xfer {

struct Source {
    enum class Kind : uint8_t { ipv4, ipv6, user };

    bool operator==(const Source &other) const = default;

    Kind kind = Kind::user;
    uint64_t value = 0;  // in the byte order of the host
};

std::string to_string(const Source &source);

}  // namespace xfer
