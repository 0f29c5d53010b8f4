// SPDX-License-Identifier: Apache-2.0
// Sockets as channels use them: never blocking, never inherited, never waiting for more to send.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "transport/source.h"
#include "transport/stream/address.h"
#include "util/fd.h"
#include "util/status.h"

namespace xfer::stream {

// `mode`: what the file of a UNIX socket has at most from its beginning.
Result<Fd> listen_at(const Address &address, mode_t mode = 0);
// What became of it can be asked when the socket is writable.
Result<Fd> start_connect(const Address &address);
bool readable(int fd);      // now
bool writable(int fd);      // now
int connect_error(int fd);  // 0: connected; EINPROGRESS: not yet
// The next peer; errno says why there is none.
Fd accept_from(int listener, Address &peer);
Source source_of(int fd, const Address &peer);
void tune(int fd, const Address &peer);
bool is_stream(int fd);

// Throws away what has arrived, so that closing the socket ends the connection without a reset.
void discard_arrived(int fd);
// Bytes that a reset would take back: of TCP, those that the peer's host has not said to have.
int unacknowledged(int fd);
// While TCP waits for an acknowledgement: the time since its peer last sent one, of whatever. Not
// while that has no room and says so, as the host of a process that does not read.
std::optional<uint32_t> unacknowledged_ms(int fd);

}  // namespace xfer::stream
