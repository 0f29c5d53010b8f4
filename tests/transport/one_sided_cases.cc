// SPDX-License-Identifier: Apache-2.0
// What core relies on of a path that reaches regions without their owner (transport/one_sided.h),
// beside what it does of every path. Of its channel they need nothing: keys are handed over here.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "ends.h"

using namespace xfer;
using namespace xfer::test;

namespace {

constexpr size_t kBytes = 5000;

struct OneSided {
    OneSided() : ends(make_ends()), local(pattern(kBytes, 1)) {}
    TestOp put(uint64_t offset = 0) {
        return TestOp(Dir::put, kRegion, {{address(local.data()), offset, kBytes}});
    }
    bool is_there(uint64_t offset = 0) const {
        return std::equal(local.begin(), local.end(),
                          ends->memory.begin() + static_cast<ptrdiff_t>(offset));
    }
    bool is_untouched() const {
        return std::all_of(ends->memory.begin(), ends->memory.end(),
                           [](uint8_t byte) { return byte == 0; });
    }
    // It has come back, once, for another path to do it.
    void check_declined(const Op &op) {
        REQUIRE(ends->until([&] { return ends->is_done(op); }));
        ends->pass(10);
        CHECK(ends->times_done(op) == 1);
        CHECK(ends->is_declined(op));
    }
    std::unique_ptr<Ends> ends;
    std::vector<uint8_t> local;
};

}  // namespace

TEST_SUITE_BEGIN("one-sided");

TEST_CASE("the owner is asked for nothing, and hears of nothing") {
    OneSided at;
    TestOp put = at.put();
    TestAtomic add(AtomicOp::add, 8192, 3);
    at.ends->post(put);
    at.ends->post(add);
    at.ends->flush();
    REQUIRE(at.ends->all_done(2));
    CHECK(at.ends->status_of(put) == XFER_OK);
    CHECK(at.ends->status_of(add) == XFER_OK);
    CHECK(at.is_there());
    CHECK(put.sent);
    CHECK(put.moved != Moved::frames);
    CHECK(at.ends->there().accesses == 0);
    CHECK(at.ends->there().served == 0);
}

TEST_CASE("a region that is exported again has the same key, until it ends") {
    OneSided at;
    const ExportKey first = at.ends->key_of(kRegion), again = at.ends->key_of(kRegion);
    CHECK(std::equal(first.begin(), first.end(), again.begin(), again.end()));
    std::vector<uint8_t> other(100);
    at.ends->there().regions[kRegion + 1] = &other;
    const ExportKey next = at.ends->key_of(kRegion + 1);
    CHECK_FALSE(std::equal(first.begin(), first.end(), next.begin(), next.end()));
    CHECK(at.ends->owner().retire(RegionId{kRegion}, XFER_ESTALE));
    const ExportKey later = at.ends->key_of(kRegion);
    CHECK_FALSE(std::equal(first.begin(), first.end(), later.begin(), later.end()));
}

TEST_CASE("each import of a key reaches the region") {
    OneSided at;
    const ExportKey key = at.ends->key_of(kRegion);
    for (uint64_t i = 0; i < 3; ++i) {
        auto import = at.ends->import({key.begin(), key.size()});
        REQUIRE(import);
        CHECK(bool(import->access & XFER_WRITE));
        TestOp put = at.put(i * kBytes);
        at.ends->post(put, *import);
        at.ends->flush();
        REQUIRE(at.ends->until([&] { return at.ends->is_done(put); }));
        CHECK(at.ends->status_of(put) == XFER_OK);
        CHECK(at.is_there(i * kBytes));
        at.ends->forget();
        at.ends->drop(std::move(import));
    }
}

// By no key: its length is wrong, any byte of it is, or it is of another life of the region.
TEST_CASE("a key that is none imports nothing, or what reaches nothing") {
    OneSided at;
    const ExportKey good = at.ends->key_of(kRegion);
    const std::vector<uint8_t> bytes(good.begin(), good.end());
    CHECK(!at.ends->import({}));
    CHECK(!at.ends->import({bytes.data(), bytes.size() - 1}));
    std::vector<uint8_t> longer = bytes;
    longer.push_back(0);
    CHECK(!at.ends->import(longer));
    std::mt19937 dice(7);
    for (int round = 0; round < 2'000; ++round) {
        std::vector<uint8_t> noise(round % 2 ? bytes.size() : dice() % (kMaxExportKey + 1));
        for (uint8_t &byte : noise)
            byte = static_cast<uint8_t>(dice());
        auto import = at.ends->import(noise);
        if (!import) continue;
        TestOp put = at.put();
        at.ends->post(put, *import);
        at.ends->flush();
        at.check_declined(put);
        at.ends->forget();
        at.ends->drop(std::move(import));
    }
    CHECK(at.is_untouched());
    CHECK(!at.ends->here.down);
    TestOp put = at.put();
    at.ends->post(put);
    at.ends->flush();
    REQUIRE(at.ends->until([&] { return at.ends->is_done(put); }));
    CHECK(at.is_there());
}

