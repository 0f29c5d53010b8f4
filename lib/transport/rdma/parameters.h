// SPDX-License-Identifier: Apache-2.0
// What one end of a queue pair has to know of the other: where it is, and what it takes. Told as
// signals of a path (transport/attached_path.h).
#pragma once

#include <cstdint>
#include <span>

#include "transport/rdma/port.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer::rdma {

struct QueuePairParameters {
    static constexpr size_t kSize = 32;

    PortAddress address;
    uint32_t number = 0;           // of the queue pair, 24 bits
    uint32_t sequence_number = 0;  // of the first packet that it sends, 24 bits
    uint8_t reads_in = 0;          // RDMA reads and atomics that it serves at once

    void encode(std::span<uint8_t, kSize> to) const;
    // XFER_EPROTO of what no end that keeps the protocol would say; the words name the field.
    static Result<QueuePairParameters> decode(std::span<const uint8_t, kSize> from);
};

// What both ends can do, computed alike by either.
struct AgreedParameters {
    ibv_mtu mtu{};
    uint8_t reads_out = 0;  // that this end begins at once
    bool by_gid = false;    // a global route header: always on Ethernet
};

// XFER_EUNREACHABLE if the ports are on links of different kinds.
Result<AgreedParameters> agree(const Port &port, const QueuePairParameters &other);

}  // namespace xfer::rdma
