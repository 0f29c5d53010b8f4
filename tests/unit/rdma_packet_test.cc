// SPDX-License-Identifier: Apache-2.0
// The bytes of packets between queue pairs and of the signals beside them, with damage.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "transport/rdma/packet.h"
#include "transport/rdma/packet_signal.h"

using namespace xfer;
using namespace xfer::rdma;
using Octets = std::vector<uint8_t>;

namespace {

Octets packet_of(const PacketHeader &header, size_t size) {
    Octets bytes(size, 0);
    encode(header, bytes.data());
    return bytes;
}

QueuePairParameters some_pair() {
    QueuePairParameters pair;
    pair.layer = LinkLayer::ethernet;
    pair.mtu = IBV_MTU_4096;
    pair.reads_in = 4;
    pair.qpn = 17;
    pair.psn = 0x1234;
    pair.gid.raw[15] = 1;
    return pair;
}

Octets signal_bytes(const PacketSignal &signal) {
    const PacketSignalBytes bytes = encode(signal);
    return {bytes.begin(), bytes.end()};
}

PacketSignal signal_of(PacketSignal::Kind kind) {
    PacketSignal signal;
    signal.kind = kind;
    if (kind == PacketSignal::Kind::offer || kind == PacketSignal::Kind::answer)
        signal.queue_pair = some_pair();
    if (kind < PacketSignal::Kind::part)
        signal.generation = 3;
    else if (kind != PacketSignal::Kind::end)
        signal.number = 0x123456789a;
    return signal;
}

constexpr PacketSignal::Kind kBareKinds[] = {PacketSignal::Kind::offer, PacketSignal::Kind::answer,
                                             PacketSignal::Kind::ready, PacketSignal::Kind::lost,
                                             PacketSignal::Kind::word,  PacketSignal::Kind::end};

}  // namespace

TEST_CASE("a packet says what it is") {
    const PacketHeader data{PacketHeader::Kind::data, 5, 0x123456789, 77};
    const auto got = decode_packet(packet_of(data, PacketHeader::kSize + 5));
    REQUIRE(got);
    CHECK(got->kind == PacketHeader::Kind::data);
    CHECK(got->length == 5);
    CHECK(got->number == 0x123456789);
    CHECK(got->taken == 77);
    const PacketHeader full{PacketHeader::Kind::data, kPacketData, 1, 0};
    CHECK(decode_packet(packet_of(full, kPacketBytes)));
    CHECK(decode_packet(packet_of({PacketHeader::Kind::word, 0, 0, 9}, PacketHeader::kSize)));
    CHECK(decode_packet(packet_of({PacketHeader::Kind::probe, 0, 0, 0}, kPacketBytes)));
}

