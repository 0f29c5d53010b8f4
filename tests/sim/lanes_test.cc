// SPDX-License-Identifier: Apache-2.0
// Data lanes that end alone, at moments that chance seldom meets.
#include <new>

#include "core/base/limits.h"
#include "sim_channel.h"
#include "sim_host.h"

using namespace xfer;

namespace {

size_t lanes_in_state(Host &host, const std::string &state) {
    std::string text(50'000, '\0');
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
    size_t count = 0;
    for (size_t at = 0; (at = text.find('"' + state + '"', at)) != std::string::npos; ++at)
        ++count;
    return count;
}

size_t ready_lanes(Host &host) {
    return lanes_in_state(host, "ready");
}

void cut_data_lanes(World &world) {
    std::vector<SimChannel *> lanes;
    for (auto &[number, channel] : world.net.channels)
        if (channel->is_data_lane()) lanes.push_back(channel);
    for (SimChannel *lane : lanes)
        lane->cut();
}

// Neighbours that say where they are found and let nobody in there.
void close_local_paths(World &world) {
    for (const auto &[uri, listener] : world.net.listeners)
        if (uri.starts_with("shm:")) world.net.closed.insert(uri);
}

}  // namespace

// One end offers to end the idle connection after a second, and hears 400 ms later that the other,
// where a name is waited for, is at work: some of these lanes are due to be opened in between.
TEST_CASE("a lane that ends alone is opened again, whenever it ends") {
    for (uint64_t at = 0; at < 2'000; at += 20) {
        CAPTURE(at);
        World world(1);
        world.idle_ms = 1'000;
        world.net.delay_min = world.net.delay_max = 200 * kNsPerMs;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        xfer_op_options_t waits{};
        waits.size = sizeof waits;
        waits.flags = XFER_FLAG_WAIT;
        b.expect(1);
        REQUIRE(xfer_ep_lookup(b.open(kA), "later", 1, &waits, nullptr) == XFER_OK);
        const std::vector<uint8_t> data(700'000, 5);
        REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 2; }, kSecond));
        world.world.run_for(at * kNsPerMs);
        cut_data_lanes(world);
        world.world.run_for(10 * kSecond);
        CHECK(a.stats().lane_falls == 1);
        CHECK(b.stats().lane_falls == 1);
        CHECK(ready_lanes(a) == 2);
        CHECK(ready_lanes(b) == 2);
        CHECK(a.stats().connection_ends == 0);
        CHECK(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
    }
}

// Each lane has its own time to be settled, in which the peer answers.
TEST_CASE("lanes that fall one after the other leave the connection") {
    World world(1);
    world.lanes = 4;
    world.net.delay_min = world.net.delay_max = 120 * kNsPerMs;
    Host a(world, kA), b(world, kB);
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    const std::vector<uint8_t> data(700'000, 5);
    REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
    REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 5; }, 5 * kSecond));
    for (int i = 0; i < 20; ++i) {
        for (auto &[number, channel] : world.net.channels)
            if (channel->is_data_lane() && number % 4 == static_cast<uint64_t>(i % 4)) {
                channel->cut();
                break;
            }
        world.world.run_for(180 * kNsPerMs);
    }
    CHECK(a.stats().lane_falls > 4);
    CHECK(a.stats().connection_ends == 0);
    world.world.run_for(10 * kSecond);
    CHECK(ready_lanes(a) == 5);
    CHECK(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
}

