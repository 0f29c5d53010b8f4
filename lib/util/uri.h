// SPDX-License-Identifier: Apache-2.0
// Addresses of engines: tcp://host:port, tcp://host:low-high, tcp://[v6]:port, unix:///path,
// shm://name. tcp://*:port and tcp://:port are tcp://0.0.0.0:port, every interface.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "util/status.h"

namespace xfer {

struct Uri {
    std::string scheme;      // tcp, unix or shm
    std::string host;        // tcp: a name or an address, IPv6 without its brackets; shm: a name
    uint16_t port_low = 0;   // tcp; 0: let the system choose, for listening only
    uint16_t port_high = 0;  // equal to port_low unless a range was given
    std::string path;        // unix: absolute
};

// XFER_EADDR for what is malformed, XFER_EUNSUPPORTED for a scheme that is none of ours. Looks
// nothing up.
Result<Uri> parse_uri(std::string_view text);

std::string to_string(const Uri &uri);

// Lists of addresses have commas between them; no address has one.
std::vector<std::string> split_list(std::string_view list);
std::string join_list(const std::vector<std::string> &parts);

// Whether a peer can be there: one host and one port, neither of those that mean any.
bool is_dialable(const Uri &uri);

// Whether only this host can reach it: unix, shm, localhost, 127.0.0.0/8, ::1.
bool is_loopback(const Uri &uri);

// The URI of a socket's address; empty if it has none that can be written as one.
std::string uri_of(const sockaddr *address, socklen_t size);

}  // namespace xfer
