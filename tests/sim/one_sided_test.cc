// SPDX-License-Identifier: Apache-2.0
// What core does with a path that reaches regions without their owner: what it declines, refuses or
// can't export goes on as a request, and nobody notices.
#include "near_pair.h"

using namespace xfer;

namespace {

constexpr uint64_t kOps = 15, kBytes = 20'000;

// At that step, for the k-th time; `more`: and for so many that follow.
auto at(CopyStep step, CopyFate fate, uint64_t k, uint64_t more = 0) {
    return [=](CopyStep now, uint64_t times, const SimCopyPath &) {
        return now == step && times >= k && times <= k + more ? fate : CopyFate::go_on;
    };
}

// Requests go one by one, and each takes its time.
void narrow_requests(NearPair &near) {
    near.world.net.takes_ops = 1;
    near.world.net.bytes_per_second = 1'000'000;
}

}  // namespace

TEST_CASE("what is declined goes on as a request, and ends well") {
    for (const CopyStep step : {CopyStep::post, CopyStep::begin})
        for (uint64_t k = 1; k <= kOps; ++k)
            for (const uint64_t more : {uint64_t{0}, kOps}) {
                CAPTURE(k);
                World world(k);
                NearPair near(world);
                near.come_near();
                const uint64_t before = near.copied();
                near.script = at(step, CopyFate::decline, k, more);
                Burst burst(near, kOps, kBytes);
                burst.begin();
                REQUIRE(burst.all_end());
                burst.check();
                CHECK(burst.count(XFER_OK) == kOps);
                CHECK(near.copied() == before + (more ? k - 1 : kOps - 1));
                CHECK(near.lost_connections() == 0);
            }
}

TEST_CASE("what is refused goes when there is room, or as a request") {
    for (uint64_t k = 1; k <= kOps; ++k) {
        CAPTURE(k);
        World world(k);
        NearPair near(world);
        near.come_near();
        near.script = at(CopyStep::post, CopyFate::refuse, k);
        Burst burst(near, kOps, kBytes);
        burst.begin();
        REQUIRE(burst.all_end());
        burst.check();
        CHECK(burst.count(XFER_OK) == kOps);
        CHECK(near.lost_connections() == 0);
        CHECK(near.put(0, 1) == XFER_OK);
    }
}

TEST_CASE("what is canceled while it waits among the declined ends at once") {
    World world(1);
    NearPair near(world);
    near.come_near();
    narrow_requests(near);
    near.script = at(CopyStep::post, CopyFate::decline, 1, kOps);
    Burst burst(near, kOps, kBytes);
    burst.begin();
    REQUIRE(world.world.run_until([&] { return near.asked[CopyStep::post] == kOps; }, kSecond));
    world.world.run_for(kNsPerMs);
    Burst::One &last = burst.all.back();
    burst.cancel(last);
    CHECK(world.world.run_until([&] { return burst.has_ended(last); }, kNsPerMs));
    REQUIRE(burst.has_ended(last));
    CHECK(burst.event(last).status == XFER_ECANCELED);
    CHECK(burst.count(XFER_OK) < kOps / 2);
    REQUIRE(burst.all_end());
    burst.check();
    CHECK(burst.count(XFER_OK) == kOps - 1);
}

