// SPDX-License-Identifier: Apache-2.0
// Messages in the simulated world, under cuts, cancels and deadlines.
#include <algorithm>
#include <cerrno>

#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kTags = 3, kMessages = 40, kRoom = 20'000;
constexpr uint64_t kSends = 1'000, kReceives = 10'000;  // user words start here

// One direction: what was sent, and which receive got what.
struct Direction {
    Host *from = nullptr, *to = nullptr;
    xfer_ep_t *ep = nullptr;
    std::vector<std::vector<uint8_t>> sent;                    // its number in the first bytes
    std::vector<std::unique_ptr<std::vector<uint8_t>>> rooms;  // of receives
    std::vector<std::vector<uint8_t>> seen;                    // what was in them at their event
    std::map<uint64_t, uint64_t> receive_of;                   // by message

    void send(World &world) {
        const uint64_t number = sent.size();
        const uint64_t length =
            8 + (world.world.random(3) ? world.world.random(100) : world.world.random(kRoom - 8));
        sent.emplace_back(length, static_cast<uint8_t>(number));
        store<uint64_t>(sent.back().data(), number);
        xfer_op_options_t options{};
        options.size = sizeof options;
        options.flags = world.world.random(4) ? 0 : XFER_FLAG_SYNC;
        options.timeout_ms = world.world.random(4) ? 0 : 300;
        from->expect(kSends + number);
        REQUIRE(xfer_send(ep, sent.back().data(), length, number % kTags, kSends + number,
                          &options) == XFER_OK);
        if (world.world.random(6) == 0) xfer_cancel(from->engine, ep, kSends + number, UINT64_MAX);
    }
    void receive(World &world, uint64_t tag, uint64_t mask, bool cancels) {
        const uint64_t number = rooms.size();
        rooms.push_back(std::make_unique<std::vector<uint8_t>>(kRoom));
        seen.emplace_back();
        to->expect(kReceives + number);
        REQUIRE(xfer_recv(to->engine, nullptr, rooms.back()->data(), kRoom, tag, mask,
                          kReceives + number, nullptr) == XFER_OK);
        if (cancels && world.world.random(6) == 0)
            xfer_cancel(to->engine, nullptr, kReceives + number, UINT64_MAX);
    }
    void received(const xfer_event_t &event) {
        const uint64_t number = event.user - kReceives;
        seen[number] = *rooms[number];
        if (event.status != XFER_OK) return;
        const uint64_t message = load<uint64_t>(rooms[number]->data());
        REQUIRE(message < sent.size());
        CHECK(event.bytes == sent[message].size());
        CHECK(event.tag == message % kTags);
        CHECK(std::equal(sent[message].begin(), sent[message].end(), rooms[number]->begin()));
        CHECK(receive_of.emplace(message, number).second);  // once
    }
    void check() {
        // Of one tag the first message went to the first receive. Their events may cross, since the
        // bytes of a long one come later.
        uint64_t last[kTags] = {};
        for (const auto &[message, receive] : receive_of) {
            CHECK(receive >= last[message % kTags]);
            last[message % kTags] = receive;
        }
        for (uint64_t i = 0; i < sent.size(); ++i) {
            const xfer_event_t &event = from->done[kSends + i];
            if (event.status == XFER_OK)
                CHECK(receive_of.count(i) == 1);
            else if (event.flags & XFER_FENCED)
                CHECK(receive_of.count(i) == 0);
        }
        for (uint64_t i = 0; i < rooms.size(); ++i)  // quiet since their events
            if (to->done.count(kReceives + i)) CHECK(*rooms[i] == seen[i]);
    }
};

}  // namespace

