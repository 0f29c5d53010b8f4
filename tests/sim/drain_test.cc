// SPDX-License-Identifier: Apache-2.0
// An engine drains while much of its own is on its way: on a connection, between its loops, by a
// handle whose peer is not known yet, or waiting for the next connection.
#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kFirst = 100, kRoom = 6'000, kReceives = 12;
const std::string kOther = "tcp://10.0.0.3:3";  // also B

// What one engine asks of the other before it drains.
struct Work {
    uint64_t random(uint64_t below) { return world.world.random(below); }
    // With `held` one that ends though nobody receives it.
    void send(Host &host, xfer_ep_t *ep, bool held) {
        xfer_op_options_t options{};
        options.size = sizeof options;
        options.flags = !held && random(2) ? XFER_FLAG_SYNC : 0;
        const uint64_t length = 1 + random(held ? 1'000 : kRoom);
        host.expect(next);
        REQUIRE(xfer_send(ep, from.data(), length, 0, next++, &options) == XFER_OK);
    }
    void ask(Host &host, xfer_ep_t *ep) {
        host.expect(next);
        REQUIRE(xfer_ep_lookup(ep, "memory", next++, nullptr, nullptr) == XFER_OK);
    }
    void receive(Host &host) {
        for (uint64_t i = 0; i < kReceives; ++i) {
            host.expect(next);
            REQUIRE(xfer_recv(host.engine, nullptr, into.data() + i * kRoom, kRoom, 0, 0, next++,
                              nullptr) == XFER_OK);
        }
    }
    void wait_a_little(uint64_t most_ms) { world.world.run_for(random(most_ms) * kNsPerMs); }

    World &world;
    std::vector<uint8_t> from = std::vector<uint8_t>(kRoom, 1);
    std::vector<uint8_t> into = std::vector<uint8_t>(kReceives * kRoom);
    uint64_t next = kFirst;
};

void disturb(World &world) {
    const auto random = [&](uint64_t below) { return world.world.random(below); };
    world.heartbeat_ms = 200;
    if (random(2)) world.idle_ms = 5;
    world.loops = 1 + static_cast<uint32_t>(random(2));
    world.net.neighbours = random(2) != 0;
    world.net.delay_min = 0, world.net.delay_max = random(8) * kNsPerMs + 1;
    world.net.late_one_in = random(3), world.net.late_max = 20 * kNsPerMs;
}

}  // namespace

TEST_CASE("a drain ends nothing that its engine has under way") {
    uint64_t several = 0;  // connections, one after the other
    with_seeds(600, [&](World &world) {
        disturb(world);
        Work work{world};
        Host a(world, kA), b(world, kB);
        char bound[256];
        REQUIRE(xfer_engine_listen(b.engine, kOther.c_str(), nullptr, bound, sizeof bound,
                                   nullptr) == XFER_OK);
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        bool drained = false;
        a.on_done = [&](const xfer_event_t &event) { CHECK(event.status == XFER_OK); };
        a.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_DRAINED) drained = event.status == XFER_OK;
        };
        if (work.random(2)) CHECK(b.lookup(back, 1) == XFER_OK);
        for (uint64_t i = work.random(kReceives) + 1; i > 0; --i) {
            work.send(a, i % 3 ? ep : a.open(work.random(2) ? kB : kOther), false);
            if (work.random(3) == 0) work.send(b, back, true);
            if (work.random(4) == 0) work.ask(a, ep);
            if (work.random(4) == 0) work.ask(b, back);
            if (work.random(2)) work.wait_a_little(work.random(3) ? 4 : 150);
        }
        REQUIRE(xfer_engine_drain(a.engine, 2, nullptr) == XFER_OK);
        work.wait_a_little(60);
        work.receive(b);
        CHECK(world.world.run_until([&] { return drained; }, kBeforeStall));
        several += a.stats().connection_ends > 1;
        a.on_done = nullptr, a.on_other = nullptr;
    });
    if (!std::getenv("XFER_SIM_SEED")) CHECK(several > 100);
}

// It goes before what may not begin on this connection any more, in the same queue.
TEST_CASE("a message of a peer that drains is pulled, whatever waits for the next connection") {
    for (const uint64_t length : {kRoom, uint64_t{100'000}}) {
        CAPTURE(length);
        World world(1);
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        const std::vector<uint8_t> from(length, 1);
        std::vector<uint8_t> into(length);
        bool drained = false;
        a.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_DRAINED) drained = event.status == XFER_OK;
        };
        a.expect(2);
        REQUIRE(xfer_send(ep, from.data(), length, 0, 2, nullptr) == XFER_OK);
        world.world.run_for(kSecond);
        REQUIRE(xfer_engine_drain(a.engine, 3, nullptr) == XFER_OK);
        world.world.run_for(100 * kNsPerMs);
        b.expect(4);
        REQUIRE(xfer_put(back, from.data(), &b.ref, 0, length, 4, nullptr) == XFER_OK);
        world.world.run_for(kNsPerMs);
        b.expect(5);
        REQUIRE(xfer_recv(b.engine, nullptr, into.data(), length, 0, 0, 5, nullptr) == XFER_OK);
        CHECK(world.world.run_until([&] { return drained; }, kSecond));
        CHECK(b.done[5].status == XFER_OK);
        CHECK(a.done[2].status == XFER_OK);
        CHECK(b.done.count(4) == 0);
        a.on_other = nullptr;
    }
}