// The time for the peer's `lane_closed` is over, and then it comes, while the loop does not run:
// the timer is the first thing that is due when it runs again.
TEST_CASE("a loop that was kept from its work does not take that for the peer's silence") {
    for (const bool stalls : {true, false}) {
        CAPTURE(stalls);
        World world(1);
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> data(700'000, 5);
        REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 2; }, kSecond));
        world.net.ways[{b.process->number, a.process->number}].silent_until =
            world.world.now() + kSettledNs + 100 * kNsPerMs;
        cut_data_lanes(world);
        REQUIRE(world.world.run_until([&] { return lanes_in_state(a, "fallen") == 1; }, kSecond));
        if (stalls) world.world.freeze(a.loop);
        world.world.run_for(kSettledNs + kLastWordsNs);
        world.world.thaw(a.loop);
        world.world.run_for(kSecond);
        CHECK(a.stats().connection_ends == (stalls ? 0 : 1));
        CHECK(a.stats().lane_falls == (stalls ? 1 : 0));
        CHECK(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
        world.world.run_for(kSecond);
        CHECK(ready_lanes(a) == 2);
    }
}

TEST_CASE("a lane for which memory lacks is tried again") {
    World world(1);
    world.lanes = 2;
    Host a(world, kA), b(world, kB);
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    const std::vector<uint8_t> data(700'000, 5);
    REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
    REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 3; }, kSecond));
    int lacking = 5;
    world.net.on_dial = [&](SimTransport &, const std::string &, int how) {
        if (how == 0 && lacking > 0 && lacking--) throw std::bad_alloc();
    };
    cut_data_lanes(world);
    REQUIRE(world.world.run_until([&] { return a.stats().lane_falls == 2; }, kSecond));
    CHECK(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
    world.world.run_for(10 * kSecond);
    CHECK(lacking == 0);
    CHECK(ready_lanes(a) == 3);
    CHECK(a.stats().connection_ends == 0);
    CHECK(a.put(ep, data.data(), 0, data.size(), 4) == XFER_OK);
}

