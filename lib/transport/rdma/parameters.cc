// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/parameters.h"

#include <algorithm>
#include <cstring>

namespace xfer::rdma {

namespace {

constexpr uint8_t kVersion = 1;
constexpr uint32_t kNumbers = 1u << 24;
constexpr uint16_t kUnicastLids = 0xc000;  // and 0 is none

bool is_none(const ibv_gid &gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t b) { return b == 0; });
}

Failure wrong(const char *field) {
    return {XFER_EPROTO, XFER_ORIGIN_PEER, 0, Text("the peer's queue pair: ") + field};
}

}  // namespace

// version, layer, MTU, reads; number (4), sequence number (4), LID (2), zero (2), GID (16).
void QueuePairParameters::encode(std::span<uint8_t, kSize> to) const {
    std::fill(to.begin(), to.end(), uint8_t{0});
    to[0] = kVersion;
    to[1] = static_cast<uint8_t>(address.layer);
    to[2] = static_cast<uint8_t>(address.mtu);
    to[3] = reads_in;
    store<uint32_t>(&to[4], number);
    store<uint32_t>(&to[8], sequence_number);
    store<uint16_t>(&to[12], address.lid);
    std::memcpy(&to[16], address.gid.raw, sizeof address.gid.raw);
}

Result<QueuePairParameters> QueuePairParameters::decode(std::span<const uint8_t, kSize> from) {
    QueuePairParameters made;
    if (from[0] != kVersion) return wrong("its version is not known");
    if (from[1] > static_cast<uint8_t>(LinkLayer::ethernet)) return wrong("its link is not known");
    if (from[2] < IBV_MTU_256 || from[2] > IBV_MTU_4096) return wrong("its MTU is none");
    made.address.layer = static_cast<LinkLayer>(from[1]);
    made.address.mtu = static_cast<ibv_mtu>(from[2]);
    made.reads_in = from[3];
    made.number = load<uint32_t>(&from[4]);
    made.sequence_number = load<uint32_t>(&from[8]);
    made.address.lid = load<uint16_t>(&from[12]);
    std::memcpy(made.address.gid.raw, &from[16], sizeof made.address.gid.raw);
    // 0 and 1 are the queue pairs of the subnet's management.
    if (made.number < 2 || made.number >= kNumbers) return wrong("its number is none");
    if (made.sequence_number >= kNumbers) return wrong("its sequence number has more than 24 bits");
    const bool infiniband = made.address.layer == LinkLayer::infiniband;
    if (infiniband && (made.address.lid == 0 || made.address.lid >= kUnicastLids))
        return wrong("its LID is none of a port");
    if (!infiniband && is_none(made.address.gid)) return wrong("it has no GID");
    return made;
}

// On InfiniBand a LID is of one subnet: ports of different ones are routed by their GIDs.
Result<AgreedParameters> agree(const Port &port, const QueuePairParameters &other) {
    if (port.address.layer != other.address.layer)
        return Failure{XFER_EUNREACHABLE, XFER_ORIGIN_NONE, 0,
                       Text("port ") + port.name + " and the peer's are on links of two kinds"};
    AgreedParameters agreed;
    agreed.mtu = std::min(port.address.mtu, other.address.mtu);
    agreed.reads_out = std::min(port.limits.reads_out, other.reads_in);
    agreed.by_gid = port.address.layer == LinkLayer::ethernet ||
                    (!is_none(other.address.gid) &&
                     std::memcmp(port.address.gid.raw, other.address.gid.raw, 8) != 0);
    return agreed;
}

}  // namespace xfer::rdma
