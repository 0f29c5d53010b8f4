// SPDX-License-Identifier: Apache-2.0
// Neighbours that fail to share memory at first.
#include <new>

#include "core/base/limits.h"
#include "sim_channel.h"
#include "sim_host.h"

using namespace xfer;

namespace {

const std::vector<uint8_t> kData(700'000, 5);

bool says(Host &host, const std::string &words) {
    std::string text(50'000, '\0');
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text.find(words) != std::string::npos;
}

bool is_near(Host &host) {
    return says(host, "\"control\":\"local\"");
}

// Two engines that know each other, of which one has something to move.
struct Two {
    Two(World &w, bool by_acceptor) : world(w), a(w, kA), b(w, kB), mover(by_acceptor ? b : a) {
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        ep = by_acceptor ? b.open(kA) : a.eps[0];
        if (by_acceptor) REQUIRE(b.lookup(ep, 1) == XFER_OK);
        world.net.on_dial = [this](SimTransport &, const std::string &uri, int how) {
            if (!uri.starts_with("shm:") || how != 0) return;
            dials.push_back(world.world.now());
            if (dials.size() <= fails) throw std::bad_alloc();
        };
    }
    Status put() { return mover.put(ep, kData.data(), 0, kData.size(), ++word); }
    bool are_near() { return is_near(a) && is_near(b); }
    uint64_t ends() { return a.stats().connection_ends + b.stats().connection_ends; }

    World &world;
    Host a, b, &mover;
    xfer_ep_t *ep;
    std::vector<uint64_t> dials;  // of the local path: when
    size_t fails = 0;             // the first of them, for want of memory
    uint64_t word = 10;
};

}  // namespace

// Who was asked tries again by itself, and who has something to move while it has.
TEST_CASE("a local path for which memory lacks is tried again after pauses that double") {
    for (const bool by_acceptor : {false, true}) {
        CAPTURE(by_acceptor);
        World world(1);
        world.net.neighbours = true;
        Two two(world, by_acceptor);
        two.fails = 4;
        for (int i = 0; i < 100 && (!two.are_near() || i == 0); ++i) {
            CHECK(two.put() == XFER_OK);
            world.world.run_for(10 * kNsPerMs);
        }
        CHECK(two.are_near());
        REQUIRE(two.dials.size() == 5);
        for (size_t i = 1; i < 5; ++i)
            CHECK(two.dials[i] - two.dials[i - 1] >= (kBackoffFirstNs << (i - 1)));
        CHECK(two.dials[4] - two.dials[0] < 500 * kNsPerMs);
        CHECK(two.put() == XFER_OK);
        CHECK(two.ends() == 0);
    }
}

TEST_CASE("who was asked for a local path tries again though nothing is moved any more") {
    World world(1);
    world.net.neighbours = true;
    Two two(world, true);
    two.fails = 3;
    CHECK(two.put() == XFER_OK);
    world.world.run_for(kSecond);
    CHECK(two.are_near());
    CHECK(two.dials.size() == 4);
}

TEST_CASE("a neighbour that nobody lets in is not dialed again") {
    World world(1);
    world.net.neighbours = true;
    Two two(world, false);
    for (const auto &[uri, listener] : world.net.listeners)
        if (uri.starts_with("shm:")) world.net.closed.insert(uri);
    for (int i = 0; i < 10; ++i) {
        CHECK(two.put() == XFER_OK);
        world.world.run_for(kSecond);
    }
    CHECK(two.dials.size() == 1);
    CHECK(says(two.a, "\"local_path\":{\"state\":\"none\""));
}

// Until the initiator's last word on the first lane it costs nothing but the attempt.
TEST_CASE("a local path that breaks while it is opened comes again, at whichever end") {
    uint64_t again = 0, ended = 0;
    for (const bool by_acceptor : {false, true})
        for (uint64_t at = 0; at < 100; ++at) {
            CAPTURE(by_acceptor);
            CAPTURE(at);
            World world(1);
            world.net.neighbours = true;
            world.net.delay_min = world.net.delay_max = 20 * kNsPerMs;
            Two two(world, by_acceptor);
            two.mover.expect(2);
            REQUIRE(xfer_put(two.ep, kData.data(), &two.mover.ref, 0, kData.size(), 2, nullptr) ==
                    XFER_OK);
            REQUIRE(world.world.run_until([&] { return !two.dials.empty(); }, kSecond));
            world.world.run_for(at * kNsPerMs);
            world.net.delay_min = world.net.delay_max = 0;
            for (auto &[number, channel] : world.net.channels)
                if (channel->scope() == Scope::host) channel->cut();
            world.world.run_for(1);
            world.net.delay_min = world.net.delay_max = 20 * kNsPerMs;
            world.world.run_for(5 * kSecond);
            CHECK(two.mover.done.count(2) == 1);
            CHECK(two.put() == XFER_OK);
            world.world.run_for(kSecond);
            CHECK(two.are_near());
            again += two.ends() == 0 && two.dials.size() == 2;
            ended += two.ends() > 0;
        }
    CHECK(again > 100);
    CHECK(ended > 0);
}

TEST_CASE("data lanes keep their pauses while a local path breaks again and again") {
    World world(1);
    world.net.neighbours = true;
    Two two(world, false);
    world.net.closed.insert(kB);
    size_t lanes = 0, local = 0;
    world.net.on_dial = [&](SimTransport &, const std::string &uri, int how) {
        const bool near = uri.starts_with("shm:");
        if (how == 0) ++(near ? local : lanes);
        if (near && how == 1)
            world.world.post(0, [&] {
                for (auto &[number, channel] : world.net.channels)
                    if (channel->scope() == Scope::host) channel->cut();
            });
    };
    for (int i = 0; i < 100; ++i) {
        CHECK(two.put() == XFER_OK);
        world.world.run_for(10 * kNsPerMs);
    }
    CHECK(local >= 5);
    CHECK(lanes >= 5);
    CHECK(lanes <= 8);
    CHECK(two.ends() == 0);
}

// Memory goes by the local path as soon as there is one; frames stay with the adapters' lane.
TEST_CASE("paths by adapters are begun while a local path waits to be tried again") {
    for (const bool lanes : {false, true})
        for (const bool by_acceptor : {false, true})
            for (uint64_t slow = 1; slow <= 40; slow += 3) {
                CAPTURE(lanes);
                CAPTURE(by_acceptor);
                CAPTURE(slow);
                World world(1);
                world.net.neighbours = world.net.adapters = true;
                world.net.adapter_lanes = lanes;
                world.net.delay_min = world.net.delay_max = slow * kNsPerMs;
                Two two(world, by_acceptor);
                two.fails = 1 + slow % 2;
                for (int i = 0; i < 100; ++i) {
                    CHECK(two.put() == XFER_OK);
                    world.world.run_for(10 * kNsPerMs);
                }
                const bool by_adapter = says(two.a, "\"control\":\"adapter\"");
                CHECK(says(two.b, "\"control\":\"adapter\"") == by_adapter);
                CHECK(two.are_near() != by_adapter);
                CHECK((lanes || two.are_near()));
                CHECK(two.ends() == 0);
            }
}
