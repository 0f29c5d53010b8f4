// SPDX-License-Identifier: Apache-2.0
// What the two ends of a path say to each other: read back as it was written, and nothing else
// believed.
#include "transport/rdma/signal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "wire/limits.h"

using namespace xfer;
using namespace xfer::rdma;
using Kind = Signal::Kind;
using Octets = std::vector<uint8_t>;

namespace {

constexpr size_t kHeader = 8, kPair = kHeader, kTable = kPair + QueuePairParameters::kSize;
static_assert(Signal::kMaxSize <= kMaxSignal);  // the channel takes it

Signal make(Kind kind) {
    Signal signal;
    signal.kind = kind;
    if (kind == Kind::done || kind == Kind::ready) return signal;
    signal.queue_pair.mtu = IBV_MTU_4096;
    signal.queue_pair.reads_in = 16;
    signal.queue_pair.qpn = 0x12345;
    signal.queue_pair.psn = 0xabcdef;
    signal.queue_pair.gid.raw[10] = signal.queue_pair.gid.raw[11] = 0xff;
    signal.queue_pair.gid.raw[15] = 7;
    signal.begun_address = 0x1122'3344'5566'7788;
    signal.begun_key = 0x99aa'bbcc;
    return signal;
}

Octets bytes_of(const Signal &signal) {
    const SignalBytes bytes = encode(signal);
    return {bytes.begin(), bytes.end()};
}

Status status_of(ConstBytes bytes) {
    const auto read = decode_signal(bytes);
    return read ? XFER_OK : read.error().status;
}

// Fields that are zero in this version.
bool is_zero_field(size_t at) {
    return (at >= 2 && at < kHeader) || at >= kTable + 12;
}

constexpr Kind kKinds[] = {Kind::offer, Kind::answer, Kind::done, Kind::ready};

}  // namespace

TEST_CASE("signals are read as they were written") {
    for (const Kind kind : kKinds) {
        const Signal signal = make(kind);
        auto read = decode_signal(bytes_of(signal));
        REQUIRE(read);
        CHECK(read->kind == kind);
        CHECK(encode(read->queue_pair) == encode(signal.queue_pair));
        CHECK(read->begun_address == signal.begun_address);
        CHECK(read->begun_key == signal.begun_key);
    }
}

TEST_CASE("limits of a table's address and key are read as they were written") {
    for (const uint64_t address : {uint64_t{0}, uint64_t{1}, UINT64_MAX})
        for (const uint32_t key : {0u, 1u, UINT32_MAX}) {
            Signal signal = make(Kind::offer);
            signal.begun_address = address, signal.begun_key = key;
            auto read = decode_signal(bytes_of(signal));
            REQUIRE(read);
            CHECK(read->begun_address == address);
            CHECK(read->begun_key == key);
        }
}

TEST_CASE("the bytes are those of version 1") {
    CHECK(bytes_of(make(Kind::done)) == Octets{1, 3, 0, 0, 0, 0, 0, 0});
    Octets expected = {1, 1, 0, 0, 0, 0, 0, 0};
    const auto pair = encode(make(Kind::offer).queue_pair);
    expected.insert(expected.end(), pair.begin(), pair.end());
    const Octets table = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                          0xcc, 0xbb, 0xaa, 0x99, 0,    0,    0,    0};
    expected.insert(expected.end(), table.begin(), table.end());
    CHECK(bytes_of(make(Kind::offer)) == expected);
    expected[1] = 2;
    CHECK(bytes_of(make(Kind::answer)) == expected);
}

TEST_CASE("bytes that are cut, or go on") {
    for (const Kind kind : kKinds) {
        const Octets bytes = bytes_of(make(kind));
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK(status_of(ConstBytes(bytes).first(size)) == XFER_EPROTO);
        Octets longer = bytes;
        while (longer.size() < kMaxSignal) {
            longer.push_back(0);
            CHECK(status_of(longer) == XFER_EPROTO);
        }
    }
}

TEST_CASE("another version is told apart from nonsense") {
    for (const Kind kind : kKinds)
        for (const uint8_t version : {0, 2, 255}) {
            Octets bytes = bytes_of(make(kind));
            bytes[0] = version;
            const auto read = decode_signal(bytes);
            REQUIRE_FALSE(read);
            CHECK(read.error().status == XFER_EVERSION);
            CHECK(read.error().native == version);
            CHECK(read.error().origin == XFER_ORIGIN_PEER);
        }
    Octets bytes = bytes_of(make(Kind::answer));
    bytes[kPair] = 2;  // of the queue pair's parameters
    CHECK(status_of(bytes) == XFER_EVERSION);
}

TEST_CASE("a kind that is none is refused, and so is one of another's length") {
    for (unsigned kind = 0; kind < 256; ++kind)
        for (const Kind of : kKinds) {
            Octets bytes = bytes_of(make(of));
            bytes[1] = static_cast<uint8_t>(kind);
            const bool is_short = kind >= 3;
            const bool fits = kind >= 1 && kind <= 4 && is_short == (of >= Kind::done);
            CHECK(status_of(bytes) == (fits ? XFER_OK : XFER_EPROTO));
        }
}

TEST_CASE("what no queue pair has is refused") {
    Signal signal = make(Kind::offer);
    signal.queue_pair.qpn = 0;
    CHECK(status_of(bytes_of(signal)) == XFER_EPROTO);
    signal = make(Kind::answer);
    signal.queue_pair.gid = {};
    CHECK(status_of(bytes_of(signal)) == XFER_EPROTO);
}

TEST_CASE("every byte with every value: what is read could have been written") {
    for (const Kind kind : kKinds) {
        const Octets right = bytes_of(make(kind));
        for (size_t at = 0; at < right.size(); ++at)
            for (unsigned value = 0; value < 256 && !is_zero_field(at); ++value) {
                Octets bytes = right;
                bytes[at] = static_cast<uint8_t>(value);
                auto read = decode_signal(bytes);
                if (!read) continue;
                if (bytes_of(*read) != bytes) FAIL_CHECK("byte ", at, " as ", value);
            }
    }
}

TEST_CASE("whatever is read of random bytes could have been written") {
    std::mt19937 random(1);
    int read = 0, wrong = 0;
    for (int i = 0; i < 200'000; ++i) {
        Octets bytes = bytes_of(make(kKinds[random() % 3]));
        for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
            bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
        for (size_t at = 0; at < bytes.size(); ++at)
            if (is_zero_field(at)) bytes[at] = 0;
        if (random() % 8 == 0) bytes.resize(random() % (2 * Signal::kMaxSize));
        auto got = decode_signal(bytes);
        if (!got) continue;
        ++read;
        wrong += bytes_of(*got) != bytes;
    }
    CHECK(wrong == 0);
    CHECK(read > 10'000);
}

TEST_CASE("fields that are zero in this version are refused where they are not") {
    for (const Kind kind : kKinds) {
        const Octets right = bytes_of(make(kind));
        for (size_t at = 0; at < right.size(); ++at) {
            if (!is_zero_field(at)) continue;
            Octets bytes = right;
            bytes[at] = 1;
            CHECK(status_of(bytes) == XFER_EPROTO);
        }
    }
}
