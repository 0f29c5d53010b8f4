// SPDX-License-Identifier: Apache-2.0
// An engine that is its own peer: a channel whose other end is its own sink. What is sent comes
// back, and operations are checked like a peer's, then copied.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace xfer {

std::unique_ptr<Channel> make_loopback_channel(Loop &loop);

}  // namespace xfer
