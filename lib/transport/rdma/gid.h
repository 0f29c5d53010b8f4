// SPDX-License-Identifier: Apache-2.0
// Which entry of a port's GID table its queue pairs use.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "transport/rdma/port.h"
#include "util/status.h"

namespace xfer::rdma {

// On Ethernet RoCE v2 before v1, as routers forward only that; then IPv4, then IPv6, then what is
// valid on the link alone. On InfiniBand, and of equals, the lowest index. If an index is wanted,
// it is that one or none. The failure says why none serves. Needs no memory.
Result<ibv_gid_entry> choose_gid(std::span<const ibv_gid_entry> table, LinkLayer layer,
                                 std::optional<uint8_t> wanted);

}  // namespace xfer::rdma
