// SPDX-License-Identifier: Apache-2.0
// What core relies on of every path (transport/path.h), also of one that is one-sided: its ops have
// an import, and what it would be refused elsewhere it declines.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "ends.h"

using namespace xfer;
using namespace xfer::test;

namespace {

// Up to 64 chunks, each of memory and a place of its own.
struct Chunks {
    Chunks(Dir dir, size_t count, size_t bytes = kMaxChunk / 2)
        : bytes(bytes), local(pattern(count * bytes, 3)) {
        for (size_t i = 0; i < count; ++i)
            ops.emplace_back(dir, kRegion, std::vector<Piece>{{address(at(i)), i * bytes, bytes}});
    }
    uint8_t *at(size_t i) { return local.data() + i * bytes; }
    void post(Ends &ends) {
        for (TestOp &op : ops)
            ends.post(op);
        ends.flush();
    }
    const size_t bytes;
    std::vector<uint8_t> local;
    std::deque<TestOp> ops;
};

}  // namespace

TEST_CASE("puts and gets of every size arrive, also in pieces and with a checksum") {
    auto ends = make_ends();
    const auto checked = {false, true};
    for (const bool with_sum : checked) {
        for (const size_t bytes :
             {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, size_t{100'001}, size_t{kMaxChunk}}) {
            CAPTURE(bytes);
            const std::vector<uint8_t> data = pattern(bytes, static_cast<uint32_t>(bytes) + 1);
            std::vector<uint8_t> back(bytes);
            const size_t half = bytes / 2;
            TestOp put(Dir::put, kRegion,
                       {{address(data.data()), 5, half},
                        {address(data.data()) + half, 3 << 20, bytes - half}});
            TestOp get(Dir::get, kRegion,
                       {{address(back.data()), 5, half},
                        {address(back.data()) + half, 3 << 20, bytes - half}});
            put.checked = get.checked = with_sum;
            for (TestOp *op : {&put, &get}) {
                ends->post(*op);
                ends->flush();
                REQUIRE(ends->until([&] { return ends->is_done(*op); }));
                CHECK(ends->status_of(*op) == XFER_OK);
                ends->here.done.clear();
            }
            CHECK(back == data);
            CHECK(std::equal(data.begin() + static_cast<ptrdiff_t>(half), data.end(),
                             ends->memory.begin() + (3 << 20)));
        }
    }
}

TEST_CASE("an atomic is done once, in its order, and brings back what was there") {
    auto ends = make_ends();
    std::vector<uint8_t> first(8), then(8);
    store<uint64_t>(first.data(), 40);
    TestOp put(Dir::put, kRegion, {{address(first.data()), 16, 8}});
    std::deque<TestAtomic> ops;
    ops.emplace_back(AtomicOp::add, 16, 5);
    ops.emplace_back(AtomicOp::cas, 16, 7, 44);  // which it is not
    ops.emplace_back(AtomicOp::cas, 16, 7, 45);
    ops.emplace_back(AtomicOp::add, 16, UINT64_MAX);
    TestOp get(Dir::get, kRegion, {{address(then.data()), 16, 8}});
    ends->post(put);
    ends->flush();
    REQUIRE(ends->all_done(1));
    for (TestAtomic &op : ops) {
        ends->post(op);
        ends->flush();
        if (ends->one_sided) REQUIRE(ends->until([&] { return ends->is_done(op); }));
    }
    REQUIRE(ends->all_done(5));
    ends->post(get);
    ends->flush();
    REQUIRE(ends->all_done(6));
    const uint64_t before[] = {40, 45, 45, 7};
    for (size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(ends->times_done(ops[i]) == 1);
        CHECK(ends->status_of(ops[i]) == XFER_OK);
        CHECK(ops[i].before == before[i]);
    }
    CHECK(load<uint64_t>(then.data()) == 6);
}

TEST_CASE("an atomic that is canceled is done and says so, or is not done") {
    auto ends = make_ends();
    uint64_t done = 0, said = 0;
    for (int round = 0; round < 20; ++round) {
        std::deque<TestAtomic> ops;
        for (int i = 0; i < 64; ++i)
            ops.emplace_back(AtomicOp::add, 0, 1);
        ends->here.done.clear();
        for (size_t i = 0; i < ops.size(); ++i) {
            ends->post(ops[i]);
            if (i == static_cast<size_t>(3 * round)) {
                ends->flush();
                ends->pass(round % 3);
            }
        }
        for (TestAtomic &op : ops)
            if (!ends->is_done(op)) ends->inside([&] { return ends->cancel(op); });
        REQUIRE(ends->all_done(ops.size()));
        for (const TestAtomic &op : ops) {
            CHECK(ends->times_done(op) == 1);
            const Status status = ends->status_of(op);
            CHECK((status == XFER_OK || status == XFER_ECANCELED));
            if (status == XFER_OK) CHECK(op.before < 20 * 64);
            done += status == XFER_OK;
        }
        said += ops.size();
    }
    ends->pass(5);
    CHECK(load<uint64_t>(ends->memory.data()) == done);
    CHECK(done < said);
}

TEST_CASE(
    "as many operations are taken as the peer allows, each ends once, and then there is room") {
    auto ends = make_ends();
    for (const Dir dir : {Dir::put, Dir::get}) {
        Chunks chunks(dir, 64);
        if (dir == Dir::get) ends->fill_memory(pattern(8 << 20, 9));
        chunks.post(*ends);
        TestOp more(dir, kRegion, {{address(chunks.local.data()), 0, 1}});
        REQUIRE(!ends->takes(more));
        REQUIRE(ends->all_done(64));
        for (const TestOp &op : chunks.ops) {
            CHECK(ends->times_done(op) == 1);
            CHECK(ends->status_of(op) == XFER_OK);
        }
        CHECK(std::equal(chunks.local.begin(), chunks.local.end(), ends->memory.begin()));
        ends->here.done.clear();
        ends->post(more);
        ends->flush();
        REQUIRE(ends->all_done(1));
        ends->here.done.clear();
    }
}

TEST_CASE("what is canceled before it was flushed does not happen") {
    auto ends = make_ends();
    std::vector<uint8_t> data = pattern(5000, 1);
    TestOp first(Dir::put, kRegion, {{address(data.data()), 0, 5000}});
    TestOp second(Dir::put, kRegion, {{address(data.data()), 5000, 5000}});
    ends->post(first);
    ends->post(second);
    CHECK(ends->inside([&] { return ends->cancel(first); }));
    ends->flush();
    REQUIRE(ends->all_done(2));
    CHECK(ends->status_of(first) == XFER_ECANCELED);
    CHECK(ends->status_of(second) == XFER_OK);
    CHECK(std::all_of(ends->memory.begin(), ends->memory.begin() + 5000,
                      [](uint8_t byte) { return byte == 0; }));
}

// Quiet: at once where cancel() says so, else with on_done.
TEST_CASE("of what is canceled at any moment, local memory is quiet, and it ends once") {
    auto ends = make_ends();
    for (const Dir dir : {Dir::put, Dir::get}) {
        for (int round = 0; round < 40; ++round) {
            ends->here.done.clear();
            Chunks chunks(dir, 8);
            chunks.post(*ends);
            ends->pass(round % 10);
            const auto rewrite = [&](size_t i) {
                std::fill_n(chunks.at(i), chunks.bytes, kRewritten);
            };
            std::vector<bool> rewritten(8);
            for (size_t i = 0; i < 8; ++i) {
                if (ends->is_done(chunks.ops[i])) continue;
                rewritten[i] = ends->inside([&] { return ends->cancel(chunks.ops[i]); });
                if (rewritten[i]) rewrite(i);
            }
            REQUIRE(ends->all_done(8));
            for (size_t i = 0; i < 8; ++i) {
                CHECK(ends->times_done(chunks.ops[i]) == 1);
                const Status status = ends->status_of(chunks.ops[i]);
                CHECK((status == XFER_OK || status == XFER_ECANCELED));
                if (!rewritten[i]) rewrite(i);
            }
            TestOp after(Dir::put, kRegion, {{address(chunks.local.data()), 4 << 20, 8}});
            std::fill_n(chunks.local.data(), 8, uint8_t{1});
            ends->post(after);
            ends->flush();
            REQUIRE(ends->all_done(9));  // whatever was on its way is there
            std::fill_n(chunks.local.data(), 8, kRewritten);
            CHECK(!has_rewritten(ends->memory.data(), 8 * chunks.bytes));
            CHECK(std::all_of(chunks.local.begin(), chunks.local.end(),
                              [](uint8_t byte) { return byte == kRewritten; }));
        }
    }
}

TEST_CASE("when a region has ended nothing lands in it, and what comes later is refused") {
    for (int moment = 0; moment < 24; ++moment) {
        auto ends = make_ends();
        Chunks chunks(Dir::put, 16);
        chunks.post(*ends);
        ends->pass(moment);
        ends->end_region();
        const std::vector<uint8_t> then = ends->memory;
        REQUIRE(ends->all_done(16));
        TestOp late(Dir::put, kRegion, {{address(chunks.local.data()), 0, 100}});
        ends->post(late);
        ends->flush();
        REQUIRE(ends->all_done(17));
        CHECK(ends->is_refused(late, XFER_ESTALE));
        CHECK(ends->memory == then);
        for (size_t i = 0; i < 16; ++i) {
            CHECK(ends->times_done(chunks.ops[i]) == 1);
            const Status status = ends->status_of(chunks.ops[i]);
            if (status == XFER_OK)
                CHECK(std::equal(chunks.at(i), chunks.at(i) + chunks.bytes,
                                 then.begin() + static_cast<ptrdiff_t>(i * chunks.bytes)));
            else
                CHECK(ends->is_refused(chunks.ops[i], XFER_ESTALE));
        }
    }
}

TEST_CASE("when a region has ended nothing is read from it any more") {
    for (int moment = 0; moment < 17; ++moment) {
        auto ends = make_ends();
        ends->fill_memory(pattern(8 << 20, 4));
        Chunks chunks(Dir::get, 16);
        chunks.post(*ends);
        ends->pass(moment);
        ends->end_region();
        std::fill(ends->memory.begin(), ends->memory.end(), kRewritten);
        REQUIRE(ends->all_done(16));
        CHECK(!has_rewritten(chunks.local.data(), chunks.local.size()));
    }
}

TEST_CASE(
    "the end of its channel ends every operation once, then the path, and local memory is quiet") {
    for (int moment = 0; moment < 16; ++moment) {
        auto ends = make_ends();
        Chunks puts(Dir::put, 16), gets(Dir::get, 16);
        puts.post(*ends);
        gets.post(*ends);
        ends->pass(moment);
        ends->inside([&] { return ends->channel->close({XFER_ECLOSED, 0, 0, "enough"}), true; });
        REQUIRE(ends->until([&] { return ends->here.down && ends->there().down; }));
        CHECK(ends->here.down->status == XFER_ECLOSED);
        REQUIRE(ends->here.done.size() == 32);
        CHECK(ends->here.paths_down == (ends->channel->one_sided() ? 2 : 1));
        for (const Chunks *chunks : {&puts, &gets})
            for (const TestOp &op : chunks->ops) {
                CHECK(ends->times_done(op) == 1);
                const Status status = ends->status_of(op);
                CHECK((status == XFER_OK || status == XFER_EPEERLOST));
            }
        std::fill(puts.local.begin(), puts.local.end(), kRewritten);
        ends->pass(20);
        CHECK(!has_rewritten(ends->memory.data(), puts.local.size()));
        TestOp late(Dir::put, kRegion, {{address(puts.local.data()), 0, 100}});
        CHECK(!ends->takes(late));
    }
}

TEST_CASE("the channel may be closed from inside the end of an operation") {
    auto ends = make_ends();
    Chunks chunks(Dir::put, 64);
    ends->here.done_hook = [&](Op &op, Status) {
        if (&op != &chunks.ops[2]) return;
        ends->channel->close({XFER_ECLOSED, 0, 0, "enough"});
        if (!ends->is_done(chunks.ops[63])) ends->cancel(chunks.ops[63]);
    };
    chunks.post(*ends);
    REQUIRE(ends->until([&] { return ends->here.down.has_value(); }));
    CHECK(ends->here.done.size() == 64);
    for (const TestOp &op : chunks.ops)
        CHECK(ends->times_done(op) == 1);
}

TEST_SUITE_BEGIN("requests");

TEST_CASE("what its owner does not allow is refused, and touches nothing; the rest goes on") {
    auto ends = make_ends();
    std::vector<uint8_t> data = pattern(5000, 1), untouched(5000);
    TestOp stale(Dir::put, 99, {{address(data.data()), 0, 5000}});
    TestOp wrong_key(Dir::put, kRegion, {{address(data.data()), 0, 5000}}, kKey + 1);
    TestOp past(Dir::put, kRegion,
                {{address(data.data()), 0, 2000}, {address(data.data()), (8 << 20) - 1, 2}});
    TestOp wraps(Dir::get, kRegion, {{address(data.data()), UINT64_MAX - 1, 5}});
    TestOp good(Dir::put, kRegion, {{address(data.data()), 5000, 5000}});
    for (TestOp *op : {&stale, &wrong_key, &past, &wraps, &good})
        ends->post(*op);
    TestAtomic stale_word(AtomicOp::add, 24, 3, 0, 99), past_word(AtomicOp::add, 8 << 20, 3);
    TestAtomic across(AtomicOp::add, 12, 3);
    for (TestAtomic *op : {&stale_word, &past_word, &across})
        ends->post(*op);
    ends->flush();
    REQUIRE(ends->all_done(8));
    CHECK(ends->status_of(stale) == XFER_ESTALE);
    CHECK(ends->status_of(wrong_key) == XFER_EACCESS);
    CHECK(ends->status_of(past) == XFER_ERANGE);
    CHECK(ends->status_of(wraps) == XFER_ERANGE);
    CHECK(ends->status_of(good) == XFER_OK);
    CHECK(ends->status_of(stale_word) == XFER_ESTALE);
    CHECK(ends->status_of(past_word) == XFER_ERANGE);
    CHECK(ends->status_of(across) == XFER_EINVAL);
    CHECK(std::equal(untouched.begin(), untouched.end(), ends->memory.begin()));
    CHECK(std::equal(data.begin(), data.end(), ends->memory.begin() + 5000));
    CHECK(data == pattern(5000, 1));
}

TEST_CASE("the owner hears of each request that was applied or answered, and of no other") {
    auto ends = make_ends();
    std::vector<uint8_t> data = pattern(5000, 1);
    TestOp put(Dir::put, kRegion, {{address(data.data()), 0, 5000}});
    TestOp get(Dir::get, kRegion, {{address(data.data()), 100, 700}});
    TestOp refused(Dir::put, 99, {{address(data.data()), 0, 5000}});
    TestAtomic add(AtomicOp::add, 8, 3);
    for (TestOp *op : {&put, &get, &refused, static_cast<TestOp *>(&add)})
        ends->post(*op);
    ends->flush();
    REQUIRE(ends->all_done(4));
    REQUIRE(ends->until([&] { return ends->there().served == 3; }));
    CHECK(ends->there().served_put == 5000);
    CHECK(ends->there().served_get == 700);
    CHECK(ends->there().accesses == 4);
}

TEST_SUITE_END();
