// SPDX-License-Identifier: Apache-2.0
// What the other side must know of a queue pair before the two are connected, and its bytes, which
// ride on the channel as offer and answer.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <string>

#include "transport/rdma/port.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer::rdma {

constexpr uint32_t kPsnMask = 0xff'ffff, kQpnMask = 0xff'ffff;

struct QueuePairParameters {
    static constexpr size_t kSize = 32;

    LinkLayer layer = LinkLayer::ethernet;
    ibv_mtu mtu = IBV_MTU_1024;
    uint8_t reads_in = 0;  // RDMA reads and atomics under way that it serves
    uint16_t lid = 0;      // 0: none, only on Ethernet
    uint32_t qpn = 0;      // of 24 bits, as the next
    uint32_t psn = 0;      // of the first packet that it sends
    ibv_gid gid{};         // all 0: none, only on InfiniBand
};

bool is_none(const ibv_gid &gid);
PortAddress address_of(const QueuePairParameters &parameters);
// As "::ffff:10.0.0.1, queue pair 17" or "LID 5, queue pair 17".
std::string to_text(const QueuePairParameters &parameters);

std::array<uint8_t, QueuePairParameters::kSize> encode(const QueuePairParameters &parameters);
// Of a peer's bytes, whatever they are: XFER_EVERSION of a version that is unknown, XFER_EPROTO of
// what no queue pair has. What it names may still not exist.
Result<QueuePairParameters> decode_queue_pair_parameters(ConstBytes bytes);

}  // namespace xfer::rdma
