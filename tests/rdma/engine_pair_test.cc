// SPDX-License-Identifier: Apache-2.0
// Two engines, each on a device of its own: RDMA_TEST_NEAR and RDMA_TEST_FAR. With RDMA_TEST_LOSS
// packets are lost between them: Soft-RoCE counts retries by request, so one may lose too many. Its
// path ends then, with what is under way by it, and is opened again.
#include <doctest/doctest.h>

#include <cstdlib>

#include "engine.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("engine-pair");

namespace {

constexpr uint64_t kBytes = (uint64_t(4) << 20) + 1234;

// An engine on one device, and what it lends.
struct End {
    explicit End(const char *device) : engine(std::getenv(device)) {
        engine.lend(memory);
        uri = engine.listen("tcp://127.0.0.1:0");
    }

    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
    Engine engine;
    std::string uri;
};

bool loses_packets() {
    return std::getenv("RDMA_TEST_LOSS") != nullptr;
}

template <typename Move>
xfer_status_t until_done(Move move) {
    xfer_status_t status = move();
    for (int i = 0; i < 10 && loses_packets() && status == XFER_EPEERLOST; ++i)
        status = move();
    return status;
}

// Puts to `far`, and gets what is put there then.
void moves_and_compares(End &near, End &far, uint64_t seed) {
    Remote remote(near.engine, far.uri);
    remote.await_adapter();
    const uint64_t before = near.engine.carried_by_adapters();
    std::vector<uint8_t> mine(kBytes), back(kBytes);
    fill(mine, seed);
    REQUIRE(until_done([&] { return remote.put_all(mine); }) == XFER_OK);
    CHECK(far.memory == mine);
    fill(far.memory, seed + 1);
    REQUIRE(until_done([&] { return remote.get_all(back); }) == XFER_OK);
    CHECK(far.memory == back);
    // While the path is away, its bytes go over TCP.
    const uint64_t least = loses_packets() ? 1 : 2 * kBytes;
    CHECK(near.engine.carried_by_adapters() >= before + least);
}

}  // namespace

TEST_CASE("engines of two devices move bytes both ways") {
    End near("RDMA_TEST_NEAR"), far("RDMA_TEST_FAR");
    moves_and_compares(near, far, 1);
    moves_and_compares(far, near, 3);
}

TEST_CASE("frames move to adapters, and all goes on") {
    End near("RDMA_TEST_NEAR"), far("RDMA_TEST_FAR");
    Remote remote(near.engine, far.uri);
    remote.await_adapter();
    const std::vector<uint64_t> before = near.engine.connections();
    const double limit = now() + 30;
    while (near.engine.connections(true).empty() || far.engine.connections(true).empty()) {
        REQUIRE(now() < limit);
        uint8_t byte;
        remote.get(&byte, 0, 1, 0, 30);
        REQUIRE(near.engine.next(30));
        far.engine.next(0.01);
    }
    moves_and_compares(near, far, 5);
    CHECK(near.engine.connections(true) == before);
}

TEST_SUITE_END();
