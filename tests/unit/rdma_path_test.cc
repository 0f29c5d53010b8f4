// SPDX-License-Identifier: Apache-2.0
// Paths of queue pairs on adapters that are stricter than any device: that bytes go where they
// should, and that each operation ends once.
#include "transport/rdma/path.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "rdma_paths.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kRegion = 7;
constexpr uint64_t kPart = 128 * 1024;

FakeAdapterOptions with_sends(uint32_t granted) {
    FakeAdapterOptions options;
    options.granted_sends = granted;
    return options;
}

// Pieces of every kind, one behind the other on the local side, apart on the remote one.
std::vector<Piece> pieces_of(const Octets &local, const std::vector<uint64_t> &lengths) {
    std::vector<Piece> pieces;
    uint64_t at = 0, offset = 0;
    for (const uint64_t length : lengths) {
        pieces.push_back({address(local.data()) + at, offset, length});
        at += length;
        offset += length + 3;
    }
    return pieces;
}

const std::vector<std::vector<uint64_t>> kShapes = {
    {1},
    {220},
    {221},
    {0},
    {0, 0, 5, 0},
    {5, 0},
    {4096, 1, 8192},
    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20},
    std::vector<uint64_t>(512, 16),
    {kMaxChunk},
};

Status put_or_get(Paths &paths, Dir dir, const std::vector<Piece> &pieces) {
    TestOp op(dir, kRegion, pieces);
    REQUIRE(paths.post(*paths.near, op));
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    CHECK(paths.near->declined.empty());
    CHECK(paths.near->times_done(op) == 1);
    CHECK(op.moved == Moved::adapter);
    const Status status = paths.near->status_of(op);
    paths.near->done.clear();
    return status;
}

void check_shapes(Paths &paths, Octets &local, Octets &remote) {
    uint32_t seed = 0;
    for (const auto &lengths : kShapes) {
        CAPTURE(lengths.size());
        CAPTURE(lengths[0]);
        const auto pieces = pieces_of(local, lengths);
        fill(remote, ++seed);
        fill(local, ++seed);
        Octets expected = remote, given = local;
        for (const Piece &piece : pieces)
            std::copy_n(&given[piece.local - address(local.data())], piece.length,
                        &expected[piece.offset]);
        CHECK(put_or_get(paths, Dir::put, pieces) == XFER_OK);
        CHECK(remote == expected);
        CHECK(local == given);
        fill(remote, ++seed);
        expected = remote;
        for (const Piece &piece : pieces)
            std::copy_n(&expected[piece.offset], piece.length,
                        &given[piece.local - address(local.data())]);
        CHECK(put_or_get(paths, Dir::get, pieces) == XFER_OK);
        CHECK(local == given);
        CHECK(remote == expected);
    }
}

// Pages that can be taken away.
struct Pages {
    explicit Pages(size_t size_of) : size(size_of) {
        base = static_cast<uint8_t *>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(base != MAP_FAILED);
    }
    ~Pages() {
        if (base) ::munmap(base, size);
    }
    void unmap() { ::mprotect(base, size, PROT_NONE); }
    const size_t size;
    uint8_t *base;
};

}  // namespace

// ---- bytes

TEST_CASE("both ends are ready, whichever begins") {
    for (const bool far_first : {false, true}) {
        Paths paths;
        REQUIRE(paths.begin(far_first) == XFER_OK);
        CHECK_FALSE(paths.near->ready);
        REQUIRE(paths.until([&] { return paths.both_ready(); }));
        const Caps caps = paths.near->path->caps();
        CHECK(caps.scope == Scope::fabric);
        CHECK(caps.max_ops > 0);
        CHECK(caps.max_ops <= 64);
        CHECK_FALSE(paths.near->path->sees_use());
    }
}

