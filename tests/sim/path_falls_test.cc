// SPDX-License-Identifier: Apache-2.0
// A one-sided path that ends alone, at each step of each operation: what it had not begun goes by
// the other path, what it had begun ends as lost, and all else goes on.
#include "near_pair.h"

using namespace xfer;

namespace {

using By = NearPair::By;

constexpr uint64_t kOps = 12, kBytes = 30'000;

}  // namespace

TEST_CASE("a path that falls ends what it had begun, and nothing else") {
    with_each_fall(By::copies, kOps, [](NearPair &near, CopyStep step) {
        Burst burst(near, kOps, kBytes);
        burst.begin();
        REQUIRE(burst.all_end());
        burst.check();
        const uint64_t begun = near.asked[CopyStep::begin] - (step == CopyStep::begin ? 1 : 0);
        const uint64_t finished = near.asked[CopyStep::finish] - (step == CopyStep::finish ? 1 : 0);
        CHECK(burst.count(XFER_EPEERLOST) == begun - finished);
        const uint64_t copied = near.copied();
        Burst after(near, kOps, kBytes);
        after.begin();
        REQUIRE(after.all_end());
        after.check();
        CHECK(after.count(XFER_OK) == kOps);
        CHECK(near.copied() == copied);
    });
}

// Both have bulk and small operations under way, a notification among them.
TEST_CASE("the other direction goes on, and what comes later") {
    with_each_fall(By::copies, kOps, [](NearPair &near, CopyStep) {
        Host &b = *near.b;
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, ++near.last_user) == XFER_OK);
        Burst burst(near, kOps, kBytes);
        const std::vector<uint8_t> data(300'000, 5);
        burst.begin();
        CHECK(b.put(back, data.data(), 0, data.size(), ++near.last_user) == XFER_OK);
        CHECK(std::equal(data.begin(), data.end(), near.a->memory.begin()));
        near.a->expect(++near.last_user);
        REQUIRE(xfer_notify(near.ep, nullptr, 0, 7, near.last_user, nullptr) == XFER_OK);
        CHECK(near.a->wait(near.last_user) == XFER_OK);
        REQUIRE(burst.all_end());
        burst.check();
        CHECK(near.put(0, 400'000) == XFER_OK);
    });
}

TEST_CASE("what is canceled while its path falls ends once, and at once") {
    with_each_fall(By::copies, kOps, [](NearPair &near, CopyStep) {
        Burst burst(near, kOps, kBytes);
        burst.begin();
        near.world.world.run_for(near.world.world.random(100'000));
        for (size_t i = 0; i < burst.all.size(); i += 2)
            if (!burst.has_ended(burst.all[i])) burst.cancel(burst.all[i]);
        REQUIRE(burst.all_end(kSecond));
        burst.check();
        CHECK(near.put(0, 1) == XFER_OK);
    });
}

// Each event is answered by a new operation, which would take the room that has just come.
TEST_CASE("what comes later does not overtake what a path that has fallen had declined") {
    World world(1);
    NearPair near(world);
    near.come_near();
    world.net.takes_ops = 1;
    world.net.bytes_per_second = 1'000'000;
    world.net.copy_ns_max = 5 * kNsPerMs;
    near.script = [](CopyStep step, uint64_t times, const SimCopyPath &) {
        if (step == CopyStep::post && times > 2) return CopyFate::decline;
        return step == CopyStep::finish ? CopyFate::fall : CopyFate::go_on;
    };
    Burst burst(near, kOps, kBytes);
    uint64_t later = 0;
    const uint8_t byte = 7;
    const auto counts = near.a->on_done;
    const auto ended = [&] { return burst.count(XFER_OK) + burst.count(XFER_EPEERLOST); };
    near.a->on_done = [&](const xfer_event_t &event) {
        counts(event);
        if (ended() == kOps || ++later > 200) return;
        near.a->expect(++near.last_user);
        REQUIRE(xfer_put(near.ep, &byte, &near.a->ref, 900'000, 1, near.last_user, nullptr) ==
                XFER_OK);
    };
    burst.begin();
    CHECK(world.world.run_until([&] { return ended() == kOps; }, kBeforeStall));
    CHECK(burst.count(XFER_EPEERLOST) > 0);
    CHECK(later <= 2 * kOps);
    REQUIRE(burst.all_end());
    burst.check();
}
