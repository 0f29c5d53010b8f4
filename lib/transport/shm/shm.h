// SPDX-License-Identifier: Apache-2.0
// Shared memory as a transport: processes of one user on one host, which find each other by a name
// in the kernel's own space (shm://name).
#pragma once

#include <memory>

#include "transport/transport.h"
#include "util/log.h"

namespace xfer {

std::unique_ptr<Transport> make_shm(Loop &loop, const Log &log);

}  // namespace xfer
