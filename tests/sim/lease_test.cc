// SPDX-License-Identifier: Apache-2.0
// Leases of grants, to the nanosecond.
#include "sim_host.h"

using namespace xfer;

TEST_CASE("a lease that is renewed in time goes on") {
    constexpr uint32_t kLeaseMs = 10, kLongerMs = 1'000;
    with_seeds(200, [](World &world) {
        Host owner(world, kA);
        std::vector<xfer_status_t> revoked;
        owner.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_REVOKED) revoked.push_back(event.status);
        };
        xfer_grant_options_t options{};
        options.size = sizeof options;
        options.access = XFER_READ;
        options.length = 1;
        options.lease_ms = kLeaseMs;
        xfer_ref_t ref;
        REQUIRE(xfer_region_grant(owner.region, &options, &ref, nullptr) == XFER_OK);
        // While the word of it is on its way to the loop, the old lease ends, or it does not.
        world.world.run_for(kLeaseMs * kNsPerMs - world.world.random(30'000));
        REQUIRE(revoked.empty());
        REQUIRE(xfer_region_renew(owner.region, &ref, kLongerMs) == XFER_OK);
        world.world.run_for((kLongerMs - 1) * kNsPerMs);
        CHECK(revoked.empty());
        world.world.run_for(2 * kNsPerMs);
        CHECK(revoked == std::vector<xfer_status_t>{XFER_ETIMEDOUT});
        CHECK(xfer_region_renew(owner.region, &ref, kLongerMs) == XFER_EREVOKED);
    });
}
