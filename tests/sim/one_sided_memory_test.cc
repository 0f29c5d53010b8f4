// SPDX-License-Identifier: Apache-2.0
// Memory that lacks where core notes which regions it has asked for, and which it has given a key
// of: an allocation of its own is refused, once.
#include <cstdlib>
#include <new>
#include <utility>

#include "near_pair.h"

namespace {

// Allocations until one is refused; 0: none is.
uint64_t until_refused = 0;

}  // namespace

[[gnu::noinline]] void *operator new(size_t bytes) {
    if (until_refused && --until_refused == 0) throw std::bad_alloc();
    if (void *memory = std::malloc(bytes ? bytes : 1)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}

using namespace xfer;

namespace {

void check_goes_on(NearPair &near) {
    CHECK(until_refused == 0);  // it was reached
    Burst burst(near, 6, 1'000);
    burst.begin();
    REQUIRE(burst.all_end());
    burst.check();
    CHECK(burst.count(XFER_OK) == 6);
    CHECK(near.lost_connections() == 0);
}

}  // namespace

TEST_CASE("a key that can't be noted is not given, and the region is reached by requests") {
    World world(1);
    NearPair near(world);
    near.script = [](CopyStep step, uint64_t times, const SimCopyPath &) {
        if (step == CopyStep::exported && times == 1) until_refused = 1;
        return CopyFate::go_on;
    };
    for (int i = 0; i < 5; ++i)
        CHECK(near.put(0, 100) == XFER_OK);
    check_goes_on(near);
    CHECK(near.copied() == 0);
    xfer_region_close(std::exchange(near.b->region, nullptr));
    world.world.run_for(kSecond);
    CHECK(near.said(FrameType::withdraw) == 0);
}

// It is refused between two operations of a batch, of which the second names the region first.
TEST_CASE("a region that can't be noted as asked for is asked for later") {
    World world(1);
    NearPair near(world);
    near.come_near();
    std::vector<uint8_t> memory(4096);
    xfer_ref_t ref{};
    xfer_region_t *region = near.open_region(memory, ref);
    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(near.ep, nullptr, &batch, nullptr) == XFER_OK);
    const uint8_t byte = 9;
    for (const xfer_ref_t *to : {&near.a->ref, &ref})
        REQUIRE(xfer_batch_put(batch, &byte, to, 0, 1) == XFER_OK);
    const uint64_t asked = near.said(FrameType::request_export);
    near.script = [](CopyStep step, uint64_t times, const SimCopyPath &) {
        if (step == CopyStep::post && times == 1) until_refused = 1;
        return CopyFate::go_on;
    };
    for (const uint64_t times : {0, 1}) {
        near.a->expect(++near.last_user);
        REQUIRE(xfer_batch_submit(batch, near.last_user, nullptr) == XFER_OK);
        CHECK(near.a->wait(near.last_user) == XFER_OK);
        CHECK(near.said(FrameType::request_export) == asked + times);
    }
    CHECK(memory[0] == byte);
    check_goes_on(near);
    xfer_batch_close(batch);
    xfer_region_close(region);
}
