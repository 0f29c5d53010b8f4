// SPDX-License-Identifier: Apache-2.0
// TCP as a transport: the only one that every pair of hosts has.
#pragma once

#include <memory>

#include "transport/transport.h"
#include "util/log.h"

namespace xfer {

std::unique_ptr<Transport> make_tcp(Loop &loop, const Log &log);

}  // namespace xfer
