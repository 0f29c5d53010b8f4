// SPDX-License-Identifier: Apache-2.0
// Channels over sockets that meet memory which is not mapped: the request that needs it fails, and
// the stream goes on behind it.
#include <sys/mman.h>

#include "stream_fixture.h"
#include "wire/crc32c.h"

using namespace xfer;
using namespace xfer::test;

namespace {

constexpr uint32_t kLarge = 200'000;

// Pages in the middle of memory that nobody can touch, as of what was unmapped.
struct Hole {
    explicit Hole(std::vector<uint8_t> &memory, size_t size = 16 * 4096) : bytes(size) {
        const uint64_t middle = address(memory.data()) + memory.size() / 2;
        at = reinterpret_cast<uint8_t *>(middle & ~uint64_t{4095});
        offset = static_cast<uint64_t>(at - memory.data());
        bytes &= ~size_t{4095};
        REQUIRE(::mprotect(at, bytes, PROT_NONE) == 0);
    }
    ~Hole() { ::mprotect(at, bytes, PROT_READ | PROT_WRITE); }
    size_t bytes;
    uint8_t *at;
    uint64_t offset;
};

struct Torn : Pair {
    std::vector<uint8_t> data = pattern(1 << 20, 3), back = std::vector<uint8_t>(kLarge);
    uint64_t local() const { return address(data.data()); }

    // The first ends with `status`; what follows it ends well.
    void check(TestOp &op, Status status) {
        TestOp put(Dir::put, kRegion, {{local(), 0, kLarge}});
        TestOp get(Dir::get, kRegion, {{address(back.data()), 0, kLarge}});
        put.last = true;
        post(op);
        post(put);
        post(get);
        channel->path().flush();
        REQUIRE(all_done(3));
        CHECK(here.done[0].op == &op);
        CHECK(here.done[0].status == status);
        CHECK(here.done[1].status == XFER_OK);
        CHECK(here.done[2].status == XFER_OK);
        CHECK(std::equal(back.begin(), back.end(), data.begin()));
        CHECK(!here.down);
        CHECK(!there.down);
    }
};

}  // namespace

TEST_CASE("a put into memory that is gone is refused, and the next one is found behind it") {
    Torn pair;
    const Hole hole(pair.memory);
    TestOp put(Dir::put, kRegion, {{pair.local(), hole.offset - 30'000, kLarge}});
    pair.check(put, XFER_EIO);
    CHECK(!put.unmapped);
    CHECK(pair.there.unmapped == std::vector<uint64_t>{kRegion});
}

TEST_CASE("a put of many pieces, one of them into memory that is gone, is refused") {
    Torn pair;
    const Hole hole(pair.memory);
    TestOp put(Dir::put, kRegion,
               {{pair.local(), hole.offset - 200'000, 50'000},
                {pair.local(), hole.offset + 5'000, 50},
                {pair.local(), hole.offset - 100'000, 50'000}});
    pair.check(put, XFER_EIO);
    CHECK(pair.there.unmapped == std::vector<uint64_t>{kRegion});
}

TEST_CASE("a put from memory that is gone fails here, and its frame is ended") {
    Torn pair;
    const Hole hole(pair.data);
    TestOp put(Dir::put, kRegion, {{address(hole.at) - 30'000, 1 << 20, kLarge}});
    pair.check(put, XFER_EIO);
    CHECK(put.unmapped);
    CHECK(pair.there.unmapped.empty());
}

TEST_CASE("a get into memory that is gone fails here") {
    Torn pair;
    const Hole hole(pair.data);
    TestOp get(Dir::get, kRegion, {{address(hole.at) - 30'000, 1 << 20, kLarge}});
    pair.check(get, XFER_EIO);
    CHECK(get.unmapped);
    CHECK(pair.there.unmapped.empty());
}

// Nothing tells a peer that data which have begun to leave are none.
TEST_CASE("a get from memory that goes while it leaves ends the channel") {
    Torn pair;
    const Hole hole(pair.memory);
    TestOp get(Dir::get, kRegion, {{pair.local(), hole.offset - 30'000, kLarge}});
    pair.post(get);
    pair.channel->path().flush();
    REQUIRE(pair.until([&] { return pair.here.down && pair.there.down; }));
    CHECK(pair.here.done.at(0).status == XFER_EPEERLOST);
    CHECK(pair.there.down->native == EFAULT);
    CHECK(pair.there.unmapped == std::vector<uint64_t>{kRegion});
}

TEST_CASE("a checksum tells that memory went while a get of it left") {
    constexpr uint64_t kGets = 4;  // in one burst, of which only the first part leaves at once
    Raw raw(true, 4096);
    raw.memory = pattern(kGets * kMaxChunk, 8);
    const auto get = [&](uint64_t seq) {
        const WirePiece all{(seq - 1) % kGets * kMaxChunk, kMaxChunk};
        raw.say(request(FrameType::get, seq, {all}, {}, kKey, kChecked));
    };
    // Whether what arrives is what its checksum says.
    const auto is_sound = [&](uint64_t seq) {
        const Frame frame = raw.hear_frame();
        CHECK(frame.type == FrameType::data);
        CHECK(frame.seq == seq);
        const std::vector<uint8_t> body = raw.hear(frame.length);
        REQUIRE(body.size() == kChecksumBytes + kMaxChunk);
        Crc32c sum;
        sum.add(body.data() + kChecksumBytes, kMaxChunk);
        return load<uint32_t>(body.data()) == sum.value();
    };
    for (uint64_t seq = 1; seq <= kGets; ++seq)
        get(seq);
    turn_some(*raw.loop);
    {
        const Hole hole(raw.memory, raw.memory.size() / 2 - 8192);
        for (uint64_t seq = 1; seq < kGets; ++seq)
            is_sound(seq);
        CHECK(!is_sound(kGets));
    }
    REQUIRE(!raw.there.unmapped.empty());
    CHECK(raw.there.unmapped[0] == kRegion);
    CHECK(!raw.there.down);
    get(kGets + 1);
    CHECK(is_sound(kGets + 1));
}
