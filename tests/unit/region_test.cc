// SPDX-License-Identifier: Apache-2.0
#include "core/region/region.h"

#include <doctest/doctest.h>

#include <string>

#include "polled_engine.h"

using namespace xfer;

namespace {

constexpr uint64_t kLength = 1000, kMost = UINT64_MAX;

// A region of 1,000 bytes.
struct Fixture {
    explicit Fixture(uint32_t access, const char *name = "region") {
        xfer_region_options_t options{};
        options.size = sizeof options;
        options.access = access;
        options.name = name;
        auto opened = engine.inside->regions().open(options, memory, kLength);
        REQUIRE(opened);
        region = *opened;
    }
    ~Fixture() { CHECK(xfer_region_close(reinterpret_cast<xfer_region_t *>(region)) == XFER_OK); }

    Access right() const { return {region->id, region->generation, region->key}; }
    Status check(Dir dir, const Access &access, std::vector<WirePiece> pieces) {
        out.clear();
        const Status status = region->check(dir, access, pieces, out);
        CHECK(out.size() == (status == XFER_OK ? pieces.size() : 0));
        return status;
    }
    Status range(uint64_t offset, uint64_t length) {
        WirePiece piece{};
        piece.offset = offset;
        piece.length = static_cast<decltype(piece.length)>(length);
        return check(Dir::put, right(), {piece});
    }

    PolledEngine engine;
    alignas(8) uint8_t memory[kLength];
    Region *region = nullptr;
    std::vector<iovec> out;
};

WirePiece piece(uint64_t offset, uint32_t length) {
    WirePiece piece{};
    piece.offset = offset;
    piece.length = length;
    return piece;
}

}  // namespace

TEST_CASE("a range lies inside, or nothing is touched") {
    Fixture f(XFER_READ | XFER_WRITE);
    CHECK(f.range(0, 1) == XFER_OK);
    CHECK(f.range(0, kLength) == XFER_OK);
    CHECK(f.out[0].iov_base == f.memory);
    CHECK(f.out[0].iov_len == kLength);
    CHECK(f.range(999, 1) == XFER_OK);
    CHECK(f.out[0].iov_base == f.memory + 999);
    CHECK(f.range(1000, 0) == XFER_OK);
    CHECK(f.range(0, 1001) == XFER_ERANGE);
    CHECK(f.range(1, 1000) == XFER_ERANGE);
    CHECK(f.range(1000, 1) == XFER_ERANGE);
    CHECK(f.range(1001, 0) == XFER_ERANGE);
    CHECK(f.range(999, UINT32_MAX) == XFER_ERANGE);
    // Offset and length wrap around to something small.
    CHECK(f.range(kMost, 0) == XFER_ERANGE);
    CHECK(f.range(kMost, 2) == XFER_ERANGE);
    CHECK(f.range(kMost - 9, 20) == XFER_ERANGE);
    CHECK(f.range(kMost - UINT32_MAX + 1, UINT32_MAX) == XFER_ERANGE);
}

TEST_CASE("all pieces or none") {
    Fixture f(XFER_READ | XFER_WRITE);
    CHECK(f.check(Dir::put, f.right(), {}) == XFER_OK);
    CHECK(f.check(Dir::put, f.right(), {piece(500, 10), piece(0, 5), piece(500, 10)}) == XFER_OK);
    CHECK(f.out[1].iov_base == f.memory);
    CHECK(f.out[2].iov_base == f.memory + 500);
    CHECK(f.check(Dir::put, f.right(), {piece(0, 5), piece(996, 5)}) == XFER_ERANGE);
    CHECK(f.check(Dir::put, f.right(), {piece(996, 5), piece(0, 5)}) == XFER_ERANGE);
}

TEST_CASE("what was asked before stays where it is") {
    Fixture f(XFER_READ | XFER_WRITE);
    std::vector<iovec> out = {{f.memory, 7}};
    const std::vector<WirePiece> good = {piece(1, 2)}, bad = {piece(1, 2), piece(1001, 0)};
    CHECK(f.region->check(Dir::get, f.right(), bad, out) == XFER_ERANGE);
    CHECK(out.size() == 1);
    CHECK(f.region->check(Dir::get, f.right(), good, out) == XFER_OK);
    CHECK(out.size() == 2);
    CHECK(out[0].iov_len == 7);
    CHECK(out[1].iov_base == f.memory + 1);
}

