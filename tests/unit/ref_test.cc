// SPDX-License-Identifier: Apache-2.0
#include "wire/ref.h"

#include <doctest/doctest.h>

#include <bit>
#include <random>

using namespace xfer;

namespace {

RemoteRegion some_region() {
    RemoteRegion region;
    for (size_t at = 0; at < region.id.size(); at++)
        region.id[at] = static_cast<uint8_t>(at + 1);
    region.incarnation = 0x1111111111111112;
    region.region = 0x2222222222222223;
    region.key = 0x3333333333333334;
    region.offset = 0x4444444444444445;
    region.length = 0x5555555555555556;
    region.generation = 0x66666667;
    region.access = XFER_READ | XFER_WRITE;
    region.kind = XFER_MEM_CUDA;
    return region;
}

Status decoded(const xfer_ref_t &ref) {
    Result<RemoteRegion> region = decode_ref(ref);
    return region ? XFER_OK : region.error().status;
}

void check_same(const RemoteRegion &a, const RemoteRegion &b) {
    CHECK(a.id == b.id);
    CHECK(a.incarnation == b.incarnation);
    CHECK(a.region == b.region);
    CHECK(a.key == b.key);
    CHECK(a.offset == b.offset);
    CHECK(a.length == b.length);
    CHECK(a.generation == b.generation);
    CHECK(a.access == b.access);
    CHECK(a.kind == b.kind);
}

}  // namespace

TEST_CASE("a ref carries every member") {
    for (RemoteRegion region : {some_region(), RemoteRegion{}}) {
        Result<RemoteRegion> got = decode_ref(encode_ref(region));
        REQUIRE(got);
        check_same(*got, region);
    }
}

TEST_CASE("the bytes of version 1 never change") {
    const xfer_ref_t ref = encode_ref(some_region());
    const uint8_t start[] = {'x', 'r', 'e', 'f', 1, 0, 0, 0, 1, 2, 3, 4};
    CHECK(std::equal(std::begin(start), std::end(start), ref.bytes));
    CHECK(load<uint64_t>(ref.bytes + 24) == 0x1111111111111112);
    CHECK(load<uint64_t>(ref.bytes + 32) == 0x2222222222222223);
    CHECK(load<uint64_t>(ref.bytes + 40) == 0x3333333333333334);
    CHECK(load<uint64_t>(ref.bytes + 48) == 0x4444444444444445);
    CHECK(load<uint64_t>(ref.bytes + 56) == 0x5555555555555556);
    CHECK(load<uint32_t>(ref.bytes + 64) == 0x66666667);
    CHECK(load<uint32_t>(ref.bytes + 68) == (XFER_READ | XFER_WRITE));
    CHECK(load<uint32_t>(ref.bytes + 72) == XFER_MEM_CUDA);
    CHECK(load<uint64_t>(ref.bytes + 88) == 0xce12835b9205845c);
}

TEST_CASE("a change of any bit is seen") {
    RemoteRegion region = some_region();
    for (uint32_t access : {region.access, region.access | XFER_ATOMIC}) {
        region.access = access;
        const xfer_ref_t good = encode_ref(region);
        for (size_t bit = 0; bit < 96 * 8; bit++) {
            CAPTURE(access);
            CAPTURE(bit);
            xfer_ref_t ref = good;
            ref.bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
            const bool later = load<uint32_t>(ref.bytes + 4) > 2;
            CHECK(decoded(ref) == (later ? XFER_EVERSION : XFER_EINVAL));
        }
    }
}

// Who knows no atomics refuses them as later, and goes on to read all others.
TEST_CASE("a ref has version 2 if it allows atomics, and no other has") {
    const auto reseal = [](xfer_ref_t &ref) {
        uint64_t sum = 0;
        for (size_t at = 0; at < 88; at += 8)
            sum = std::rotl((sum ^ load<uint64_t>(ref.bytes + at)) * 0x9e3779b97f4a7c15u, 29);
        store<uint64_t>(ref.bytes + 88, sum);
    };
    RemoteRegion region = some_region();
    for (uint32_t access = 0; access < 8; access++) {
        CAPTURE(access);
        region.access = access;
        xfer_ref_t ref = encode_ref(region);
        const uint32_t version = access & XFER_ATOMIC ? 2 : 1;
        CHECK(load<uint32_t>(ref.bytes + 4) == version);
        CHECK(decoded(ref) == XFER_OK);
        store<uint32_t>(ref.bytes + 4, 3 - version);
        reseal(ref);
        CHECK(decoded(ref) == XFER_EINVAL);
    }
}

TEST_CASE("what was never a ref") {
    xfer_ref_t ref{};
    CHECK(decoded(ref) == XFER_EINVAL);
    std::fill(std::begin(ref.bytes), std::end(ref.bytes), uint8_t{0xff});
    CHECK(decoded(ref) == XFER_EINVAL);
    std::mt19937_64 random(5);
    for (int round = 0; round < 100000; round++) {
        for (uint8_t &byte : ref.bytes)
            byte = static_cast<uint8_t>(random());
        REQUIRE(decoded(ref) == XFER_EINVAL);
    }
}

TEST_CASE("a later version is told apart, whatever else it holds") {
    xfer_ref_t ref = encode_ref(some_region());
    store<uint32_t>(ref.bytes + 4, 3);
    CHECK(decoded(ref) == XFER_EVERSION);
    std::fill(ref.bytes + 8, ref.bytes + 96, uint8_t{0xff});
    CHECK(decoded(ref) == XFER_EVERSION);
    store<uint32_t>(ref.bytes + 4, UINT32_MAX);
    CHECK(decoded(ref) == XFER_EVERSION);
}

TEST_CASE("ranges and accesses at and past their bounds") {
    RemoteRegion region = some_region();
    region.offset = UINT64_MAX - region.length;
    CHECK(decoded(encode_ref(region)) == XFER_OK);
    region.offset++;
    CHECK(decoded(encode_ref(region)) == XFER_EINVAL);
    region = some_region();
    for (uint32_t access = 0; access <= (XFER_READ | XFER_WRITE | XFER_ATOMIC); access++) {
        region.access = access;
        CHECK(decoded(encode_ref(region)) == XFER_OK);
    }
    region.access = XFER_ATOMIC << 1;
    CHECK(decoded(encode_ref(region)) == XFER_EINVAL);
    region.access = 1u << 31;
    CHECK(decoded(encode_ref(region)) == XFER_EINVAL);
}