TEST_CASE("what its owner would refuse is declined, and touches nothing") {
    OneSided at;
    TestOp past(Dir::put, kRegion, {{address(at.local.data()), (8 << 20) - kBytes + 1, kBytes}});
    TestOp wraps(Dir::get, kRegion, {{address(at.local.data()), UINT64_MAX - 1, 5}});
    TestOp half(Dir::put, kRegion,
                {{address(at.local.data()), 0, 100}, {address(at.local.data()), 8 << 20, 1}});
    TestAtomic across(AtomicOp::add, 12, 3), behind(AtomicOp::add, 8 << 20, 3);
    for (TestOp *op :
         {&past, &wraps, &half, static_cast<TestOp *>(&across), static_cast<TestOp *>(&behind)}) {
        at.ends->post(*op);
        at.ends->flush();
        at.check_declined(*op);
        CHECK_FALSE(op->canceled);
    }
    CHECK(at.is_untouched());
    CHECK(at.local == pattern(kBytes, 1));
}

TEST_CASE("what was posted with an import that is dropped is declined") {
    OneSided at;
    TestOp put = at.put();
    at.ends->post(put);
    at.ends->drop(std::move(at.ends->imported));
    at.ends->flush();
    at.check_declined(put);
    CHECK(at.is_untouched());
    const ExportKey key = at.ends->key_of(kRegion);
    at.ends->imported = at.ends->import({key.begin(), key.size()});
    REQUIRE(at.ends->imported);
    TestOp after = at.put();
    at.ends->post(after);
    at.ends->flush();
    REQUIRE(at.ends->until([&] { return at.ends->is_done(after); }));
    CHECK(at.is_there());
}

// The word of it comes before or behind what is posted, or never.
TEST_CASE("a region that has ended is not reached, whether its initiator knows or not") {
    for (const int known : {0, 1, 2}) {
        CAPTURE(known);
        OneSided at;
        TestOp before = at.put(), after = at.put();
        at.ends->post(before);
        at.ends->end_region();
        if (known) at.ends->side().withdrawn({kRegion});
        if (known == 2) at.ends->side().withdrawn({kRegion});
        at.ends->post(after);
        at.ends->flush();
        at.check_declined(before);
        at.check_declined(after);
        CHECK(at.is_untouched());
    }
}

TEST_CASE("a region of which nothing was exported, or that has ended, is quiet at once") {
    OneSided at;
    CHECK(at.ends->owner().retire(RegionId{99}, XFER_ESTALE));
    CHECK(at.ends->owner().retire(MessageId{5}, XFER_ESTALE));
    at.ends->end_region();
    CHECK(at.ends->owner().retire(RegionId{kRegion}, XFER_ESTALE));
    at.ends->side().withdrawn({99});
    at.ends->pass(10);
    CHECK(at.ends->there().quiet.size() <= 1);
}

// It is told once, and from then on nothing of it is read or written.
TEST_CASE("the end of a region waits for what is copied, and no longer") {
    for (int moment = 0; moment < 30; ++moment) {
        OneSided at;
        std::deque<TestOp> puts;
        for (uint64_t i = 0; i < 20; ++i) {
            puts.emplace_back(Dir::put, kRegion,
                              std::vector<Piece>{{address(at.local.data()), i * kBytes, kBytes}});
            at.ends->post(puts.back());
        }
        at.ends->flush();
        at.ends->pass(moment);
        const size_t told = at.ends->there().quiet.size();
        at.ends->end_region();
        const std::vector<uint8_t> then = at.ends->memory;
        REQUIRE(at.ends->all_done(20));
        at.ends->pass(20);
        CHECK(at.ends->memory == then);
        CHECK(at.ends->there().quiet.size() <= told + 1);
        for (const TestOp &op : puts)
            CHECK((at.ends->is_declined(op) || at.ends->status_of(op) == XFER_OK));
    }
}

TEST_CASE("a canceled operation has one end, and is left alone when that says so") {
    for (int moment = 0; moment < 20; ++moment) {
        OneSided at;
        TestOp put = at.put();
        at.ends->post(put);
        if (moment % 2) at.ends->drop(std::move(at.ends->imported));
        if (moment) at.ends->flush();
        at.ends->pass(moment / 2);
        const bool was_done = at.ends->is_done(put);
        const bool quiet = !was_done && at.ends->inside([&] { return at.ends->cancel(put); });
        if (quiet) std::fill(at.local.begin(), at.local.end(), kRewritten);
        at.ends->flush();
        REQUIRE(at.ends->until([&] { return at.ends->is_done(put); }));
        at.ends->pass(10);
        CHECK(at.ends->times_done(put) == 1);
        CHECK(!has_rewritten(at.ends->memory.data(), kBytes));
    }
}

TEST_CASE("when its channel ends the path exports nothing, imports nothing and takes nothing") {
    OneSided at;
    const ExportKey key = at.ends->key_of(kRegion);
    at.ends->channel->close({XFER_ECLOSED, 0, 0, "enough"});
    at.ends->back().close({XFER_ECLOSED, 0, 0, "enough"});
    REQUIRE(at.ends->until([&] { return at.ends->here.down && at.ends->there().down; }));
    std::vector<uint8_t> other(100);
    at.ends->there().regions[kRegion + 1] = &other;
    for (const uint64_t region : {kRegion, kRegion + 1})
        CHECK(!at.ends->owner_side().export_region({region}, at.ends->there().memory_of(region)));
    CHECK(!at.ends->import({key.begin(), key.size()}));
    TestOp put = at.put();
    CHECK_FALSE(at.ends->takes(put));
}

TEST_SUITE_END();