TEST_CASE("generation and key come first") {
    Fixture f(XFER_READ | XFER_WRITE);
    for (Dir dir : {Dir::put, Dir::get}) {
        Access wrong = f.right();
        wrong.generation += 1;
        CHECK(f.check(dir, wrong, {piece(0, 1)}) == XFER_ESTALE);
        for (int bit = 0; bit < 64; ++bit) {
            wrong = f.right();
            wrong.key ^= 1ull << bit;
            CHECK(f.check(dir, wrong, {piece(0, 1)}) == XFER_ESTALE);
        }
        CHECK(f.check(dir, wrong, {piece(2000, 1)}) == XFER_ESTALE);
    }
}

TEST_CASE("access") {
    const struct {
        uint32_t access;
        Status put, get, atomic;
    } rows[] = {
        {XFER_READ | XFER_WRITE, XFER_OK, XFER_OK, XFER_EACCESS},
        {XFER_READ, XFER_EACCESS, XFER_OK, XFER_EACCESS},
        {XFER_WRITE, XFER_OK, XFER_EACCESS, XFER_EACCESS},
        {XFER_ATOMIC, XFER_EACCESS, XFER_EACCESS, XFER_OK},
        {XFER_READ | XFER_ATOMIC, XFER_EACCESS, XFER_OK, XFER_OK},
        {0, XFER_EACCESS, XFER_EACCESS, XFER_EACCESS},
    };
    for (const auto &row : rows) {
        CAPTURE(row.access);
        Fixture f(row.access);
        CHECK(f.check(Dir::put, f.right(), {piece(0, 1)}) == row.put);
        CHECK(f.check(Dir::get, f.right(), {piece(0, 1)}) == row.get);
        CHECK(f.check(Dir::atomic, f.right(), {piece(0, 8)}) == row.atomic);
        CHECK(f.check(Dir::put, f.right(), {}) == row.put);
        // No news about its size for who may not touch it.
        if (row.put != XFER_OK) CHECK(f.check(Dir::put, f.right(), {piece(2000, 1)}) == row.put);
    }
}

TEST_CASE("an atomic has 8 aligned bytes, or does nothing") {
    Fixture f(XFER_ATOMIC);
    for (uint64_t offset = 0; offset <= kLength; ++offset) {
        CAPTURE(offset);
        const Status past = offset > kLength - 8 ? XFER_ERANGE : XFER_EINVAL;
        CHECK(f.check(Dir::atomic, f.right(), {piece(offset, 8)}) ==
              (offset % 8 || offset > kLength - 8 ? past : XFER_OK));
    }
    CHECK(f.check(Dir::atomic, f.right(), {piece(kMost - 7, 8)}) == XFER_ERANGE);
}

TEST_CASE("a ref says what the region is") {
    Fixture f(XFER_READ);
    const RemoteRegion told = f.region->describe();
    CHECK(told.id == f.engine.inside->identity().id);
    CHECK(told.incarnation == f.engine.inside->identity().incarnation);
    CHECK(told.region == f.region->id);
    CHECK(told.generation == f.region->generation);
    CHECK(told.key == f.region->key);
    CHECK(told.offset == 0);
    CHECK(told.length == kLength);
    CHECK(told.access == XFER_READ);
    CHECK(told.kind == XFER_MEM_HOST);
    auto again = decode_ref(encode_ref(told));
    REQUIRE(again);
    CHECK(again->key == told.key);
    CHECK(again->length == told.length);
}

TEST_CASE("no two regions have the same id or key") {
    Fixture f(XFER_READ);
    uint8_t more[8];
    xfer_region_options_t options{};
    options.size = sizeof options;
    auto second = f.engine.inside->regions().open(options, more, sizeof more);
    REQUIRE(second);
    CHECK((*second)->id != f.region->id);
    CHECK((*second)->key != f.region->key);
    options.name = "region";
    auto taken = f.engine.inside->regions().open(options, more, sizeof more);
    REQUIRE(!taken);
    CHECK(taken.error().status == XFER_EEXIST);
    CHECK(xfer_region_close(reinterpret_cast<xfer_region_t *>(*second)) == XFER_OK);
}

static void add(RegionTable &table, Region &region) {
    RegionTable::Places places(region);
    table.add(region, places);
}

TEST_CASE("a table finds by id and by name, until the region is removed") {
    Fixture f(XFER_READ), nameless(0, nullptr);
    RegionTable table;
    CHECK(table.find(f.region->id) == nullptr);
    add(table, *f.region);
    CHECK(table.find(f.region->id) == f.region);
    CHECK(table.find("region") == f.region);
    CHECK(table.find("regio") == nullptr);
    CHECK(table.find("") == nullptr);
    CHECK(table.find(f.region->id + 1) == nullptr);
    table.remove(*f.region);
    CHECK(table.find(f.region->id) == nullptr);
    CHECK(table.find("region") == nullptr);
    add(table, *nameless.region);
    CHECK(table.find("") == nullptr);
    table.remove(*nameless.region);
}