TEST_CASE("a packet that no end of ours sends is nothing") {
    using Kind = PacketHeader::Kind;
    const struct {
        PacketHeader header;
        size_t size;
    } wrong[] = {
        {{Kind::data, 0, 1, 0}, PacketHeader::kSize},            // of no bytes
        {{Kind::data, 5, 1, 0}, PacketHeader::kSize + 4},        // cut
        {{Kind::data, 5, 1, 0}, PacketHeader::kSize + 6},        // longer
        {{Kind::data, 65'535, 1, 0}, kPacketBytes},              // than a packet
        {{Kind::word, 0, 0, 0}, PacketHeader::kSize + 1},        // with bytes
        {{Kind::word, 1, 0, 0}, PacketHeader::kSize + 1},        // likewise
        {{Kind::word, 0, 1, 0}, PacketHeader::kSize},            // with a number
        {{Kind::probe, 0, 0, 0}, PacketHeader::kSize},           // that fills nothing
        {{Kind::probe, 0, 3, 0}, kPacketBytes},                  // with a number
        {{static_cast<Kind>(0), 0, 0, 0}, PacketHeader::kSize},  // of no kind
        {{static_cast<Kind>(4), 0, 0, 0}, PacketHeader::kSize},
    };
    for (const auto &[header, size] : wrong)
        CHECK_FALSE(decode_packet(packet_of(header, size)));
    for (size_t size = 0; size < PacketHeader::kSize; ++size)
        CHECK_FALSE(decode_packet(Octets(size, 2)));
    Octets word = packet_of({PacketHeader::Kind::word, 0, 0, 9}, PacketHeader::kSize);
    for (size_t at = 1; at < 6; ++at) {
        Octets damaged = word;
        damaged[at] = 1;
        CHECK_FALSE(decode_packet(damaged));
    }
}

TEST_CASE("signals survive the way there") {
    for (const PacketSignal::Kind kind : kBareKinds) {
        const PacketSignal signal = signal_of(kind);
        auto got = decode_packet_signal(signal_bytes(signal));
        REQUIRE(got);
        CHECK(got->kind == kind);
        CHECK(got->generation == signal.generation);
        CHECK(got->number == signal.number);
        CHECK(got->queue_pair.qpn == signal.queue_pair.qpn);
        CHECK(got->queue_pair.psn == signal.queue_pair.psn);
    }
    Octets data(PacketSignal::kPartBytes);
    for (size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<uint8_t>(i);
    PacketSignal part = signal_of(PacketSignal::Kind::part);
    part.offset = 1'000;
    part.length = 2'500;
    part.bytes = data;
    const Octets bytes = signal_bytes(part);
    CHECK(bytes.size() == kMaxSignal);
    auto got = decode_packet_signal(bytes);
    REQUIRE(got);
    CHECK(got->number == part.number);
    CHECK(got->offset == 1'000);
    CHECK(got->length == 2'500);
    CHECK(Octets(got->bytes.begin(), got->bytes.end()) == data);
}

TEST_CASE("of each signal no other length is taken, and no other version") {
    for (const PacketSignal::Kind kind : kBareKinds) {
        const Octets bytes = signal_bytes(signal_of(kind));
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK_FALSE(decode_packet_signal({bytes.data(), size}));
        Octets longer = bytes;
        longer.push_back(0);
        CHECK_FALSE(decode_packet_signal(longer));
        Octets newer = bytes;
        newer[0] = 2;
        auto got = decode_packet_signal(newer);
        REQUIRE_FALSE(got);
        CHECK(got.error().status == XFER_EVERSION);
        for (const size_t at : {size_t{2}, size_t{3}}) {
            Octets reserved = bytes;
            reserved[at] = 1;
            CHECK_FALSE(decode_packet_signal(reserved));
        }
        // Generations are from 1, and what is of none has none.
        Octets other = bytes;
        store<uint32_t>(&other[4], kind >= PacketSignal::Kind::part ? 1 : 0);
        CHECK_FALSE(decode_packet_signal(other));
    }
}

TEST_CASE("a part lies within its packet") {
    const Octets data(100, 7);
    const auto decodes = [&](uint16_t offset, uint16_t length, size_t bytes) {
        PacketSignal part = signal_of(PacketSignal::Kind::part);
        part.offset = offset, part.length = length;
        part.bytes = {data.data(), bytes};
        return static_cast<bool>(decode_packet_signal(signal_bytes(part)));
    };
    CHECK(decodes(0, 100, 100));
    CHECK(decodes(kPacketData - 1, kPacketData, 1));
    CHECK_FALSE(decodes(0, 100, 0));
    CHECK_FALSE(decodes(0, 99, 100));
    CHECK_FALSE(decodes(1, 100, 100));
    CHECK_FALSE(decodes(0, kPacketData + 1, 100));
    CHECK_FALSE(decodes(65'535, 65'535, 100));
}

TEST_CASE("no byte of a signal makes it anything else than a signal or an error") {
    for (const PacketSignal::Kind kind : kBareKinds) {
        const Octets bytes = signal_bytes(signal_of(kind));
        for (size_t at = 0; at < bytes.size(); ++at)
            for (int value = 0; value < 256; ++value) {
                Octets damaged = bytes;
                damaged[at] = static_cast<uint8_t>(value);
                auto got = decode_packet_signal(damaged);
                if (!got) CHECK(got.error().status != XFER_OK);
            }
    }
}
