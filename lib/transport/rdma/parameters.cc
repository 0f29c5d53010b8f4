// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/parameters.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace xfer::rdma {

namespace {

constexpr uint8_t kVersion = 1;
constexpr uint16_t kFirstMulticastLid = 0xc000;
// Queue pairs 0 and 1 are those of management, and the last number is of multicast.
constexpr uint32_t kFirstQpn = 2, kMulticastQpn = kQpnMask;

// Offsets of the fields. What is left between them is 0.
struct At {
    static constexpr size_t version = 0, layer = 1, mtu = 2, reads_in = 3, lid = 4, qpn = 8,
                            psn = 12, gid = 16;
};

Failure malformed(const char *why) {
    return {XFER_EPROTO, XFER_ORIGIN_PEER, 0, Text("parameters of a queue pair: ") + why};
}

const char *why_not(const QueuePairParameters &read) {
    if (read.mtu < IBV_MTU_256 || read.mtu > IBV_MTU_4096) return "no such MTU";
    if (read.qpn < kFirstQpn || read.qpn >= kMulticastQpn) return "no queue pair has that number";
    if (read.psn > kPsnMask) return "the packet number has more than 24 bits";
    if (read.gid.raw[0] == 0xff) return "the GID is of multicast";
    if (read.lid >= kFirstMulticastLid) return "the LID is of multicast";
    if (read.layer == LinkLayer::ethernet && is_none(read.gid)) return "RoCE without a GID";
    if (read.layer == LinkLayer::infiniband && read.lid == 0) return "InfiniBand without a LID";
    return nullptr;
}

}  // namespace

bool is_none(const ibv_gid &gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t byte) { return !byte; });
}

PortAddress address_of(const QueuePairParameters &parameters) {
    return {.layer = parameters.layer,
            .lid = parameters.lid,
            .gid = parameters.gid,
            .mtu = parameters.mtu};
}

std::string to_text(const QueuePairParameters &parameters) {
    char address[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET6, parameters.gid.raw, address, sizeof address);
    const bool by_lid = parameters.layer == LinkLayer::infiniband;
    return (by_lid ? "LID " + std::to_string(parameters.lid) : std::string(address)) +
           ", queue pair " + std::to_string(parameters.qpn);
}

std::array<uint8_t, QueuePairParameters::kSize> encode(const QueuePairParameters &parameters) {
    std::array<uint8_t, QueuePairParameters::kSize> out{};
    out[At::version] = kVersion;
    out[At::layer] = static_cast<uint8_t>(parameters.layer);
    out[At::mtu] = static_cast<uint8_t>(parameters.mtu);
    out[At::reads_in] = parameters.reads_in;
    store(&out[At::lid], parameters.lid);
    store(&out[At::qpn], parameters.qpn);
    store(&out[At::psn], parameters.psn);
    std::memcpy(&out[At::gid], parameters.gid.raw, sizeof parameters.gid.raw);
    return out;
}

Result<QueuePairParameters> decode_queue_pair_parameters(ConstBytes bytes) {
    if (bytes.empty()) return malformed("no bytes");
    if (bytes[At::version] != kVersion)
        return Failure{XFER_EVERSION, XFER_ORIGIN_PEER, bytes[At::version],
                       "parameters of a queue pair: a version that is unknown"};
    if (bytes.size() != QueuePairParameters::kSize) return malformed("not as long as they are");
    if (load<uint16_t>(&bytes[At::lid + 2]))
        return malformed("a field that is not of this version");
    if (bytes[At::layer] > static_cast<uint8_t>(LinkLayer::ethernet))
        return malformed("no such link layer");
    QueuePairParameters read;
    read.layer = static_cast<LinkLayer>(bytes[At::layer]);
    read.mtu = static_cast<ibv_mtu>(std::min<uint8_t>(bytes[At::mtu], IBV_MTU_4096 + 1));
    read.reads_in = bytes[At::reads_in];
    read.lid = load<uint16_t>(&bytes[At::lid]);
    read.qpn = load<uint32_t>(&bytes[At::qpn]);
    read.psn = load<uint32_t>(&bytes[At::psn]);
    std::memcpy(read.gid.raw, &bytes[At::gid], sizeof read.gid.raw);
    if (const char *const why = why_not(read)) return malformed(why);
    return read;
}

}  // namespace xfer::rdma