// The acceptor has bulk to move, and asks for the local path and for data lanes at once; these are
// opened when there is no local path.
TEST_CASE("an engine without data lanes opens none, whoever asks, when its local path fails") {
    for (const bool without : {false, true}) {
        CAPTURE(without);
        World world(1);
        world.net.neighbours = true;
        Host b(world, kB);
        world.lanes = without ? XFER_NONE : 3;
        Host a(world, kA);
        close_local_paths(world);
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        size_t local = 0, more = 0;
        world.net.on_dial = [&](SimTransport &, const std::string &uri, int how) {
            if (how == 0) ++(uri.starts_with("shm:") ? local : more);
        };
        const std::vector<uint8_t> data(700'000, 5);
        CHECK(b.put(back, data.data(), 0, data.size(), 2) == XFER_OK);
        world.world.run_for(kSecond);
        CHECK(ready_lanes(a) == (without ? 1 : 4));
        CHECK(ready_lanes(b) == (without ? 1 : 4));
        CHECK(local == 1);
        CHECK(more == (without ? 0 : 3));
        CHECK(a.stats().connection_ends == 0);
    }
}

// One end offers to end the idle connection, and for 400 ms it does not know whether it goes on.
TEST_CASE("a loop does not spin where a local path fails when the connection is about to end") {
    uint64_t most = 0;
    for (uint64_t late = 1'000; late < 4'000; late += 50) {
        CAPTURE(late);
        World world(1);
        world.net.neighbours = true;
        world.idle_ms = 1'000;
        world.net.delay_min = world.net.delay_max = 200 * kNsPerMs;
        Host b(world, kB), a(world, kA);
        close_local_paths(world);
        world.net.on_dial = [&](SimTransport &, const std::string &uri, int how) {
            if (how != 0 || !uri.starts_with("shm:")) return;
            world.net.delay_min = world.net.delay_max = late * kNsPerMs;
            world.world.post(0,
                             [&] { world.net.delay_min = world.net.delay_max = 200 * kNsPerMs; });
        };
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        const std::vector<uint8_t> data(700'000, 5);
        CHECK(b.put(back, data.data(), 0, data.size(), 2) == XFER_OK);
        const uint64_t before = world.world.events();
        world.world.run_for(10 * kSecond);
        most = std::max(most, world.world.events() - before);
    }
    CHECK(most < 1'000);
}

// One end has something to move, and opens a path or asks for it, while the other has offered to
// end the connection and has not heard that it goes on.
TEST_CASE("a local path and one by adapters are opened, whenever they are wanted") {
    for (const bool near : {true, false})
        for (const bool accepted : {true, false})
            for (uint64_t at = 0; at < 1'600; at += 40) {
                CAPTURE(near);
                CAPTURE(accepted);
                CAPTURE(at);
                World world(1);
                world.idle_ms = 1'000;
                world.net.delay_min = world.net.delay_max = 200 * kNsPerMs;
                world.net.neighbours = near;
                world.net.adapters = !near;
                Host a(world, kA), b(world, kB);
                xfer_ep_t *there = a.open(kB);
                REQUIRE(a.lookup(there, 1) == XFER_OK);
                Host &mover = accepted ? b : a;
                xfer_ep_t *ep = accepted ? b.open(kA) : there;
                REQUIRE(mover.lookup(ep, 2) == XFER_OK);
                xfer_op_options_t waits{};
                waits.size = sizeof waits;
                waits.flags = XFER_FLAG_WAIT;
                mover.expect(3);
                REQUIRE(xfer_ep_lookup(ep, "later", 3, &waits, nullptr) == XFER_OK);
                world.world.run_for(at * kNsPerMs);
                const std::vector<uint8_t> data(700'000, 5);
                CHECK(mover.put(ep, data.data(), 0, data.size(), 4) == XFER_OK);
                world.world.run_for(5 * kSecond);
                CHECK(a.stats().connection_ends == 0);
                CHECK(lanes_in_state(a, "open") == 1);
                CHECK(lanes_in_state(b, "open") == 1);
            }
}

// Nothing is under way that would ask for a sign of life: the initiator speaks on the local lane,
// and hears that lane, and so of its end, once the acceptor's last word on the first one has come.
TEST_CASE("an end that waits in vain to hear the local lane gives the connection up") {
    uint64_t lost = 0;
    for (uint64_t at = 0; at < 200; at += 2) {
        CAPTURE(at);
        World world(1);
        world.net.neighbours = true;
        world.net.delay_min = world.net.delay_max = 20 * kNsPerMs;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const uint8_t byte = 5;
        REQUIRE(a.put(ep, &byte, 0, 1, 3) == XFER_OK);
        world.world.run_for(at * kNsPerMs);
        world.net.ways[{b.process->number, a.process->number}].silent_until = kNever;
        world.world.run_for(10 * kSecond);
        world.net.ways.clear();
        CHECK(a.stats().connection_ends == b.stats().connection_ends);
        lost += a.stats().connection_ends;
        CHECK(b.lookup(b.open(kA), 2) == XFER_OK);
    }
    CHECK(lost > 0);
}

// Of one route of several, as a broken switch does. The peer's host acknowledges what comes by the
// others, and the peer answers heartbeats.
TEST_CASE("a lane that brings nothing to the peer ends before two heartbeats are over") {
    World world(1);
    Host a(world, kA), b(world, kB);
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    const std::vector<uint8_t> data(700'000, 5);
    REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
    REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 2; }, kSecond));
    world.world.run_for(20 * kSecond);  // an acknowledgement of long ago is no silence
    REQUIRE(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
    for (auto &[number, channel] : world.net.channels)
        if (channel->is_data_lane() && channel->transport().process == a.process)
            channel->be_lost();
    const uint64_t before = world.world.now();
    CHECK(a.put(ep, data.data(), 0, data.size(), 4) == XFER_EPEERLOST);
    const uint64_t took = world.world.now() - before;
    CHECK(took > lost_after(world.heartbeat_ms * kNsPerMs));
    CHECK(took < 2 * world.heartbeat_ms * kNsPerMs);
    CHECK(a.stats().lane_falls == 1);
    CHECK(b.stats().lane_falls == 1);
    CHECK(a.put(ep, data.data(), 0, data.size(), 5) == XFER_OK);
    world.world.run_for(kSecond);
    CHECK(ready_lanes(a) == 2);
    CHECK(a.stats().connection_ends == 0);
}

// As a delayed acknowledgement is, and what was lost once and sent again.
TEST_CASE("a lane that is acknowledged late stays, however short heartbeats are") {
    for (const uint32_t heartbeat_ms : {20, 100, 500}) {
        CAPTURE(heartbeat_ms);
        World world(1);
        world.heartbeat_ms = heartbeat_ms;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> data(700'000, 5);
        REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 2; }, kSecond));
        for (auto &[number, channel] : world.net.channels)
            if (channel->is_data_lane()) channel->be_late(800 * kNsPerMs);
        CHECK(a.put(ep, data.data(), 0, data.size(), 3) == XFER_OK);
        CHECK(a.stats().lane_falls + b.stats().lane_falls == 0);
        CHECK(a.stats().connection_ends == 0);
    }
}

// The notification follows its put on the lane, which is lost in between: the put is answered.
TEST_CASE("a notification that is lost with its lane is told all the same") {
    uint64_t answered = 0;
    const uint64_t delay = 50 * kNsPerMs;
    for (uint64_t at = 0; at < 20'000; at += 250) {
        CAPTURE(at);
        World world(1);
        world.net.delay_min = world.net.delay_max = delay;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> data(700'000, 5);
        REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 2; }, kSecond));
        world.net.bytes_per_second = 10'000'000;
        std::vector<Status> told;
        b.on_notify = [&](const xfer_event_t &event) { told.push_back(event.status); };
        xfer_batch_t *batch = nullptr;
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
        REQUIRE(xfer_batch_put(batch, data.data(), &a.ref, 0, 100'000) == XFER_OK);
        xfer_submit_options_t options{};
        options.size = sizeof options;
        options.flags = XFER_SUBMIT_NOTIFY;
        options.notify_key = 7;
        a.expect(3);
        REQUIRE(xfer_batch_submit(batch, 3, &options) == XFER_OK);
        world.world.run_for(at * 1'000);
        for (auto &[number, channel] : world.net.channels)
            if (channel->is_data_lane() && channel->transport().process == a.process)
                channel->be_lost();
        const Status status = a.wait(3, kBeforeStall / 2);
        CHECK((status == XFER_OK || status == XFER_EPEERLOST));
        world.world.run_for(kSecond);
        answered += status == XFER_OK;
        CHECK(told.size() <= 1);
        if (status == XFER_OK) CHECK(told == std::vector<Status>{XFER_OK});
        CHECK(a.stats().connection_ends == 0);
        xfer_batch_close(batch);
        b.on_notify = nullptr;
    }
    CHECK(answered > 0);
}

// As where a router forgets the host that the first connection found before.
TEST_CASE("a lane that is dialed in vain does not keep the others down") {
    World world(1);
    world.lanes = 2;
    Host a(world, kA), b(world, kB);
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    const std::vector<uint8_t> data(700'000, 5);
    REQUIRE(a.put(ep, data.data(), 0, data.size(), 2) == XFER_OK);
    REQUIRE(world.world.run_until([&] { return ready_lanes(a) == 3; }, kSecond));
    bool lost = false;
    world.net.on_dial = [&](SimTransport &, const std::string &, int how) {
        if (how != 0 || std::exchange(lost, true)) return;
        world.net.ways[{a.process->number, b.process->number}].silent_until = kNever;
        world.world.post(kNsPerMs, [&] { world.net.ways.clear(); });
    };
    cut_data_lanes(world);
    world.world.run_for(4 * kSecond);
    CHECK(lost);
    CHECK(ready_lanes(a) == 1);
    world.world.run_for(3 * kSecond);
    CHECK(ready_lanes(a) == 3);
    CHECK(a.stats().connection_ends == 0);
}