// Each event is answered by a new operation, which would take the room that has just come: to a
// region of which there is no key, so that it is a request from the first.
TEST_CASE("what comes later does not overtake what was declined") {
    World world(1);
    NearPair near(world);
    near.come_near();
    std::vector<uint8_t> memory(4096);
    xfer_ref_t ref{};
    xfer_region_t *region = near.open_region(memory, ref);
    const std::vector<uint8_t> data(1'000, 7);
    near.script = at(CopyStep::exported, CopyFate::fail, 1);
    near.put_to(ref, data);
    narrow_requests(near);
    near.script = at(CopyStep::post, CopyFate::decline, 1, kOps);
    Burst burst(near, kOps, kBytes);
    uint64_t later = 0;
    const auto counts = near.a->on_done;
    near.a->on_done = [&](const xfer_event_t &event) {
        counts(event);
        if (burst.count(XFER_OK) == kOps || ++later > 200) return;
        near.a->expect(++near.last_user);
        REQUIRE(xfer_put(near.ep, data.data(), &ref, 0, 1'000, near.last_user, nullptr) == XFER_OK);
    };
    burst.begin();
    const auto all_there = [&] { return burst.count(XFER_OK) == kOps; };
    CHECK(world.world.run_until(all_there, kBeforeStall));
    CHECK(later <= 2 * kOps);
    REQUIRE(burst.all_end());
    burst.check();
    xfer_region_close(region);
}

// Busy: it was taken, and is declined after cancel() has said that it is in use.
TEST_CASE("what is canceled, and then declined, ends at once and moves nothing") {
    for (const CopyFate fate : {CopyFate::decline, CopyFate::busy})
        for (const uint64_t pause : {0, 10, 30, 60, 100}) {
            CAPTURE(pause);
            World world(1 + pause);
            NearPair near(world);
            near.come_near();
            narrow_requests(near);
            near.script = at(CopyStep::cancel, fate, 1, kOps);
            Burst burst(near, kOps, kBytes);
            burst.begin();
            world.world.run_for(pause * 1'000);
            for (Burst::One &one : burst.all)
                if (!burst.has_ended(one)) burst.cancel(one);
            CHECK(burst.all_end(kNsPerMs));
            REQUIRE(burst.all_end());
            burst.check();
            CHECK(near.lost_connections() == 0);
            CHECK(near.put(0, 1) == XFER_OK);
        }
}

TEST_CASE("only a region whose key was given is withdrawn, and once") {
    World world(1);
    NearPair near(world);
    near.come_near();
    std::vector<uint8_t> memory(4096);
    xfer_ref_t ref{};
    for (int i = 0; i < 500; ++i)
        xfer_region_close(near.open_region(memory, ref));
    world.world.run_for(kSecond);
    CHECK(near.said(FrameType::withdraw) == 0);
    std::vector<xfer_region_t *> used;
    for (int i = 0; i < 7; ++i) {
        used.push_back(near.open_region(memory, ref));
        near.put_to(ref, {9});
    }
    world.world.run_for(kSecond);
    for (xfer_region_t *region : used)
        xfer_region_close(region);
    world.world.run_for(kSecond);
    CHECK(near.said(FrameType::withdraw) == used.size());
    CHECK(near.put(0, 1) == XFER_OK);
}

// Neither is asked for again by who has the same ref, but XFER_EAGAIN.
TEST_CASE("a region for which there is no key is reached by requests") {
    for (const CopyStep step : {CopyStep::exported, CopyStep::imported})
        for (const CopyFate fate : {CopyFate::refuse, CopyFate::fail, CopyFate::lack}) {
            CAPTURE(static_cast<int>(fate));
            World world(1);
            NearPair near(world);
            near.script = at(step, fate, 1);
            for (int i = 0; i < 20; ++i)
                CHECK(near.put(0, 100) == XFER_OK);
            Burst burst(near, kOps, kBytes);
            burst.begin();
            REQUIRE(burst.all_end());
            burst.check();
            const bool again = step == CopyStep::exported && fate == CopyFate::refuse;
            CHECK((near.copied() > 0) ==
                  (again || (step == CopyStep::imported && fate == CopyFate::fail)));
            CHECK(near.said(FrameType::request_export) == (again ? 2 : 1));
            CHECK(near.lost_connections() == 0);
        }
}

TEST_CASE("an operation is cut to what its path takes, and a declined one is no longer than that") {
    for (const bool declines : {false, true}) {
        World world(1);
        world.net.copy_max_bytes = 5'000;
        world.net.copy_max_pieces = 2;
        NearPair near(world);
        near.come_near();
        if (declines) near.script = at(CopyStep::begin, CopyFate::decline, 1, UINT64_MAX - 1);
        const uint64_t before = near.copied();
        Burst burst(near, kOps, 60'000);
        burst.begin();
        REQUIRE(burst.all_end());
        burst.check();
        CHECK(burst.count(XFER_OK) == kOps);
        CHECK(near.asked[CopyStep::begin] >= kOps * 12);
        CHECK((near.copied() == before) == declines);
    }
}
