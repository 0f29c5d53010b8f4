// SPDX-License-Identifier: Apache-2.0
// What a peer says of its queue pair: read back as it was written, and nothing else believed.
#include "transport/rdma/parameters.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr size_t kSize = QueuePairParameters::kSize;

ibv_gid make_gid(uint8_t last) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[15] = last;
    return gid;
}

QueuePairParameters roce() {
    return {.layer = LinkLayer::ethernet,
            .mtu = IBV_MTU_4096,
            .reads_in = 16,
            .lid = 0,
            .qpn = 0x12345,
            .psn = 0xabcdef,
            .gid = make_gid(7)};
}

QueuePairParameters infiniband() {
    return {.layer = LinkLayer::infiniband,
            .mtu = IBV_MTU_1024,
            .reads_in = 255,
            .lid = 0xbfff,
            .qpn = 0xff'fffe,
            .psn = 0,
            .gid = {}};
}

bool same(const QueuePairParameters &a, const QueuePairParameters &b) {
    return a.layer == b.layer && a.mtu == b.mtu && a.reads_in == b.reads_in && a.lid == b.lid &&
           a.qpn == b.qpn && a.psn == b.psn && std::memcmp(a.gid.raw, b.gid.raw, 16) == 0;
}

Status status_of(ConstBytes bytes) {
    const auto read = decode_queue_pair_parameters(bytes);
    return read ? XFER_OK : read.error().status;
}

}  // namespace

TEST_CASE("parameters are read as they were written") {
    for (const QueuePairParameters &parameters : {roce(), infiniband()}) {
        auto read = decode_queue_pair_parameters(encode(parameters));
        REQUIRE(read);
        CHECK(same(*read, parameters));
    }
    QueuePairParameters with_both = infiniband();
    with_both.gid = make_gid(1);
    CHECK(status_of(encode(with_both)) == XFER_OK);
}

TEST_CASE("the bytes are those of version 1") {
    const uint8_t expected[kSize] = {1, 1,    5,    16,   0,    0,    0, 0, 0x45, 0x23, 0x01,
                                     0, 0xef, 0xcd, 0xab, 0,    0,    0, 0, 0,    0,    0,
                                     0, 0,    0,    0,    0xff, 0xff, 0, 0, 0,    7};
    const auto bytes = encode(roce());
    CHECK(std::memcmp(bytes.data(), expected, kSize) == 0);
}

TEST_CASE("bytes that are cut, or go on") {
    const auto bytes = encode(roce());
    for (size_t size = 0; size < kSize; ++size)
        CHECK(status_of(ConstBytes(bytes).first(size)) == XFER_EPROTO);
    std::vector<uint8_t> longer(bytes.begin(), bytes.end());
    longer.push_back(0);
    CHECK(status_of(longer) == XFER_EPROTO);
}

TEST_CASE("another version is told apart from nonsense, whatever its length") {
    std::vector<uint8_t> bytes(100, 0);
    for (const uint8_t version : {0, 2, 255}) {
        bytes[0] = version;
        CHECK(status_of(bytes) == XFER_EVERSION);
    }
}

TEST_CASE("what no queue pair has is refused") {
    const std::vector<std::function<void(QueuePairParameters &)>> wrongs = {
        [](auto &p) { p.mtu = static_cast<ibv_mtu>(0); },
        [](auto &p) { p.mtu = static_cast<ibv_mtu>(6); },
        [](auto &p) { p.qpn = 0; },
        [](auto &p) { p.qpn = 1; },
        [](auto &p) { p.qpn = 0xff'ffff; },
        [](auto &p) { p.qpn = 0x100'0002; },
        [](auto &p) { p.psn = 0x100'0000; },
        [](auto &p) { p.gid = {}, p.lid = 0; },
        [](auto &p) { p.gid.raw[0] = 0xff; },
        [](auto &p) { p.lid = 0xc000; },
    };
    for (const QueuePairParameters &right : {roce(), infiniband()})
        for (size_t i = 0; i < wrongs.size(); ++i) {
            CAPTURE(i);
            QueuePairParameters wrong = right;
            wrongs[i](wrong);
            CHECK(status_of(encode(wrong)) == XFER_EPROTO);
        }
    QueuePairParameters no_gid = roce();
    no_gid.gid = {};
    no_gid.lid = 5;
    CHECK(status_of(encode(no_gid)) == XFER_EPROTO);
    QueuePairParameters no_lid = infiniband();
    no_lid.lid = 0;
    no_lid.gid = make_gid(1);
    CHECK(status_of(encode(no_lid)) == XFER_EPROTO);
    auto bytes = encode(roce());
    bytes[1] = 2;
    CHECK(status_of(bytes) == XFER_EPROTO);
    for (const size_t at : {6, 7}) {
        bytes = encode(roce());
        bytes[at] = 1;
        CHECK(status_of(bytes) == XFER_EPROTO);
    }
    bytes = encode(roce());
    bytes[2] = 200;
    CHECK(status_of(bytes) == XFER_EPROTO);
}

TEST_CASE("whatever is read of random bytes could have been written") {
    std::mt19937 random(1);
    int read = 0;
    for (int i = 0; i < 200'000; ++i) {
        auto bytes = encode(random() % 2 ? roce() : infiniband());
        for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes)
            bytes[random() % kSize] = static_cast<uint8_t>(random());
        const ConstBytes some = ConstBytes(bytes).first(random() % 8 ? kSize : random() % kSize);
        auto got = decode_queue_pair_parameters(some);
        if (!got) continue;
        ++read;
        CHECK(encode(*got) == bytes);
    }
    CHECK(read > 10'000);
}
