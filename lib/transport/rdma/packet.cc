// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/packet.h"

namespace xfer::rdma {

// kind, zero (5), length (2), number (8), taken (8).
void encode(const PacketHeader &header, uint8_t *to) {
    store<uint64_t>(to, static_cast<uint64_t>(header.kind) | uint64_t{header.length} << 48);
    store<uint64_t>(to + 8, header.number);
    store<uint64_t>(to + 16, header.taken);
}

std::optional<PacketHeader> decode_packet(ConstBytes packet) {
    if (packet.size() < PacketHeader::kSize) return std::nullopt;
    const auto first = load<uint64_t>(packet.data());
    PacketHeader header;
    header.kind = static_cast<PacketHeader::Kind>(first & 0xff);
    header.length = static_cast<uint16_t>(first >> 48);
    header.number = load<uint64_t>(&packet[8]);
    header.taken = load<uint64_t>(&packet[16]);
    if (first >> 8 & 0xff'ffff'ffff) return std::nullopt;
    const bool is_bare = header.length == 0 && header.number == 0;
    switch (header.kind) {
    case PacketHeader::Kind::data:
        if (header.length == 0 || packet.size() != PacketHeader::kSize + header.length)
            return std::nullopt;
        return header;
    case PacketHeader::Kind::word:
        if (!is_bare || packet.size() != PacketHeader::kSize) return std::nullopt;
        return header;
    case PacketHeader::Kind::probe:
        if (!is_bare || packet.size() != kPacketBytes) return std::nullopt;
        return header;
    }
    return std::nullopt;
}

}  // namespace xfer::rdma
