// SPDX-License-Identifier: Apache-2.0
// What of a port changes while its device is open.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

struct PortState {
    PortAddress address;
    uint8_t gid_index = 0;
    uint16_t pkey_index = 0;
    uint64_t bits_per_second = 0;
    uint64_t message_bytes = 0;
};

// The state of a port that is ACTIVE and has an address; with the GID of that index, if one is
// wanted. The failure says why the port can't be used now. Needs no memory; the kernel is asked for
// each entry of the GID table.
Result<PortState> query_port_state(const Verbs &verbs, ibv_context *context, uint8_t port,
                                   std::optional<uint8_t> wanted_gid);

// Writes it into a port. Whether queue pairs that were made before have another address, or a
// partition or MTU that is no longer the port's.
bool update(Port &port, const PortState &state);

}  // namespace xfer::rdma