TEST_CASE("a receive whose message is lost before its pull tells why") {
    uint64_t lost = 0;
    with_seeds(20, [&](World &world) {
        constexpr uint64_t kLong = 6'000;  // stays with its sender
        world.net.linger_max = 2 * kSecond;
        Host a(world, kA), b(world, kB);
        REQUIRE(b.lookup(b.open(kA), 1) == XFER_OK);
        const std::vector<uint8_t> data(kLong, 1);
        std::vector<uint8_t> room(kLong);
        for (uint64_t i = 0; i < kMessages; ++i) {
            b.expect(kSends + i);
            REQUIRE(xfer_send(b.eps[0], data.data(), kLong, 0, kSends + i, nullptr) == XFER_OK);
        }
        world.world.run_for(kSecond);
        world.net.silent = true;
        // One after the other, so that some match while the connection ends.
        for (uint64_t i = 0; i < kMessages && a.downs == 0; ++i) {
            a.expect(kReceives + i);
            REQUIRE(xfer_recv(a.engine, nullptr, room.data(), kLong, 0, UINT64_MAX, kReceives + i,
                              nullptr) == XFER_OK);
            world.world.run_for(kSecond / 10);
        }
        world.world.run_for(5 * kSecond);
        for (const auto &[user, event] : a.done) {
            if (event.kind != XFER_EVENT_RECV || event.status != XFER_EPEERLOST) continue;
            CHECK(event.origin == XFER_ORIGIN_OS);
            CHECK(event.native_code == ETIMEDOUT);
            ++lost;
        }
        world.net.silent = false;
    });
    CHECK(lost > 0);
}

TEST_CASE("a receive from any peer outlives the handles of its peer") {
    uint64_t pulled = 0;
    with_seeds(20, [&](World &world) {
        constexpr uint64_t kLong = 8u << 20;
        Host a(world, kA), b(world, kB);
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        REQUIRE(b.lookup(b.open(kA), 1) == XFER_OK);
        const std::vector<uint8_t> data(kLong, 1);
        std::vector<uint8_t> room(kLong);
        a.expect(kReceives);
        b.expect(kSends);
        REQUIRE(xfer_recv(a.engine, nullptr, room.data(), kLong, 0, 0, kReceives, nullptr) ==
                XFER_OK);
        REQUIRE(xfer_send(b.eps[0], data.data(), kLong, 0, kSends, nullptr) == XFER_OK);
        world.world.run_for(kNsPerMs);
        if (!a.done.count(kReceives) && room[0] == 1) ++pulled;
        xfer_ep_close(a.eps[0]);
        a.eps.clear();
        world.world.run_for(10 * kSecond);
        CHECK(a.done[kReceives].status == XFER_OK);
        CHECK(b.done[kSends].status == XFER_OK);
        CHECK(room == data);
    });
    CHECK(pulled > 0);
}

// Success is told by both or, if the sender is cut off, by the receiver alone; what was refused,
// canceled or expired with the peer's word is received by nobody.
TEST_CASE("messages under cuts, cancels and deadlines") {
    with_seeds(300, [](World &world) {
        Direction ways[2];  // the hosts use it until they have ended
        Host a(world, kA), b(world, kB);
        ways[0].from = ways[1].to = &a, ways[0].to = ways[1].from = &b;
        ways[0].ep = a.open(kB), ways[1].ep = b.open(kA);
        for (Direction &way : ways) {
            REQUIRE(way.from->lookup(way.ep, 1) == XFER_OK);
            way.to->on_done = [&way](const xfer_event_t &event) {
                if (event.kind == XFER_EVENT_RECV) way.received(event);
            };
        }
        world.net.cut_one_in = world.world.random(2) ? 50 + world.world.random(500) : 0;
        if (world.world.random(3) == 0) world.net.delay_max = 200 * kNsPerMs;
        for (uint64_t i = 0; i < kMessages; ++i)
            for (Direction &way : ways) {
                if (world.world.random(3)) way.send(world);
                if (world.world.random(3))
                    way.receive(world, world.world.random(kTags),
                                world.world.random(3) ? UINT64_MAX : 0, true);
                world.world.run_for(world.world.random(world.net.delay_max));
                if (world.world.random(32) == 0) world.net.cut_all();
            }
        world.net.cut_one_in = 0;
        world.world.run_for(5 * kSecond);
        // Whatever is held, or still waits at its sender, is received now.
        for (Direction &way : ways) {
            for (uint64_t i = 0; i < way.sent.size(); ++i)
                way.receive(world, 0, 0, false);
            for (uint64_t i = 0; i < way.sent.size(); ++i)
                CHECK(way.from->wait(kSends + i) != XFER_EINTERNAL);
        }
        world.world.run_for(5 * kSecond);
        for (Direction &way : ways)
            way.check();
    });
}
