// SPDX-License-Identifier: Apache-2.0
// UNIX sockets as a transport: peers of one host that find each other by a path. Who may connect is
// what the mode of the file and of its folder say.
#pragma once

#include <memory>

#include "transport/transport.h"
#include "util/log.h"

namespace xfer {

std::unique_ptr<Transport> make_unix(Loop &loop, const Log &log);

}  // namespace xfer
