// SPDX-License-Identifier: Apache-2.0
// RDMA: paths through adapters, by libibverbs.
#pragma once

#include <memory>

#include "loop/loop.h"
#include "transport/attached_path.h"
#include "transport/rdma_options.h"
#include "util/log.h"

namespace xfer::rdma {

// Of the adapters that the options let in. Where there are none, or no libibverbs, it says so. May
// block; may throw.
std::unique_ptr<Fabric> make_rdma(Loop &loop, const Log &log, const RdmaOptions &options);

}  // namespace xfer::rdma
