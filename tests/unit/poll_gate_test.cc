// SPDX-License-Identifier: Apache-2.0
#include "core/engine/poll_gate.h"

#include <doctest/doctest.h>

#include <thread>

using namespace xfer;

TEST_CASE("one at a time") {
    PollGate gate;
    CHECK(gate.enter() == XFER_OK);
    CHECK(gate.enter() == XFER_EBUSY);
    CHECK_FALSE(gate.interrupted());
    CHECK_FALSE(gate.leave());
    CHECK(gate.enter() == XFER_OK);
}

TEST_CASE("closing interrupts who is inside, is waited for, and keeps others out") {
    PollGate gate;
    REQUIRE(gate.enter() == XFER_OK);
    gate.close();
    CHECK(gate.interrupted());
    CHECK(gate.enter() == XFER_ECLOSED);
    std::atomic<bool> left{false};
    std::thread closer([&] {
        gate.await_empty();
        CHECK(left.load());
    });
    left.store(true);
    CHECK(gate.leave());
    closer.join();
    CHECK_FALSE(gate.interrupted());
    CHECK(gate.enter() == XFER_ECLOSED);
}