TEST_CASE("puts and gets of every shape") {
    FakeAdapterOptions options;
    QueuePairOptions pair;
    SUBCASE("with depth and pieces as asked") {}
    SUBCASE("depth 1") {
        options.granted_sends = 2;
    }
    SUBCASE("depth 2") {
        options.granted_sends = 3;
    }
    SUBCASE("depth 3") {
        options.granted_sends = 4;
    }
    SUBCASE("nothing is inlined") {
        options.inline_bytes = 0;
    }
    SUBCASE("one piece for each request") {
        options.limits.send_pieces = 1;
    }
    SUBCASE("reads of one piece") {
        options.limits.read_pieces = 1;
    }
    SUBCASE("requests of a few bytes") {
        options.message_bytes = 16'384;
    }
    SUBCASE("few reads at once") {
        options.limits.reads_out = options.limits.reads_in = 1;
    }
    for (const bool registered : {true, false}) {
        CAPTURE(registered);
        Octets local(kMaxChunk), remote(kMaxChunk + 4096);
        Paths paths({}, options, options, pair);
        paths.open();
        paths.share(*paths.far, kRegion, remote);
        if (registered) paths.inside([&] { paths.near->add_region(1, local); });
        paths.warm_up(*paths.near, kRegion, local);
        check_shapes(paths, local, remote);
        paths.close();
    }
}

