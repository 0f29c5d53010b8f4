// SPDX-License-Identifier: Apache-2.0
// Post lists: which pieces go by one request or one element, and that every byte goes where it
// belongs.
#include "transport/rdma/chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace xfer;
using namespace xfer::rdma;

namespace {

// Registrations by their first address.
struct Keys final : LocalKeys {
    struct Range {
        uint64_t length;
        uint32_t lkey;
    };
    LocalKey find(uint64_t address) const override {
        ++asked;
        auto after = ranges.upper_bound(address);
        if (after == ranges.begin()) return {};
        const auto &[base, range] = *std::prev(after);
        if (address - base >= range.length) return {};
        return {range.lkey, range.length - (address - base)};
    }
    std::map<uint64_t, Range> ranges;
    mutable int asked = 0;
};

// All of the local addresses of a table are below 10,000, and there are two registrations.
Keys two_keys() {
    Keys keys;
    keys.ranges = {{0, {5'000, 1}}, {5'000, {5'000, 2}}};
    return keys;
}

// Of a part, unless a case says otherwise.
constexpr uint32_t kRemoteKeys[] = {77};
constexpr RemoteMemory kRemote{0x10000, kRemoteKeys};
constexpr ChainLimits kLimits{
    .requests = 4, .pieces = 3, .read_pieces = 2, .request_bytes = 1'000, .inline_bytes = 0};

struct Storage {
    std::vector<ibv_send_wr> requests = std::vector<ibv_send_wr>(64);
    std::vector<ibv_sge> elements = std::vector<ibv_sge>(256);
    Chain chain() { return Chain(requests, elements); }
};

// "offset:local+length/key,...;..." of its requests, with "i" where they are inlined.
std::string text_of(Chain &chain) {
    std::string text;
    for (const ibv_send_wr &request : chain.requests()) {
        if (!text.empty()) text += " ";
        text += std::to_string(request.wr.rdma.remote_addr - kRemote.base) + ":";
        for (int i = 0; i < request.num_sge; ++i) {
            const ibv_sge &element = request.sg_list[i];
            text += (i ? "," : "") + std::to_string(element.addr) + "+" +
                    std::to_string(element.length) + "/" + std::to_string(element.lkey);
        }
        if (request.send_flags & IBV_SEND_INLINE) text += "i";
    }
    return text;
}

uint64_t length_of(const ibv_send_wr &request) {
    uint64_t bytes = 0;
    for (int i = 0; i < request.num_sge; ++i)
        bytes += request.sg_list[i].length;
    return bytes;
}

// Linked, one kind, each in one part of the region and by its key; signaled is the last one, and no
// other.
void check_form(Chain &chain, ibv_wr_opcode opcode, const RemoteMemory &remote = kRemote) {
    const auto requests = chain.requests();
    for (size_t i = 0; i < requests.size(); ++i) {
        const bool is_last = i + 1 == requests.size();
        CHECK(requests[i].next == (is_last ? nullptr : &requests[i + 1]));
        CHECK(((requests[i].send_flags & IBV_SEND_SIGNALED) != 0) == is_last);
        CHECK(requests[i].opcode == opcode);
        REQUIRE(requests[i].num_sge > 0);
        const uint64_t at = requests[i].wr.rdma.remote_addr - remote.base;
        const uint64_t part = at / remote.part_bytes;
        CHECK(requests[i].wr.rdma.rkey == remote.keys[part]);
        CHECK((at + length_of(requests[i]) - 1) / remote.part_bytes == part);
    }
}

struct Row {
    const char *name;
    std::vector<Piece> pieces;  // local, offset, length
    std::string put, get;
    ChainLimits limits = kLimits;
};

ChainLimits with_inline(uint32_t bytes) {
    ChainLimits limits = kLimits;
    limits.inline_bytes = bytes;
    return limits;
}

const std::vector<Row> kTable = {
    {"one piece", {{100, 0, 10}}, "0:100+10/1", "0:100+10/1"},
    {"two apart", {{100, 0, 10}, {200, 20, 5}}, "0:100+10/1 20:200+5/1", "0:100+10/1 20:200+5/1"},
    {"neighbours on both sides", {{100, 0, 10}, {110, 10, 5}}, "0:100+15/1", "0:100+15/1"},
    {"neighbours on the remote side",
     {{100, 0, 10}, {300, 10, 5}},
     "0:100+10/1,300+5/1",
     "0:100+10/1,300+5/1"},
    {"neighbours on the local side",
     {{100, 0, 10}, {110, 20, 5}},
     "0:100+10/1 20:110+5/1",
     "0:100+10/1 20:110+5/1"},
    {"neighbours backwards",
     {{110, 10, 10}, {100, 0, 10}},
     "10:110+10/1 0:100+10/1",
     "10:110+10/1 0:100+10/1"},
    {"more neighbours than elements",
     {{100, 0, 1}, {200, 1, 1}, {300, 2, 1}, {400, 3, 1}},
     "0:100+1/1,200+1/1,300+1/1 3:400+1/1",
     "0:100+1/1,200+1/1 2:300+1/1,400+1/1"},
    {"two registrations side by side",
     {{4'990, 0, 20}},
     "0:4990+10/1,5000+10/2",
     "0:4990+10/1,5000+10/2"},
    {"larger than a request",
     {{0, 0, 2'500}},
     "0:0+1000/1 1000:1000+1000/1 2000:2000+500/1",
     "0:0+1000/1 1000:1000+1000/1 2000:2000+500/1"},
    {"larger than a request together",
     {{0, 0, 900}, {2'000, 900, 200}},
     "0:0+900/1,2000+100/1 1000:2100+100/1",
     "0:0+900/1,2000+100/1 1000:2100+100/1"},
    {"exactly a request",
     {{0, 0, 1'000}, {1'000, 1'000, 1}},
     "0:0+1000/1 1000:1000+1/1",
     "0:0+1000/1 1000:1000+1/1"},
    {"larger than the chain",
     {{0, 0, 4'500}},
     "0:0+1000/1 1000:1000+1000/1 2000:2000+1000/1 3000:3000+1000/1",
     "0:0+1000/1 1000:1000+1000/1 2000:2000+1000/1 3000:3000+1000/1"},
    {"without bytes", {{100, 0, 0}, {100, 5, 0}}, "", ""},
    {"without bytes among others",
     {{1, 1, 0}, {100, 0, 10}, {7, 7, 0}, {110, 10, 5}, {1, 1, 0}},
     "0:100+15/1",
     "0:100+15/1"},
    {"inlined", {{100, 0, 10}}, "0:100+10/0i", "0:100+10/1", with_inline(10)},
    {"a byte too long to be inlined", {{100, 0, 11}}, "0:100+11/1", "0:100+11/1", with_inline(10)},
    {"inlined in pieces",
     {{100, 0, 4}, {9'999'999, 4, 6}},
     "0:100+4/0,9999999+6/0i",
     "0:100+4/1",
     with_inline(10)},
    {"two requests are not inlined",
     {{100, 0, 4}, {200, 10, 6}},
     "0:100+4/1 10:200+6/1",
     "0:100+4/1 10:200+6/1",
     with_inline(10)},
    {"not registered", {{100, 0, 4}, {9'999'999, 4, 6}}, "0:100+4/1", "0:100+4/1"},
    {"never registered", {{9'999'999, 0, 6}}, "", ""},
};

// Carries out what is posted, as an adapter would.
void apply(Chain &chain, std::vector<uint8_t> &remote) {
    for (const ibv_send_wr &request : chain.requests()) {
        uint64_t at = request.wr.rdma.remote_addr - kRemote.base;
        for (int i = 0; i < request.num_sge; ++i) {
            const ibv_sge &element = request.sg_list[i];
            REQUIRE(at + element.length <= remote.size());
            auto *const local = reinterpret_cast<uint8_t *>(element.addr);
            if (request.opcode == IBV_WR_RDMA_WRITE)
                std::memcpy(&remote[at], local, element.length);
            else
                std::memcpy(local, &remote[at], element.length);
            at += element.length;
        }
    }
}

std::vector<uint8_t> random_memory(std::mt19937 &random, size_t size) {
    std::vector<uint8_t> memory(size);
    for (uint8_t &byte : memory)
        byte = static_cast<uint8_t>(random());
    return memory;
}

constexpr size_t kMemory = 4'096;

// Pieces in order on both sides, which leave gaps or do not, and overlap nowhere.
std::vector<Piece> random_pieces(std::mt19937 &random, uint64_t local_base) {
    std::vector<Piece> pieces;
    uint64_t local = 0, offset = 0;
    while (pieces.size() < 40) {
        if (random() % 3 == 0) local += random() % 40;
        if (random() % 3 == 0) offset += random() % 40;
        const uint64_t length = random() % 8 ? random() % 60 : random() % 400;
        if (local + length > kMemory || offset + length > kMemory) break;
        pieces.push_back({local_base + local, offset, length});
        local += length, offset += length;
    }
    if (random() % 2) std::shuffle(pieces.begin(), pieces.end(), random);
    return pieces;
}

// Registrations without gaps: a key never ends where there is none.
Keys random_keys(std::mt19937 &random, uint64_t local_base) {
    Keys keys;
    uint32_t lkey = 0;
    for (uint64_t at = 0; at < kMemory;) {
        const uint64_t length = std::min<uint64_t>(1 + random() % 1'500, kMemory - at);
        keys.ranges[local_base + at] = {length, ++lkey};
        at += length;
    }
    return keys;
}

// The region, in one part or many.
struct RemoteParts {
    explicit RemoteParts(std::mt19937 &random) {
        const uint64_t bytes = random() % 3 ? 1 + random() % kMemory : UINT64_MAX;
        for (uint64_t part = 0; part <= (kMemory - 1) / bytes; ++part)
            keys.push_back(static_cast<uint32_t>(1'000 + part));
        memory = {kRemote.base, keys, bytes};
    }
    std::vector<uint32_t> keys;
    RemoteMemory memory;
};

ChainLimits random_limits(std::mt19937 &random) {
    return {.requests = 1 + static_cast<uint32_t>(random() % 9),
            .pieces = 1 + static_cast<uint32_t>(random() % 5),
            .read_pieces = 1 + static_cast<uint32_t>(random() % 3),
            .request_bytes = 1 + random() % 300,
            .inline_bytes = static_cast<uint32_t>(random() % 100)};
}

void check_limits(Chain &chain, Dir dir, const ChainLimits &limits, const Keys &keys) {
    CHECK(chain.size() <= limits.requests);
    uint64_t total = 0;
    for (const ibv_send_wr &request : chain.requests()) {
        CHECK(static_cast<uint32_t>(request.num_sge) <=
              (dir == Dir::put ? limits.pieces : limits.read_pieces));
        uint64_t bytes = 0;
        for (int i = 0; i < request.num_sge; ++i) {
            const ibv_sge &element = request.sg_list[i];
            bytes += element.length;
            if (request.send_flags & IBV_SEND_INLINE) continue;
            const LocalKey key = keys.find(element.addr);
            CHECK(key.lkey == element.lkey);
            CHECK(key.reach >= element.length);
        }
        CHECK(bytes > 0);
        CHECK(bytes <= limits.request_bytes);
        if (request.send_flags & IBV_SEND_INLINE) {
            CHECK(dir == Dir::put);
            CHECK(chain.size() == 1);
            CHECK(bytes <= limits.inline_bytes);
        }
        total += bytes;
    }
    CHECK(chain.bytes() == total);
}

}  // namespace

TEST_CASE("which pieces go together") {
    const Keys keys = two_keys();
    for (const Row &row : kTable) {
        CAPTURE(row.name);
        Storage storage;
        Chain chain = storage.chain();
        chain.build(Dir::put, row.pieces, {}, kRemote, keys, row.limits);
        CHECK(text_of(chain) == row.put);
        check_form(chain, IBV_WR_RDMA_WRITE);
        chain.build(Dir::get, row.pieces, {}, kRemote, keys, row.limits);
        CHECK(text_of(chain) == row.get);
        check_form(chain, IBV_WR_RDMA_READ);
    }
}

TEST_CASE("it says how far it came, and why no further") {
    const Keys keys = two_keys();
    Storage storage;
    Chain chain = storage.chain();
    const Piece large[] = {{0, 0, 4'500}};
    CHECK(chain.build(Dir::put, large, {}, kRemote, keys, kLimits) == ChainPosition{0, 4'000});
    CHECK_FALSE(chain.lacks_key());
    CHECK(chain.build(Dir::put, large, {0, 4'000}, kRemote, keys, kLimits) == ChainPosition{1, 0});
    CHECK(text_of(chain) == "4000:4000+500/1");

    const Piece unknown[] = {{100, 0, 4}, {9'990, 4, 20}};
    CHECK(chain.build(Dir::get, unknown, {}, kRemote, keys, kLimits) == ChainPosition{1, 10});
    CHECK(chain.lacks_key());
    CHECK(chain.bytes() == 14);
    CHECK(chain.build(Dir::get, unknown, {1, 10}, kRemote, keys, kLimits) == ChainPosition{1, 10});
    CHECK(chain.lacks_key());
    CHECK(chain.empty());
    CHECK(chain.build(Dir::get, large, {}, kRemote, keys, kLimits) == ChainPosition{0, 4'000});
    CHECK_FALSE(chain.lacks_key());
}

TEST_CASE("no request crosses a part of the region, and each part has its key") {
    const uint32_t keys[] = {7, 8, 9};
    const RemoteMemory remote{kRemote.base, keys, 100};
    const struct {
        const char *name;
        std::vector<Piece> pieces;
        std::string text;
        std::vector<uint32_t> rkeys;
    } rows[] = {
        {"one piece over all of them",
         {{0, 0, 250}},
         "0:0+100/1 100:100+100/1 200:200+50/1",
         {7, 8, 9}},
        {"to the last byte of a part", {{0, 50, 50}}, "50:0+50/1", {7}},
        {"from the first byte of one", {{0, 100, 50}}, "100:0+50/1", {8}},
        {"pieces that touch across the border",
         {{0, 90, 10}, {10, 100, 10}},
         "90:0+10/1 100:10+10/1",
         {7, 8}},
        {"that touch on the remote side alone",
         {{0, 90, 10}, {500, 100, 10}},
         "90:0+10/1 100:500+10/1",
         {7, 8}},
        {"a piece that goes on behind it is followed in its part",
         {{0, 95, 10}, {300, 105, 10}},
         "95:0+5/1 100:5+5/1,300+10/1",
         {7, 8}},
    };
    const Keys local = two_keys();
    Storage storage;
    Chain chain = storage.chain();
    for (const auto &row : rows)
        for (const Dir dir : {Dir::put, Dir::get}) {
            CAPTURE(row.name);
            chain.build(dir, row.pieces, {}, remote, local, kLimits);
            CHECK(text_of(chain) == row.text);
            check_form(chain, dir == Dir::put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, remote);
            REQUIRE(chain.size() == row.rkeys.size());
            for (size_t i = 0; i < row.rkeys.size(); ++i)
                CHECK(chain.requests()[i].wr.rdma.rkey == row.rkeys[i]);
        }
}

TEST_CASE("a small write across a border is not inlined: it is two requests") {
    const uint32_t keys[] = {7, 8};
    const RemoteMemory remote{kRemote.base, keys, 100};
    Storage storage;
    Chain chain = storage.chain();
    const Piece across[] = {{0, 96, 8}}, beside[] = {{0, 100, 8}};
    chain.build(Dir::put, across, {}, remote, two_keys(), with_inline(10));
    CHECK(text_of(chain) == "96:0+4/1 100:4+4/1");
    chain.build(Dir::put, beside, {}, remote, two_keys(), with_inline(10));
    CHECK(text_of(chain) == "100:0+8/0i");
}

TEST_CASE("storage is a limit as well") {
    const Keys keys = two_keys();
    ibv_send_wr requests[2];
    ibv_sge elements[3];
    Chain chain(requests, elements);
    const Piece pieces[] = {{0, 0, 1}, {10, 1, 1}, {20, 10, 1}, {30, 11, 1}, {40, 50, 1}};
    CHECK(chain.build(Dir::put, pieces, {}, kRemote, keys, kLimits) == ChainPosition{3, 0});
    CHECK(text_of(chain) == "0:0+1/1,10+1/1 10:20+1/1");
    CHECK(chain.build(Dir::put, pieces, {3, 0}, kRemote, keys, kLimits) == ChainPosition{5, 0});
    CHECK(text_of(chain) == "11:30+1/1 50:40+1/1");
    ibv_send_wr many[8];
    Chain few_elements(many, std::span(elements).first(2));
    const Piece apart[] = {{0, 0, 1}, {10, 10, 1}, {20, 20, 1}};
    CHECK(few_elements.build(Dir::put, apart, {}, kRemote, keys, kLimits) == ChainPosition{2, 0});
}

TEST_CASE("what is inlined asks for no key") {
    Keys keys;
    Storage storage;
    Chain chain = storage.chain();
    const Piece small[] = {{100, 0, 10}};
    CHECK(chain.build(Dir::put, small, {}, kRemote, keys, with_inline(10)) == ChainPosition{1, 0});
    CHECK(chain.requests()[0].send_flags == (IBV_SEND_SIGNALED | IBV_SEND_INLINE));
    CHECK(keys.asked == 0);
}

TEST_CASE("a request never has more bytes than a message may") {
    Keys keys;
    keys.ranges[0] = {uint64_t{1} << 40, 1};
    ChainLimits limits = kLimits;
    limits.request_bytes = UINT64_MAX;
    Storage storage;
    Chain chain = storage.chain();
    const uint64_t half = uint64_t{1} << 31;
    const Piece huge[] = {{0, 0, 2 * half + 1}};
    CHECK(chain.build(Dir::put, huge, {}, kRemote, keys, limits) == ChainPosition{1, 0});
    REQUIRE(chain.size() == 3);
    CHECK(chain.requests()[0].sg_list->length == half);
    CHECK(chain.requests()[1].wr.rdma.remote_addr == kRemote.base + half);
    CHECK(chain.requests()[2].sg_list->length == 1);
}

TEST_CASE("a message is one request of one element, inlined where it may be") {
    Storage storage;
    Chain chain = storage.chain();
    const Piece before[] = {{0, 0, 10}, {20, 20, 10}};
    chain.build(Dir::put, before, {}, kRemote, two_keys(), kLimits);
    for (const uint32_t length : {1u, 10u, 11u, 1'000u}) {
        CAPTURE(length);
        chain.build_send(300, length, 5, with_inline(10));
        REQUIRE(chain.size() == 1);
        CHECK(chain.elements() == 1);
        CHECK(chain.bytes() == length);
        CHECK_FALSE(chain.lacks_key());
        const ibv_send_wr &request = chain.requests()[0];
        CHECK(request.opcode == IBV_WR_SEND);
        CHECK(request.next == nullptr);
        CHECK(request.num_sge == 1);
        CHECK(request.sg_list->addr == 300);
        CHECK(request.sg_list->length == length);
        CHECK(request.sg_list->lkey == 5);
        const unsigned inlined = length <= 10 ? IBV_SEND_INLINE : 0;
        CHECK(request.send_flags == (IBV_SEND_SIGNALED | inlined));
    }
    chain.build(Dir::put, before, {}, kRemote, two_keys(), kLimits);
    CHECK(text_of(chain) == "0:0+10/1 20:20+10/1");
}

TEST_CASE("where there is no room for a message, the chain is empty") {
    ibv_send_wr request;
    ibv_sge element;
    ChainLimits none = kLimits;
    none.requests = 0;
    Chain chain({&request, 1}, {&element, 1});
    chain.build_send(300, 8, 5, kLimits);
    CHECK(chain.size() == 1);
    chain.build_send(300, 8, 5, none);
    CHECK(chain.empty());
    CHECK(chain.bytes() == 0);
    Chain no_requests({}, {&element, 1}), no_elements({&request, 1}, {});
    no_requests.build_send(300, 8, 5, kLimits);
    CHECK(no_requests.empty());
    no_elements.build_send(300, 8, 5, kLimits);
    CHECK(no_elements.empty());
}

TEST_CASE("every byte goes where it belongs, whatever the pieces and the limits") {
    uint64_t chains = 0, merged = 0;
    for (uint32_t seed = 0; seed < 1'000; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const Dir dir = seed % 2 ? Dir::put : Dir::get;
        std::vector<uint8_t> local = random_memory(random, kMemory);
        std::vector<uint8_t> remote = random_memory(random, kMemory);
        const auto base = reinterpret_cast<uint64_t>(local.data());
        const std::vector<Piece> pieces = random_pieces(random, base);
        const Keys keys = random_keys(random, base);
        std::vector<uint8_t> expected_local = local, expected_remote = remote;
        for (const Piece &piece : pieces) {
            uint8_t *const here = expected_local.data() + (piece.local - base);
            uint8_t *const there = expected_remote.data() + piece.offset;
            std::memcpy(dir == Dir::put ? there : here, dir == Dir::put ? here : there,
                        piece.length);
        }
        const ChainLimits limits = random_limits(random);
        const RemoteParts parts(random);
        Storage storage;
        Chain chain = storage.chain();
        uint64_t bytes = 0;
        for (ChainPosition at; at.piece < pieces.size();) {
            const ChainPosition next = chain.build(dir, pieces, at, parts.memory, keys, limits);
            REQUIRE_FALSE(next == at);
            REQUIRE_FALSE(chain.lacks_key());
            at = next;
            check_form(chain, dir == Dir::put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, parts.memory);
            check_limits(chain, dir, limits, keys);
            apply(chain, remote);
            bytes += chain.bytes();
            ++chains;
            merged += chain.size() && chain.requests()[0].num_sge > 1;
        }
        uint64_t all = 0;
        for (const Piece &piece : pieces)
            all += piece.length;
        CHECK(bytes == all);
        CHECK(local == expected_local);
        CHECK(remote == expected_remote);
    }
    CHECK(chains > 2'000);
    CHECK(merged > 200);
}
