// SPDX-License-Identifier: Apache-2.0
// A packet between the queue pairs of two ends, which carry a byte stream by sends: its header and
// its bytes, in memory that both the processor and the adapter use.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/rdma/packet_window.h"
#include "wire/bytes.h"

namespace xfer::rdma {

constexpr uint32_t kPacketBytes = 4096;  // with the header; no MTU is larger
// Words of no data on their way: two at most, as each stands for half of a window, and a probe.
constexpr uint32_t kPacketWords = 4;
constexpr uint32_t kPacketReceives = kPacketWindow + kPacketWords;

struct PacketHeader {
    static constexpr uint32_t kSize = 24;
    enum class Kind : uint8_t { data = 1, word = 2, probe = 3 };

    Kind kind{};
    uint16_t length = 0;  // of data, at least 1
    uint64_t number = 0;  // of data; else 0
    uint64_t taken = 0;   // what this end has taken of the other one's, in packets
};

constexpr uint32_t kPacketData = kPacketBytes - PacketHeader::kSize;

void encode(const PacketHeader &header, uint8_t *to);
// Of a packet of a peer's, whatever it is; nothing: no end of ours sends it. A probe fills it.
std::optional<PacketHeader> decode_packet(ConstBytes packet);

struct alignas(kPacketBytes) PacketMemory {
    uint8_t out[kPacketWindow][kPacketBytes];
    uint8_t in[kPacketReceives][kPacketBytes];
    uint8_t probe[kPacketBytes];
    uint8_t words[kPacketWords][64];
};

}  // namespace xfer::rdma
