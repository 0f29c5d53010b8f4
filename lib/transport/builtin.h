// SPDX-License-Identifier: Apache-2.0
// The transports that this build has. Only builtin.cc knows all of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/attached_path.h"
#include "transport/rdma_options.h"
#include "transport/transport.h"
#include "util/log.h"
#include "util/status.h"

namespace xfer {

std::string builtin_names();  // with commas
// The first name of a comma list that no transport has; empty if there is none.
std::string unknown_transport(std::string_view list);
// Bit 1 << XFER_TRANSPORT_* of those that `allowed` names, all if it is empty.
uint64_t builtin_mask(const std::vector<std::string> &allowed);
// The same, but for loopback and what makes no channels.
std::vector<std::unique_ptr<Transport>> builtin_transports(Loop &loop, const Log &log,
                                                           const std::vector<std::string> &allowed);
// What makes paths beside channels.
std::vector<std::unique_ptr<Fabric>> builtin_fabrics(Loop &loop, const Log &log,
                                                     const std::vector<std::string> &allowed,
                                                     const RdmaOptions &options);
// The path of an engine to itself; null if `allowed` leaves it out.
bool has_loopback(const std::vector<std::string> &allowed);
std::unique_ptr<Channel> builtin_loopback(Loop &loop, const std::vector<std::string> &allowed);
// Whether adapters can be used, if there are any.
bool has_rdma();
// XFER_EINVAL with what is wrong in a list of adapters, as xfer/rdma.h has it; without RDMA nothing
// is. May throw.
Failure check_rdma_devices(std::string_view devices);

}  // namespace xfer
