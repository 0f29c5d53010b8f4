// SPDX-License-Identifier: Apache-2.0
// What two ends of a queue pair tell each other, and what they make of it.
#include "transport/rdma/parameters.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string_view>

using namespace xfer;
using namespace xfer::rdma;

namespace {

using Bytes32 = std::array<uint8_t, QueuePairParameters::kSize>;

ibv_gid gid(uint8_t network, uint8_t host) {
    ibv_gid made{};
    made.raw[0] = 0xfe;
    made.raw[7] = network;
    made.raw[15] = host;
    return made;
}

QueuePairParameters some(LinkLayer layer = LinkLayer::ethernet) {
    QueuePairParameters made;
    made.address = {layer, 0, gid(0, 1), IBV_MTU_2048};
    if (layer == LinkLayer::infiniband) made.address = {layer, 0x1234, gid(0, 1), IBV_MTU_2048};
    made.number = 0xabcdef;
    made.sequence_number = 0x123456;
    made.reads_in = 16;
    return made;
}

Bytes32 encoded(const QueuePairParameters &parameters) {
    Bytes32 bytes;
    parameters.encode(bytes);
    return bytes;
}

Port port(LinkLayer layer, ibv_mtu mtu, uint8_t network = 0) {
    Port made;
    made.name = "fake0:1";
    made.address = {layer, 7, gid(network, 9), mtu};
    made.limits.reads_out = 4;
    return made;
}

}  // namespace

TEST_CASE("what is said is what is heard") {
    for (const LinkLayer layer : {LinkLayer::infiniband, LinkLayer::ethernet}) {
        const QueuePairParameters said = some(layer);
        auto heard = QueuePairParameters::decode(encoded(said));
        REQUIRE(heard);
        CHECK(heard->address.layer == layer);
        CHECK(heard->address.lid == said.address.lid);
        CHECK(heard->address.mtu == said.address.mtu);
        CHECK(heard->number == said.number);
        CHECK(heard->sequence_number == said.sequence_number);
        CHECK(heard->reads_in == said.reads_in);
        CHECK(encoded(*heard) == encoded(said));
    }
}

TEST_CASE("what no end would say is refused, by the name of what is wrong") {
    const struct {
        LinkLayer layer;
        size_t at;
        std::array<uint8_t, 4> bytes;
        size_t count;
        std::string_view words;
    } table[] = {
        {LinkLayer::ethernet, 0, {0}, 1, "version"},
        {LinkLayer::ethernet, 0, {2}, 1, "version"},
        {LinkLayer::ethernet, 1, {2}, 1, "link"},
        {LinkLayer::ethernet, 2, {0}, 1, "MTU"},
        {LinkLayer::ethernet, 2, {6}, 1, "MTU"},
        {LinkLayer::ethernet, 4, {0, 0, 0, 0}, 4, "number"},
        {LinkLayer::ethernet, 4, {1, 0, 0, 0}, 4, "number"},
        {LinkLayer::ethernet, 4, {0, 0, 0, 1}, 4, "number"},
        {LinkLayer::ethernet, 8, {0, 0, 0, 1}, 4, "sequence"},
        {LinkLayer::infiniband, 12, {0, 0}, 2, "LID"},
        {LinkLayer::infiniband, 12, {0, 0xc0}, 2, "LID"},
    };
    for (const auto &row : table) {
        Bytes32 bytes = encoded(some(row.layer));
        std::copy_n(row.bytes.begin(), row.count, bytes.begin() + static_cast<ptrdiff_t>(row.at));
        auto heard = QueuePairParameters::decode(bytes);
        CAPTURE(row.words);
        REQUIRE_FALSE(heard);
        CHECK(heard.error().status == XFER_EPROTO);
        CHECK(std::string_view(heard.error().message).find(row.words) != std::string_view::npos);
    }
    QueuePairParameters nowhere = some();
    nowhere.address.gid = {};
    CHECK_FALSE(QueuePairParameters::decode(encoded(nowhere)));
}

TEST_CASE("100,000 random messages: what is heard keeps the bounds") {
    std::mt19937_64 random(1);
    int heard = 0;
    for (int round = 0; round < 100'000; ++round) {
        Bytes32 bytes = encoded(some(round % 2 ? LinkLayer::infiniband : LinkLayer::ethernet));
        for (uint64_t changes = 1 + random() % 3; changes; --changes)
            bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
        auto made = QueuePairParameters::decode(bytes);
        if (!made) continue;
        ++heard;
        CHECK(made->number >= 2);
        CHECK(made->number < 1u << 24);
        CHECK(made->sequence_number < 1u << 24);
        CHECK(made->address.mtu >= IBV_MTU_256);
        CHECK(made->address.mtu <= IBV_MTU_4096);
    }
    CHECK(heard > 10'000);
}

TEST_CASE("both take the smaller of what they can") {
    for (const ibv_mtu ours : {IBV_MTU_1024, IBV_MTU_4096})
        for (const ibv_mtu theirs : {IBV_MTU_1024, IBV_MTU_2048}) {
            QueuePairParameters other = some();
            other.address.mtu = theirs;
            auto agreed = agree(port(LinkLayer::ethernet, ours), other);
            REQUIRE(agreed);
            CHECK(agreed->mtu == std::min(ours, theirs));
        }
    for (const uint8_t reads : {0, 3, 4, 200}) {
        QueuePairParameters other = some();
        other.reads_in = reads;
        auto agreed = agree(port(LinkLayer::ethernet, IBV_MTU_1024), other);
        REQUIRE(agreed);
        CHECK(agreed->reads_out == std::min<int>(reads, 4));
    }
}

TEST_CASE("by LID within a subnet, by GID between subnets and on Ethernet") {
    for (const uint8_t network : {0, 1}) {
        auto agreed =
            agree(port(LinkLayer::infiniband, IBV_MTU_1024, network), some(LinkLayer::infiniband));
        REQUIRE(agreed);
        CHECK(agreed->by_gid == (network == 1));
    }
    QueuePairParameters without = some(LinkLayer::infiniband);
    without.address.gid = {};
    auto agreed = agree(port(LinkLayer::infiniband, IBV_MTU_1024, 1), without);
    REQUIRE(agreed);
    CHECK_FALSE(agreed->by_gid);
    agreed = agree(port(LinkLayer::ethernet, IBV_MTU_1024), some());
    REQUIRE(agreed);
    CHECK(agreed->by_gid);
}

TEST_CASE("ports on links of two kinds do not reach each other") {
    for (const LinkLayer layer : {LinkLayer::infiniband, LinkLayer::ethernet}) {
        const bool ethernet = layer == LinkLayer::ethernet;
        auto agreed = agree(port(layer, IBV_MTU_1024),
                            some(ethernet ? LinkLayer::infiniband : LinkLayer::ethernet));
        REQUIRE_FALSE(agreed);
        CHECK(agreed.error().status == XFER_EUNREACHABLE);
        CHECK(std::string_view(agreed.error().message).find("fake0:1") != std::string_view::npos);
    }
}