TEST_CASE("a region in several parts is reached in each, and across them") {
    FakeAdapterOptions options;
    options.limits.region_bytes = kPart;
    Octets local(kMaxChunk), remote(16 * kPart - 777);
    Paths paths({}, options, options);
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.inside([&] { paths.near->add_region(1, local); });  // in two parts
    paths.warm_up(*paths.near, kRegion, local, local.size());
    for (const uint64_t offset :
         {uint64_t{0}, kPart - 1, 7 * kPart - 50'000, 9 * kPart, remote.size() - local.size()}) {
        fill(local, static_cast<uint32_t>(offset));
        CHECK(put_or_get(paths, Dir::put, {{address(local.data()), offset, local.size()}}) ==
              XFER_OK);
        CHECK(std::equal(local.begin(), local.end(), remote.begin() + static_cast<long>(offset)));
        const Octets given = local;
        std::fill(local.begin(), local.end(), uint8_t{0});
        CHECK(put_or_get(paths, Dir::get, {{address(local.data()), offset, local.size()}}) ==
              XFER_OK);
        CHECK(local == given);
    }
}

TEST_CASE("a put that would fit inline, but spans two parts, has keys like any other") {
    FakeAdapterOptions options;
    options.limits.region_bytes = kPart;
    Octets local(64), remote(2 * kPart);
    Paths paths({}, options, options);
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.warm_up(*paths.near, kRegion, local);
    fill(local, 1);
    for (const uint64_t offset : {kPart - 1, kPart - 63, kPart}) {
        CHECK(put_or_get(paths, Dir::put, {{address(local.data()), offset, 64}}) == XFER_OK);
        CHECK(std::equal(local.begin(), local.end(), remote.begin() + static_cast<long>(offset)));
    }
}

TEST_CASE("a region in more parts than a key has room for is not exported") {
    FakeAdapterOptions options;
    options.limits.region_bytes = kPart;
    Octets remote(kMaxParts * kPart + 1);
    Paths paths({}, options, options);
    paths.open();
    paths.inside([&] { paths.far->add_region(kRegion, remote); });
    Status status = XFER_EAGAIN;
    REQUIRE(paths.until([&] {
        return paths.inside([&] {
            auto key = paths.far->key_of(kRegion);
            status = key ? XFER_OK : key.error().status;
            return status != XFER_EAGAIN;
        });
    }));
    CHECK(status == XFER_EUNSUPPORTED);
}

TEST_CASE("ranges outside of the region are declined, and nothing moves") {
    Octets local(64, 1), remote(64, 2);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    const FakePosts before = paths.fabric.posts();
    for (const Piece &piece :
         {Piece{address(local.data()), 1, 64}, Piece{address(local.data()), 64, 1},
          Piece{address(local.data()), 65, 0}, Piece{address(local.data()), UINT64_MAX, 2}}) {
        TestOp op(Dir::put, kRegion, {piece});
        REQUIRE(paths.post(*paths.near, op));
        REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
        CHECK(paths.near->declined == std::vector<Op *>{&op});
        CHECK_FALSE(op.sent);
        paths.near->declined.clear();
    }
    CHECK(paths.fabric.posts().calls == before.calls);
    CHECK(remote == Octets(64, 2));
}

TEST_CASE("as many operations as there are places, in their order, on a short queue") {
    for (const uint32_t granted : {2u, 3u, 4u, 26u}) {
        CAPTURE(granted);
        Octets local(64 * 1024), remote(64 * 1024);
        fill(local, 1);
        Paths paths({}, with_sends(granted), with_sends(granted));
        paths.open();
        paths.share(*paths.far, kRegion, remote);
        paths.inside([&] { paths.near->add_region(1, local); });
        paths.warm_up(*paths.near, kRegion, local);
        std::deque<TestOp> ops;
        uint64_t at = 0;
        for (int i = 0; i < 64; ++i) {
            std::vector<Piece> pieces;
            for (int k = 0; k < 40; ++k, at += 20)
                pieces.push_back({address(local.data()) + at, at, 19});
            TestOp &op = make(ops, Dir::put, kRegion, pieces);
            REQUIRE(paths.post(*paths.near, op));
        }
        TestOp more(Dir::put, kRegion, {{address(local.data()), 0, 1}});
        CHECK_FALSE(paths.post(*paths.near, more));
        REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
        REQUIRE(paths.near->done.size() == 64);
        for (size_t i = 0; i < 64; ++i)
            CHECK(paths.near->done[i] == Side::Done{&ops[i], XFER_OK});
        for (uint64_t i = 0; i < at; ++i)
            if (remote[i] != (i % 20 == 19 ? 0 : local[i])) FAIL("byte ", i);
    }
}

TEST_CASE("both sides at once, and ops that are posted where others are done") {
    Octets near_memory(1 << 16), far_memory(1 << 16);
    Paths paths({}, with_sends(4), with_sends(4));
    paths.open();
    paths.share(*paths.far, kRegion, far_memory);
    paths.share(*paths.near, 8, near_memory);
    Octets local(4096), other(4096);
    std::deque<TestOp> ops;
    int left = 500;
    const auto again = [&](Side &side, uint64_t region, Octets &from) {
        if (left-- <= 0) return;
        const Dir dir = left % 3 ? Dir::put : Dir::get;
        TestOp &op = make(ops, dir, region,
                          {{address(from.data()), 0, 300}, {address(from.data()) + 300, 512, 200}});
        REQUIRE(paths.post(side, op));
    };
    paths.warm_up(*paths.near, kRegion, local);
    paths.warm_up(*paths.far, 8, other);
    // Not from inside: the methods of a path may be called there, too.
    paths.near->on_op = [&](Op &) { again(*paths.near, kRegion, local); };
    paths.far->on_op = [&](Op &) { again(*paths.far, 8, other); };
    for (int i = 0; i < 10; ++i)
        again(*paths.near, kRegion, local), again(*paths.far, 8, other);
    REQUIRE(paths.until(
        [&] { return left <= 0 && paths.near->posted.empty() && paths.far->posted.empty(); }));
    CHECK(paths.near->done.size() + paths.far->done.size() == ops.size());
    for (const Side *side : {paths.near.get(), paths.far.get()})
        for (const Side::Done &done : side->done)
            CHECK(done.status == XFER_OK);
    paths.near->on_op = paths.far->on_op = nullptr;
}

// ---- memory of this side

TEST_CASE("memory that is mapped for reading alone can be put, and no get lands there") {
    Octets remote(8192);
    Pages pages(8192);
    std::memset(pages.base, 5, pages.size);
    ::mprotect(pages.base, pages.size, PROT_READ);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    Octets other(1);
    paths.warm_up(*paths.near, kRegion, other);  // bounce buffers are there
    CHECK(put_or_get(paths, Dir::put, {{address(pages.base), 0, pages.size}}) == XFER_OK);
    CHECK(remote == Octets(8192, 5));
    TestOp get(Dir::get, kRegion, {{address(pages.base), 0, pages.size}});
    REQUIRE(paths.post(*paths.near, get));
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    CHECK(paths.near->status_of(get) != XFER_OK);
    CHECK(get.unmapped);
}

TEST_CASE("memory that is not there is an error of its operation, and of nothing else") {
    Octets remote(16'384, 9), other(16'384, 3);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.warm_up(*paths.near, kRegion, other);
    for (const Dir dir : {Dir::put, Dir::get}) {
        Pages pages(8192);
        std::memset(pages.base, 4, pages.size);
        ::mprotect(pages.base + 4096, 4096, PROT_NONE);
        TestOp op(dir, kRegion, {{address(pages.base), 0, pages.size}});
        REQUIRE(paths.post(*paths.near, op));
        REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
        CHECK(paths.near->times_done(op) == 1);
        CHECK(paths.near->status_of(op) == XFER_EIO);
        CHECK(op.unmapped);
        CHECK(remote == Octets(16'384, 9));
        paths.near->done.clear();
    }
    CHECK(put_or_get(paths, Dir::put, {{address(other.data()), 0, other.size()}}) == XFER_OK);
    CHECK(remote == other);
    CHECK(paths.near->path);
    CHECK_FALSE(paths.near->down);
}

TEST_CASE("memory that goes before a get comes back is an error of it alone") {
    Octets remote(8192, 9), other(1);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.warm_up(*paths.near, kRegion, other);
    Pages pages(8192);
    paths.stalled = true;
    TestOp op(Dir::get, kRegion, {{address(pages.base), 0, pages.size}});
    REQUIRE(paths.post(*paths.near, op));
    pages.unmap();
    paths.stalled = false;
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    CHECK(paths.near->status_of(op) == XFER_EIO);
    CHECK(op.unmapped);
    CHECK_FALSE(paths.near->down);
}

TEST_CASE("where no bounce buffer is free, or ever there, what needs one is declined") {
    Octets remote(kMaxChunk), local(kMaxChunk);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    SUBCASE("not yet") {
        TestOp op(Dir::get, kRegion, {{address(local.data()), 0, kMaxChunk}});
        REQUIRE(paths.post(*paths.near, op));
        REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
        CHECK(paths.near->declined.size() == 1);
        CHECK_FALSE(op.sent);
    }
    SUBCASE("never") {
        paths.fabric.fail_call(FakeCall::reg_mr, 1, ENOMEM);
        for (int i = 0; i < 5; ++i) {
            TestOp op(Dir::get, kRegion, {{address(local.data()), 0, kMaxChunk}});
            REQUIRE(paths.post(*paths.near, op));
            REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
            paths.settle();
        }
        CHECK(paths.near->declined.size() == 5);
    }
    SUBCASE("all are in use") {
        paths.warm_up(*paths.near, kRegion, local);
        paths.stalled = true;
        std::deque<TestOp> ops;
        for (int i = 0; i < 64; ++i)
            REQUIRE(paths.post(*paths.near, make(ops, Dir::get, kRegion,
                                                 {{address(local.data()), 0, kMaxChunk}})));
        paths.stalled = false;
        REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
        CHECK(paths.near->done.size() + paths.near->declined.size() == 64);
        CHECK(paths.near->done.size() >= 60);
    }
    CHECK_FALSE(paths.near->down);
}

TEST_CASE("a put that fits inline needs no key, and is read before the post returns") {
    Octets remote(64), local(64, 3);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.stalled = true;
    TestOp op(Dir::put, kRegion, {{address(local.data()), 0, 64}});
    REQUIRE(paths.post(*paths.near, op));
    std::fill(local.begin(), local.end(), uint8_t{8});
    paths.stalled = false;
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    CHECK(paths.near->status_of(op) == XFER_OK);
    CHECK(remote == Octets(64, 3));
}
