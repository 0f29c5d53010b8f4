// SPDX-License-Identifier: Apache-2.0
// Post lists: what they merge, where they are cut, and that each byte goes to its place.
#include "transport/rdma/chain.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

using namespace xfer;
using namespace xfer::rdma;

namespace {

uint64_t address(const void *at) {
    return reinterpret_cast<uint64_t>(at);
}

// Memory of which each part has a key of its own: its number, from 1.
struct Keys final : LocalKeys {
    Keys(uint64_t from, uint64_t length, uint64_t bytes) : base(from), size(length), part(bytes) {}
    Key look(uint64_t at) const override {
        if (at < base || at - base >= size) return {};
        const uint64_t left = part - (at - base) % part;
        return {static_cast<uint32_t>(1 + (at - base) / part), std::min(left, base + size - at)};
    }
    const uint64_t base, size, part;
};

constexpr uint64_t kId = 77;
constexpr ChainLimits kLimits{8, 4, 2, 1 << 20, 64};

struct Sides {
    explicit Sides(uint64_t local_part = 1 << 20, uint64_t remote_part = 1 << 20)
        : local_keys(address(local.data()), local.size(), local_part) {
        for (uint64_t at = 0; at < remote.size(); at += remote_part)
            rkeys.push_back(static_cast<uint32_t>(1'000 + rkeys.size()));
        region = {address(remote.data()), remote.size(), remote_part, rkeys};
    }
    Piece piece(uint64_t from, uint64_t to, uint64_t length) const {
        return {address(local.data()) + from, to, length};
    }
    Chain::End build(Chain &chain, Dir dir, const std::vector<Piece> &pieces,
                     Chain::Progress &from) const {
        return chain.build(dir, pieces, local_keys, region, kId, from);
    }

    std::vector<uint8_t> local = std::vector<uint8_t>(100'000);
    std::vector<uint8_t> remote = std::vector<uint8_t>(100'000);
    std::vector<uint32_t> rkeys;
    Keys local_keys;
    RemoteMemory region;
};

// As a device would, with all that it would refuse checked.
void execute(Chain &chain, Dir dir, const Sides &sides, const ChainLimits &limits) {
    uint32_t requests = 0;
    uint64_t bytes = 0;
    for (ibv_send_wr *request = chain.first(); request; request = request->next) {
        ++requests;
        CHECK(request->wr_id == kId);
        CHECK(bool(request->send_flags & IBV_SEND_SIGNALED) == (request->next == nullptr));
        const bool put = dir == Dir::put;
        CHECK(request->opcode == (put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ));
        CHECK(request->num_sge >= 1);
        CHECK(static_cast<uint32_t>(request->num_sge) <=
              (put ? limits.pieces : limits.read_pieces));
        uint64_t at = request->wr.rdma.remote_addr;
        const uint64_t begin = at - sides.region.base;
        for (int i = 0; i < request->num_sge; ++i) {
            const ibv_sge &element = request->sg_list[i];
            const LocalKeys::Key key = sides.local_keys.look(element.addr);
            CHECK(element.length > 0);
            CHECK(element.lkey == key.lkey);
            REQUIRE(element.length <= key.reach);
            auto *const here = reinterpret_cast<uint8_t *>(element.addr);
            auto *const there = reinterpret_cast<uint8_t *>(at);
            REQUIRE(at - sides.region.base + element.length <= sides.region.length);
            put ? std::memcpy(there, here, element.length)
                : std::memcpy(here, there, element.length);
            at += element.length;
        }
        const uint64_t length = at - request->wr.rdma.remote_addr;
        CHECK(length <= limits.bytes);
        CHECK(begin / sides.region.part_bytes == (begin + length - 1) / sides.region.part_bytes);
        CHECK(request->wr.rdma.rkey == sides.rkeys[begin / sides.region.part_bytes]);
        const bool inlined = request->send_flags & IBV_SEND_INLINE;
        CHECK(inlined == (put && chain.requests() == 1 && length <= limits.inline_bytes));
        bytes += length;
    }
    CHECK(requests == chain.requests());
    CHECK(requests <= limits.requests);
    CHECK(bytes == chain.bytes());
}

}  // namespace

TEST_CASE("neighbours there are one request, neighbours on both sides one element") {
    Sides sides;
    Chain chain(kLimits);
    const struct {
        std::vector<Piece> pieces;
        Dir dir;
        uint32_t requests;
        int elements;  // of the first
    } table[] = {
        {{sides.piece(0, 0, 100)}, Dir::put, 1, 1},
        {{sides.piece(0, 0, 100), sides.piece(100, 100, 50)}, Dir::put, 1, 1},
        {{sides.piece(0, 0, 100), sides.piece(300, 100, 50)}, Dir::put, 1, 2},
        {{sides.piece(0, 0, 100), sides.piece(100, 300, 50)}, Dir::put, 2, 1},
        {{sides.piece(300, 100, 50), sides.piece(0, 0, 100)}, Dir::put, 2, 1},  // not backwards
        {{sides.piece(0, 0, 9), sides.piece(20, 9, 9), sides.piece(40, 18, 9),
          sides.piece(60, 27, 9), sides.piece(80, 36, 9)},
         Dir::put,
         2,
         4},
        {{sides.piece(0, 0, 9), sides.piece(20, 9, 9), sides.piece(40, 18, 9),
          sides.piece(60, 27, 9), sides.piece(69, 36, 9)},
         Dir::put,
         1,
         4},
        {{sides.piece(0, 0, 9), sides.piece(20, 9, 9), sides.piece(40, 18, 9)}, Dir::get, 2, 2},
        {{sides.piece(0, 0, 0), sides.piece(20, 50, 9), sides.piece(40, 60, 0)}, Dir::put, 1, 1},
        {{sides.piece(0, 0, 0)}, Dir::put, 0, 0},
        {{}, Dir::get, 0, 0},
    };
    for (const auto &row : table) {
        CAPTURE(&row - table);
        Chain::Progress from;
        CHECK(sides.build(chain, row.dir, row.pieces, from) == Chain::End::all);
        CHECK(from.at == row.pieces.size());
        CHECK(chain.requests() == row.requests);
        if (row.requests) CHECK(chain.first()->num_sge == row.elements);
        CHECK((chain.first() == nullptr) == (row.requests == 0));
        execute(chain, row.dir, sides, kLimits);
    }
}

TEST_CASE("a small write that is alone goes inline, and no read does") {
    Sides sides;
    Chain chain(kLimits);
    for (const Dir dir : {Dir::put, Dir::get})
        for (const uint64_t length : {1u, 64u, 65u}) {
            Chain::Progress from;
            const std::vector<Piece> pieces = {sides.piece(0, 0, length)};
            REQUIRE(sides.build(chain, dir, pieces, from) == Chain::End::all);
            CHECK(bool(chain.first()->send_flags & IBV_SEND_INLINE) ==
                  (dir == Dir::put && length <= 64));
        }
    Chain::Progress from;
    const std::vector<Piece> two = {sides.piece(0, 0, 8), sides.piece(100, 100, 8)};
    REQUIRE(sides.build(chain, Dir::put, two, from) == Chain::End::all);
    CHECK_FALSE(bool(chain.first()->send_flags & IBV_SEND_INLINE));
}

TEST_CASE("what does not fit into one list goes into the next") {
    Sides sides;
    Chain chain(kLimits);
    std::vector<Piece> pieces;
    for (uint64_t i = 0; i < 20; ++i)
        pieces.push_back(sides.piece(i * 100, (19 - i) * 100, 100));
    Chain::Progress from;
    CHECK(sides.build(chain, Dir::put, pieces, from) == Chain::End::full);
    CHECK(from.at == 8);
    CHECK(sides.build(chain, Dir::put, pieces, from) == Chain::End::full);
    CHECK(from.at == 16);
    CHECK(sides.build(chain, Dir::put, pieces, from) == Chain::End::all);
    CHECK(chain.requests() == 4);
}

TEST_CASE("memory without a key ends the list before it") {
    Sides sides;
    Chain chain(kLimits);
    std::vector<uint8_t> foreign(100);
    const std::vector<Piece> pieces = {sides.piece(0, 0, 100), {address(foreign.data()), 200, 50}};
    Chain::Progress from;
    CHECK(sides.build(chain, Dir::put, pieces, from) == Chain::End::local_key);
    CHECK(from.at == 1);
    CHECK(chain.requests() == 1);
    CHECK(sides.build(chain, Dir::put, pieces, from) == Chain::End::local_key);
    CHECK(chain.requests() == 0);
    // A piece of which the end has none: up to there.
    const std::vector<Piece> across = {sides.piece(sides.local.size() - 10, 0, 100)};
    from = {};
    CHECK(sides.build(chain, Dir::get, across, from) == Chain::End::local_key);
    CHECK(from.done == 10);
    CHECK(chain.bytes() == 10);
}

TEST_CASE("what lies outside of the region builds nothing") {
    Sides sides;
    Chain chain(kLimits);
    const uint64_t size = sides.remote.size();
    for (const Piece &bad : {sides.piece(0, size, 1), sides.piece(0, size - 1, 2),
                             sides.piece(0, UINT64_MAX, 2), sides.piece(0, 0, UINT64_MAX)}) {
        Chain::Progress from;
        CHECK(sides.build(chain, Dir::put, {sides.piece(0, 0, 1), bad}, from) ==
              Chain::End::outside);
        CHECK(chain.requests() == 0);
        CHECK(chain.first() == nullptr);
        CHECK(from.at == 0);
    }
}

TEST_CASE("random pieces, keys and limits: each byte goes to its place, once") {
    std::mt19937_64 random(4711);
    const auto below = [&](uint64_t bound) { return random() % bound; };
    for (int round = 0; round < 3'000; ++round) {
        CAPTURE(round);
        Sides sides(1 + below(30'000), 1 + below(30'000));
        ChainLimits limits;
        limits.requests = static_cast<uint32_t>(1 + below(20));
        limits.pieces = static_cast<uint32_t>(1 + below(6));
        limits.read_pieces = static_cast<uint32_t>(1 + below(6));
        limits.bytes = 1 + below(round % 2 ? 200 : 20'000);
        limits.inline_bytes = static_cast<uint32_t>(below(100));
        const Dir dir = round % 3 ? Dir::put : Dir::get;
        for (uint8_t &byte : sides.local)
            byte = static_cast<uint8_t>(random());
        std::vector<Piece> pieces;
        uint64_t from = below(100), to = below(100);
        while (true) {
            const uint64_t length = below(4) ? below(300) : 0;
            if (from + length > sides.local.size() || to + length > sides.remote.size()) break;
            if (pieces.size() == 40) break;
            pieces.push_back(sides.piece(from, to, length));
            from += length + (below(2) ? below(500) : 0);
            to += length + (below(2) ? below(500) : 0);
        }
        std::shuffle(pieces.begin(), pieces.end(), random);
        std::vector<uint8_t> local = sides.local, remote = sides.remote;
        for (const Piece &piece : pieces) {
            uint8_t *const here = local.data() + (piece.local - address(sides.local.data()));
            uint8_t *const there = remote.data() + piece.offset;
            dir == Dir::put ? std::memcpy(there, here, piece.length)
                            : std::memcpy(here, there, piece.length);
        }
        Chain chain(limits);
        Chain::Progress progress;
        Chain::End end = Chain::End::full;
        for (int lists = 0; end == Chain::End::full; ++lists) {
            REQUIRE(lists < 20'000);
            end = sides.build(chain, dir, pieces, progress);
            if (end == Chain::End::full) CHECK(chain.requests() == limits.requests);
            execute(chain, dir, sides, limits);
        }
        CHECK(end == Chain::End::all);
        CHECK(sides.local == local);
        CHECK(sides.remote == remote);
    }
}
