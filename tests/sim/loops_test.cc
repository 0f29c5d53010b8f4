// SPDX-License-Identifier: Apache-2.0
// Engines with two loops. The first byte of an identity says which of them its peer belongs to.
#include <algorithm>

#include "sim_channel.h"
#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kBytes = 200'000;

const std::vector<uint8_t> kOfFirstLoop(16, 2), kOfSecondLoop(16, 3);

void submit_ordered(Host &host, xfer_ep_t *ep, const void *from, uint64_t user,
                    xfer_batch_t **batch) {
    REQUIRE(xfer_batch_open(ep, nullptr, batch, nullptr) == XFER_OK);
    REQUIRE(xfer_batch_put(*batch, from, &host.ref, 0, 8) == XFER_OK);
    xfer_submit_options_t options{};
    options.size = sizeof options;
    options.flags = XFER_SUBMIT_ORDERED;
    host.expect(user);
    REQUIRE(xfer_batch_submit(*batch, user, &options) == XFER_OK);
}

// What comes to b is under way: its connection is lost there, b opens another, and the peer's end
// of the first one, which is superseded, ends late.
void supersede_in_mid_put(World &world, Host &b, xfer_ep_t *back) {
    REQUIRE(world.world.run_until([&] { return b.memory[0] == 1; }, kSecond));
    for (auto &[number, channel] : world.net.channels)
        if (channel->transport().number == b.process->number) channel->cut();
    REQUIRE(world.world.run_until([&] { return b.downs > 0; }, kSecond));
    world.net.linger_max = 5 * kSecond;
    b.expect(3);
    REQUIRE(xfer_ep_connect(back, 3, nullptr) == XFER_OK);
    CHECK(b.wait(3) == XFER_OK);
    world.net.linger_max = 0;
}

}  // namespace

TEST_CASE("an endpoint moves to the loop of its peer, with what waits by it") {
    with_seeds(100, [](World &world) {
        Host b(world, kB, kOfSecondLoop);
        world.loops = 2;
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        std::vector<uint8_t> from(100, 1), into(100);
        a.expect(1), a.expect(2), a.expect(3), b.expect(1);
        REQUIRE(xfer_ep_lookup(ep, "memory", 1, nullptr, nullptr) == XFER_OK);
        REQUIRE(xfer_send(ep, from.data(), from.size(), 0, 2, nullptr) == XFER_OK);
        REQUIRE(xfer_recv(a.engine, ep, into.data(), into.size(), 0, 0, 3, nullptr) == XFER_OK);
        REQUIRE(xfer_recv(b.engine, nullptr, into.data(), into.size(), 0, 0, 1, nullptr) ==
                XFER_OK);
        CHECK(a.wait(1) == XFER_OK);
        CHECK(a.wait(2) == XFER_OK);
        CHECK(b.wait(1) == XFER_OK);
        CHECK(world.net.met["channel moved to another loop"] > 0);
        xfer_ep_close(ep);  // and so ends what waits on the other loop
        a.eps.clear();
        CHECK(a.wait(3) == XFER_ECANCELED);
        CHECK(!world.world.raced());
    });
}

// The peer's connection is superseded, and what was under way on it is still in use there, when
// another engine answers at its address, whose loop is another.
TEST_CASE("what stays behind when an endpoint moves ends on the loop that it moved to") {
    with_seeds(100, [](World &world) {
        Host b(world, kB, kOfFirstLoop);
        world.loops = 2;
        Host a(world, kA);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> from(kBytes, 1);
        world.net.bytes_per_second = 1'000'000;
        world.net.part_max = 4'000;
        a.expect(2);
        REQUIRE(xfer_put(ep, from.data(), &a.ref, 0, kBytes, 2, nullptr) == XFER_OK);
        supersede_in_mid_put(world, b, back);
        xfer_batch_t *batch = nullptr;
        submit_ordered(a, ep, from.data(), 4, &batch);
        world.world.run_for(kNsPerMs);
        world.net.kill(*b.process, true);
        world.loops = 1;
        Host heir(world, kB, kOfSecondLoop);
        std::vector<uint64_t> ended;
        a.on_done = [&](const xfer_event_t &event) { ended.push_back(event.user); };
        CHECK(a.wait(2) == XFER_EPEERLOST);
        CHECK(a.wait(4, 10 * kSecond) == XFER_ESTALE);
        CHECK(ended == std::vector<uint64_t>{2, 4});
        CHECK(!world.world.raced());
        xfer_batch_close(batch);
        a.on_done = nullptr;
    });
}

