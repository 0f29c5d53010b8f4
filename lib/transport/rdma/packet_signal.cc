// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/packet_signal.h"

#include <algorithm>

namespace xfer::rdma {

namespace {

constexpr uint8_t kPacketSignalVersion = 1;
// version, kind, zero (2), generation (4); then the queue pair of an offer or answer; of a word:
// number (8); of a part: number (8), offset (2), length (2), zero (4), bytes.
constexpr size_t kPacketSignalHeader = 8;
constexpr size_t kOfferBytes = kPacketSignalHeader + QueuePairParameters::kSize;
constexpr size_t kWordBytes = kPacketSignalHeader + 8;
static_assert(PacketSignal::kPartHeader == kWordBytes + 8);

Failure malformed_packet_signal() {
    return {XFER_EPROTO, XFER_ORIGIN_PEER, 0,
            "a signal of the peer's byte stream by an adapter is malformed"};
}

bool is_part_of_packet(const PacketSignal &part) {
    return !part.bytes.empty() && part.length <= kPacketData &&
           part.offset + part.bytes.size() <= part.length;
}

Result<PacketSignal> decode_part(PacketSignal signal, ConstBytes bytes) {
    if (bytes.size() < PacketSignal::kPartHeader) return malformed_packet_signal();
    signal.number = load<uint64_t>(&bytes[8]);
    signal.offset = load<uint16_t>(&bytes[16]);
    signal.length = load<uint16_t>(&bytes[18]);
    signal.bytes = bytes.subspan(PacketSignal::kPartHeader);
    if (load<uint32_t>(&bytes[20]) || !is_part_of_packet(signal)) return malformed_packet_signal();
    return signal;
}

}  // namespace

PacketSignalBytes encode(const PacketSignal &signal) {
    using Kind = PacketSignal::Kind;
    uint8_t head[kOfferBytes] = {kPacketSignalVersion, static_cast<uint8_t>(signal.kind)};
    size_t size = kPacketSignalHeader;
    store<uint32_t>(head + 4, signal.generation);
    if (signal.kind == Kind::offer || signal.kind == Kind::answer) {
        const auto pair = encode(signal.queue_pair);
        std::copy(pair.begin(), pair.end(), head + kPacketSignalHeader);
        size = kOfferBytes;
    } else if (signal.kind == Kind::word || signal.kind == Kind::part) {
        store<uint64_t>(head + 8, signal.number);
        size = kWordBytes;
    }
    if (signal.kind == Kind::part) {
        store<uint16_t>(head + 16, signal.offset);
        store<uint16_t>(head + 18, signal.length);
        size = PacketSignal::kPartHeader;
    }
    PacketSignalBytes out;
    for (size_t i = 0; i < size; ++i)
        out.push_back(head[i]);
    for (const uint8_t byte : signal.bytes)
        out.push_back(byte);
    return out;
}

Result<PacketSignal> decode_packet_signal(ConstBytes bytes) {
    using Kind = PacketSignal::Kind;
    if (bytes.size() < kPacketSignalHeader) return malformed_packet_signal();
    if (bytes[0] != kPacketSignalVersion)
        return Failure{XFER_EVERSION, XFER_ORIGIN_PEER, bytes[0],
                       "the peer's adapter speaks another version"};
    PacketSignal signal;
    signal.kind = static_cast<Kind>(bytes[1]);
    signal.generation = load<uint32_t>(&bytes[4]);
    const bool of_pair = signal.kind < Kind::part;
    if (bytes[2] || bytes[3] || (signal.generation != 0) != of_pair)
        return malformed_packet_signal();
    switch (signal.kind) {
    case Kind::offer:
    case Kind::answer: {
        if (bytes.size() != kOfferBytes) return malformed_packet_signal();
        auto pair = decode_queue_pair_parameters(bytes.subspan(kPacketSignalHeader));
        if (!pair) return pair.error();
        signal.queue_pair = *pair;
        return signal;
    }
    case Kind::ready:
    case Kind::lost:
    case Kind::end:
        if (bytes.size() != kPacketSignalHeader) return malformed_packet_signal();
        return signal;
    case Kind::word:
        if (bytes.size() != kWordBytes) return malformed_packet_signal();
        signal.number = load<uint64_t>(&bytes[8]);
        return signal;
    case Kind::part:
        return decode_part(signal, bytes);
    }
    return malformed_packet_signal();
}

}  // namespace xfer::rdma
