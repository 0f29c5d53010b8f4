// SPDX-License-Identifier: Apache-2.0
// Two guests and the cable between them, which is pulled in the middle of a transfer; in the order
// of this file, as the last takes the other guest's power. The peer is rdma_peer --serve there.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "link.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("cable");

namespace {

constexpr uint64_t kRequests = 32;  // 256 MiB: seconds
constexpr double kRetriesEnd = 30;

// down, up, or off: the other guest's power.
void cable(const char *word) {
    std::ofstream out("/run/cable");
    out << word << std::endl;
    must(bool(out), "/run/cable");
}

struct Storm {
    explicit Storm(const Attributes &attributes = {}) : link(target, attributes) {
        link.fill_far(1);
        link.mine.fill(2);
        for (uint64_t id = 0; id < kRequests; ++id)
            REQUIRE(post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, kTargetBytes, id)) == 0);
        REQUIRE(link.near.next_status(60) == IBV_WC_SUCCESS);
    }

    // Collects what is left, in its order: successes, one failure, flushed ones. The failure.
    int ends() {
        int status = IBV_WC_SUCCESS;
        for (uint64_t id = 1; id < kRequests; ++id) {
            const auto done = link.near.next(kRetriesEnd);
            REQUIRE(done);
            CHECK(done->wr_id == id);
            if (status != IBV_WC_SUCCESS)
                CHECK(done->status == IBV_WC_WR_FLUSH_ERR);
            else
                status = done->status;
        }
        return status;
    }

    Elsewhere target;
    Link<Elsewhere> link;
};

// With retries that a busy host does not use up: nothing is cut here.
Attributes patient() {
    Attributes attributes;
    attributes.timeout = 17;  // half a second: 3.8 s of retries
    return attributes;
}

void moves_and_compares(uint32_t seed) {
    Elsewhere target;
    Link<Elsewhere> link(target, patient());
    link.fill_far(seed);
    link.mine.fill(seed + 1);
    REQUIRE(link.done(link.request(IBV_WR_RDMA_WRITE, 0, kTargetBytes)) == IBV_WC_SUCCESS);
    CHECK(link.far_differs(seed + 1, 0, kTargetBytes) == -1);
    link.fill_far(seed + 2);
    REQUIRE(link.done(link.request(IBV_WR_RDMA_READ, 0, kTargetBytes)) == IBV_WC_SUCCESS);
    CHECK(link.mine.differs(seed + 2, 0, kTargetBytes) == -1);
}

}  // namespace

TEST_CASE("a cable that is back before the retries end is not noticed") {
    Storm storm(patient());
    cable("down");
    ::usleep(700'000);
    cable("up");
    CHECK(storm.ends() == IBV_WC_SUCCESS);
    CHECK(storm.link.far_differs(2, 0, kTargetBytes) == -1);
}

TEST_CASE("a cable that stays away: the retries end, and what comes behind works") {
    {
        Storm storm;
        cable("down");
        const double cut = now();
        CHECK(storm.ends() == IBV_WC_RETRY_EXC_ERR);
        MESSAGE("figure: a cut cable is told of after " << now() - cut << " s");
        CHECK(storm.link.near.state() == IBV_QPS_ERR);
        cable("up");
    }
    moves_and_compares(10);
}

TEST_CASE("the other guest loses its power: the retries end") {
    Storm storm;
    cable("off");
    CHECK(storm.ends() == IBV_WC_RETRY_EXC_ERR);
}

TEST_SUITE_END();
