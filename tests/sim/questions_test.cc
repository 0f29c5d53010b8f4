// SPDX-License-Identifier: Apache-2.0
// How long a question waits: for the peer's application without limit, for its engine as long as
// the stall limit allows.
#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kStall = 30 * kSecond;  // the default

void ask(Host &host, xfer_ep_t *ep, uint64_t user, bool wait, uint32_t timeout_ms) {
    xfer_op_options_t options{};
    options.size = sizeof options;
    options.flags = wait ? XFER_FLAG_WAIT : 0;
    options.timeout_ms = timeout_ms;
    host.expect(user);
    REQUIRE(xfer_ep_lookup(ep, "later", user, &options, nullptr) == XFER_OK);
}

}  // namespace

TEST_CASE("a lookup that waits for a name has no other limit than its deadline") {
    with_seeds(20, [](World &world) {
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        ask(a, ep, 1, true, 0);
        ask(a, ep, 2, true, XFER_NONE);
        ask(a, ep, 3, true, 100'000);
        world.world.run_for(3 * kStall);
        CHECK(a.pending == 3);
        CHECK(a.wait(3, 20 * kSecond) == XFER_ETIMEDOUT);
        xfer_region_options_t lent{};
        lent.size = sizeof lent;
        lent.name = "later";
        lent.access = XFER_READ;
        xfer_region_t *region = nullptr;
        REQUIRE(xfer_region_open(b.engine, &lent, b.memory.data(), 8, &region, nullptr) == XFER_OK);
        CHECK(a.wait(1, kSecond) == XFER_OK);
        CHECK(a.wait(2, kSecond) == XFER_OK);
        CHECK(xfer_region_close(region) == XFER_OK);
    });
}

TEST_CASE("a question to a peer that is away ends with the stall limit") {
    with_seeds(20, [](World &world) {
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        ask(a, ep, 1, true, 0);
        ask(a, ep, 2, false, XFER_NONE);
        a.expect(3);
        REQUIRE(xfer_ep_probe(ep, 3, nullptr) == XFER_OK);
        world.world.run_for(kStall - kSecond);
        CHECK(a.pending == 3);
        for (uint64_t user = 1; user <= 3; ++user)
            CHECK(a.wait(user, 2 * kSecond) == XFER_ETIMEDOUT);
    });
}

TEST_CASE("the stall limit of a lookup that waits begins when its peer goes away") {
    with_seeds(20, [](World &world) {
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        {
            Host b(world, kB);
            ask(a, ep, 1, true, 0);
            world.world.run_for(2 * kStall);
            CHECK(a.pending == 1);
        }
        world.world.run_for(kStall - kSecond);
        CHECK(a.pending == 1);
        CHECK(a.wait(1, 2 * kSecond) == XFER_ETIMEDOUT);
    });
}
