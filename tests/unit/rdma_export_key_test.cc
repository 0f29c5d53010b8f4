// SPDX-License-Identifier: Apache-2.0
// By what a peer's adapter is reached: read back as it was written, and nothing else believed.
#include "transport/rdma/export_key.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace xfer;
using namespace xfer::rdma;
using Octets = std::vector<uint8_t>;

namespace {

constexpr size_t kHeader = 32;
constexpr uint32_t kAll = XFER_READ | XFER_WRITE | XFER_ATOMIC;

RegionKeys make(size_t parts, uint64_t part_bytes = 4096, uint64_t last = 1) {
    RegionKeys region;
    region.base = 0x7f00'1122'3344'5000;
    region.length = (parts - 1) * part_bytes + last;
    region.part_bytes = part_bytes;
    region.access = XFER_READ | XFER_WRITE;
    for (size_t i = 0; i < parts; ++i)
        region.keys.push_back(0xaabb'cc00 + static_cast<uint32_t>(i));
    return region;
}

Octets bytes_of(const RegionKeys &region) {
    const ExportKey key = encode(region);
    return {key.begin(), key.end()};
}

bool same(const RegionKeys &a, const RegionKeys &b) {
    return a.base == b.base && a.length == b.length && a.part_bytes == b.part_bytes &&
           a.access == b.access &&
           std::equal(a.keys.begin(), a.keys.end(), b.keys.begin(), b.keys.end());
}

bool is_read(const RegionKeys &region) {
    return decode_region_keys(bytes_of(region)).has_value();
}

}  // namespace

TEST_CASE("keys of one part, of some, and of as many as there can be are read as written") {
    for (const size_t parts : {size_t{1}, size_t{2}, size_t{16}, kMaxParts})
        for (const uint64_t last : {1, 4095, 4096}) {
            const RegionKeys region = make(parts, 4096, last);
            const auto read = decode_region_keys(bytes_of(region));
            REQUIRE(read);
            CHECK(same(*read, region));
        }
}

TEST_CASE("the largest ranges and all kinds of access are read as written") {
    RegionKeys region = make(1, UINT64_MAX, UINT64_MAX);
    region.base = 0;
    CHECK(is_read(region));
    region.length = region.part_bytes = 1;
    region.base = UINT64_MAX;  // its last byte is the last of all
    CHECK(is_read(region));
    region = make(kMaxParts, UINT64_MAX / kMaxParts, UINT64_MAX / kMaxParts);
    region.base = UINT64_MAX - (region.length - 1);
    CHECK(is_read(region));
    for (uint32_t access = 0; access <= kAll; ++access) {
        if (access & ~kAll) continue;
        region = make(3);
        region.access = access;
        const auto read = decode_region_keys(bytes_of(region));
        REQUIRE(read);
        CHECK(read->access == access);
    }
}

TEST_CASE("the bytes are those of version 1") {
    RegionKeys region = make(2, 0x1000, 0x234);
    const Octets expected = {1,    2,    0,    0,    3,    0,    0,    0,    0,    0x50,
                             0x44, 0x33, 0x22, 0x11, 0x00, 0x7f, 0x34, 0x12, 0,    0,
                             0,    0,    0,    0,    0,    0x10, 0,    0,    0,    0,
                             0,    0,    0,    0xcc, 0xbb, 0xaa, 1,    0xcc, 0xbb, 0xaa};
    CHECK(XFER_READ + XFER_WRITE == 3);
    CHECK(bytes_of(region) == expected);
    CHECK(bytes_of(make(kMaxParts)).size() == kMaxExportKey);
}

TEST_CASE("bytes that are cut, or go on") {
    for (const size_t parts : {size_t{1}, size_t{5}, kMaxParts}) {
        const Octets bytes = bytes_of(make(parts));
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK_FALSE(decode_region_keys(ConstBytes(bytes).first(size)));
        Octets longer = bytes;
        while (longer.size() < kMaxExportKey + 16) {
            longer.push_back(0);
            CHECK_FALSE(decode_region_keys(longer));
        }
    }
}

TEST_CASE("what no region has is refused") {
    RegionKeys region = make(2);
    SUBCASE("no bytes") {
        region.length = 0;
    }
    SUBCASE("parts without bytes") {
        region.part_bytes = 0;
    }
    SUBCASE("it wraps") {
        region.base = UINT64_MAX - region.length + 2;
    }
    SUBCASE("more keys than parts") {
        region.length = region.part_bytes;
    }
    SUBCASE("fewer keys than parts") {
        region.length = 2 * region.part_bytes + 1;
    }
    SUBCASE("as many parts as a byte has not") {
        region.length = 258 * region.part_bytes;
    }
    SUBCASE("parts that are short") {
        region.part_bytes = 1;
    }
    CHECK_FALSE(is_read(region));
}

TEST_CASE("no keys, more than there is room for, and another version are refused") {
    Octets bytes = bytes_of(make(1));
    bytes[1] = 0;
    CHECK_FALSE(decode_region_keys(bytes));
    bytes.resize(kHeader);
    CHECK_FALSE(decode_region_keys(bytes));
    for (unsigned count = 0; count < 256; ++count) {
        Octets many = bytes_of(make(1));
        many.resize(kHeader + 4 * count, 7);
        many[1] = static_cast<uint8_t>(count);
        store<uint64_t>(&many[16], 4096 * uint64_t{count});
        CHECK(decode_region_keys(many).has_value() == (count >= 1 && count <= kMaxParts));
    }
    for (const uint8_t version : {0, 2, 255}) {
        Octets other = bytes_of(make(1));
        other[0] = version;
        CHECK_FALSE(decode_region_keys(other));
    }
}

TEST_CASE("every byte with every value: what is read could have been written") {
    for (const size_t parts : {size_t{1}, size_t{3}, kMaxParts}) {
        const Octets right = bytes_of(make(parts));
        for (size_t at = 0; at < right.size(); ++at)
            for (unsigned value = 0; value < 256; ++value) {
                Octets bytes = right;
                bytes[at] = static_cast<uint8_t>(value);
                if (at == 2 || at == 3) continue;  // zero in this version
                const auto read = decode_region_keys(bytes);
                if (read && bytes_of(*read) != bytes) FAIL_CHECK("byte ", at, " as ", value);
            }
    }
}

TEST_CASE("a request that is read lies within the range that is told") {
    std::mt19937_64 random(2);
    int read = 0;
    for (int i = 0; i < 300'000; ++i) {
        Octets bytes = bytes_of(make(1 + random() % kMaxParts, 1 + random() % 5000));
        for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
            bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
        if (random() % 8 == 0) store<uint64_t>(&bytes[8 + 8 * (random() % 3)], random());
        const auto got = decode_region_keys(bytes);
        if (!got) continue;
        ++read;
        const uint64_t last = got->length - 1;
        if (got->base + last < got->base || last / got->part_bytes + 1 != got->keys.size())
            FAIL_CHECK("number ", i, " lies elsewhere");
    }
    CHECK(read > 10'000);
}

TEST_CASE("fields that are zero in this version, and access that there is none of, are refused") {
    for (const size_t at : {size_t{2}, size_t{3}}) {
        Octets bytes = bytes_of(make(2));
        bytes[at] = 1;
        CHECK_FALSE(decode_region_keys(bytes));
    }
    for (uint32_t bit = 1; bit; bit <<= 1) {
        RegionKeys region = make(2);
        region.access |= bit;
        CHECK(is_read(region) == ((bit & ~kAll) == 0));
    }
}