// The same, and the batch that stays behind is canceled.
TEST_CASE("a cancel finds a batch that stayed on the loop that its endpoint has left") {
    uint64_t canceled = 0;
    with_seeds(100, [&](World &world) {
        Host b(world, kB, kOfFirstLoop);
        world.loops = 2;
        Host a(world, kA);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> from(kBytes, 1);
        world.net.bytes_per_second = 1'000'000;
        world.net.part_max = 4'000;
        xfer_batch_t *batch = nullptr;
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
        REQUIRE(xfer_batch_put(batch, from.data(), &a.ref, 0, kBytes) == XFER_OK);
        a.expect(2);
        REQUIRE(xfer_batch_submit(batch, 2, nullptr) == XFER_OK);
        supersede_in_mid_put(world, b, back);
        world.net.kill(*b.process, true);
        world.loops = 1;
        Host heir(world, kB, kOfSecondLoop);
        a.expect(4);
        REQUIRE(xfer_ep_connect(ep, 4, nullptr) == XFER_OK);
        const uint64_t &moves = world.net.met["channel moved to another loop"];
        REQUIRE(world.world.run_until([&] { return moves > 0; }, 10 * kSecond));
        if (a.done.count(2) == 0 && xfer_batch_cancel(batch) == XFER_OK) {
            world.world.run_for(200 * kNsPerMs);
            canceled += a.done.count(2) != 0 && a.done[2].status == XFER_ECANCELED;
        }
        CHECK(a.wait(2) != XFER_EINTERNAL);
        CHECK(a.wait(4) == XFER_OK);
        CHECK(!world.world.raced());
        xfer_batch_close(batch);
    });
    CHECK(canceled > 10);
}

// What was begun before the move may still be on its way through the loop that it was posted to.
TEST_CASE("a flush does not overtake what was begun before its endpoint moved") {
    with_seeds(300, [](World &world) {
        Host b(world, kB, kOfSecondLoop);
        world.loops = 2;
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        std::vector<uint64_t> ended;
        a.on_done = [&](const xfer_event_t &event) { ended.push_back(event.user); };
        a.expect(1);
        REQUIRE(xfer_ep_lookup(ep, "memory", 1, nullptr, nullptr) == XFER_OK);
        uint64_t user = 2;
        for (; user < 60 && a.done.count(1) == 0; user += 2) {
            a.expect(user), a.expect(user + 1);
            REQUIRE(xfer_notify(ep, nullptr, 0, 7, user, nullptr) == XFER_OK);
            world.world.run_for(world.world.random(4) * 10'000);
            REQUIRE(xfer_ep_flush(ep, nullptr, user + 1, nullptr) == XFER_OK);
            world.world.run_for(world.world.random(4) * 10'000);
        }
        for (uint64_t at = 2; at < user; ++at)
            CHECK(a.wait(at) == XFER_OK);
        CHECK(world.net.met["channel moved to another loop"] > 0);
        for (auto at = ended.begin(); at != ended.end(); ++at)
            if (*at % 2 && *at > 1) CHECK(std::find(ended.begin(), at, *at - 1) != at);
        CHECK(!world.world.raced());
        a.on_done = nullptr;
    });
}

// The loop that it leaves is put off the processor in the middle of the turn in which it went.
TEST_CASE("what ended before an endpoint moved is told before its CLOSED") {
    with_seeds(50, [](World &world) {
        Host b(world, kB, kOfSecondLoop);
        world.loops = 2;
        world.polled = true;
        Host a(world, kA);
        std::string told;
        a.on_done = a.on_other = [&](const xfer_event_t &event) {
            told += std::string(event_name(event.kind)) + " ";
        };
        xfer_ep_t *ep = a.open(kB);
        a.expect(1);
        REQUIRE(xfer_ep_connect(ep, 1, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return b.stats().accepts == 1; }, kSecond));
        world.world.freeze(a.loop);
        a.expect(2);
        REQUIRE(xfer_ep_flush(ep, nullptr, 2, nullptr) == XFER_OK);
        world.world.run_for(kSecond);
        world.world.thaw(a.loop);
        REQUIRE(world.world.run_until([&] { return !world.net.detached.empty(); }, kSecond));
        world.world.freeze(a.loop);
        REQUIRE(xfer_ep_close(ep) == XFER_OK);
        a.eps.clear();
        world.world.run_for(kSecond);
        world.world.thaw(a.loop);
        CHECK(a.wait(2) == XFER_OK);
        CHECK(told.rfind("FLUSH CONNECT CLOSED ", 0) == 0);
        a.on_done = a.on_other = nullptr;
    });
}

// The only connection may not go, and peers of both loops wait for its place.
TEST_CASE("loops that wait for a place leave each other in peace") {
    World world(1);
    Host busy(world, kB, kOfFirstLoop);
    world.loops = 2;
    world.max_connections = 1;
    Host a(world, kA);
    xfer_op_options_t waits{};
    waits.size = sizeof waits;
    waits.flags = XFER_FLAG_WAIT;
    a.expect(1);
    REQUIRE(xfer_ep_lookup(a.open(kB), "later", 1, &waits, nullptr) == XFER_OK);
    REQUIRE(world.world.run_until([&] { return a.ups == 1; }, kSecond));
    for (const uint8_t first : {2, 3}) {
        xfer_id_t id{};
        id.bytes[0] = first, id.bytes[1] = 1;
        xfer_ep_options_t options{};
        options.size = sizeof options;
        options.peer = &id;
        xfer_ep_t *ep = nullptr;
        REQUIRE(xfer_ep_open(a.engine, "tcp://10.0.0.9:1", &options, &ep, nullptr) == XFER_OK);
        a.eps.push_back(ep);
        a.expect(first);
        REQUIRE(xfer_ep_connect(ep, first, nullptr) == XFER_OK);
    }
    world.world.run_for(100 * kNsPerMs);
    const uint64_t before = world.world.events();
    world.world.run_for(kSecond);
    CHECK(a.done.empty());
    CHECK(world.world.events() - before < 1'000);
}
