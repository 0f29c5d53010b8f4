// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace xfer {

// Whether the process that connected the other end of this UNIX socket, or listened there, runs as
// our user. False also for one that our user name space has no number for.
bool is_same_user(int socket);

}  // namespace xfer
