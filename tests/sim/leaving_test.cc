// SPDX-License-Identifier: Apache-2.0
// What stays when nobody uses something any more, and for how long: the memory of addresses that
// failed, offers to end an idle connection that are not answered, or refused.
#include "core/base/limits.h"
#include "sim_host.h"

using namespace xfer;

namespace {

void close_ep(Host &host, xfer_ep_t *ep) {
    std::erase(host.eps, ep);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}

// Asks for a name, and lets things go on.
void ask(Host &host, xfer_ep_t *ep, uint64_t user, bool wait = false) {
    xfer_op_options_t options{};
    options.size = sizeof options;
    options.flags = wait ? XFER_FLAG_WAIT : 0;
    host.expect(user);
    REQUIRE(xfer_ep_lookup(ep, wait ? "later" : "memory", user, &options, nullptr) == XFER_OK);
}

xfer_region_t *lend_later(Host &host) {
    xfer_region_options_t lent{};
    lent.size = sizeof lent;
    lent.name = "later";
    lent.access = XFER_READ;
    xfer_region_t *region = nullptr;
    REQUIRE(xfer_region_open(host.engine, &lent, host.memory.data(), 8, &region, nullptr) ==
            XFER_OK);
    return region;
}

size_t peers_of(Host &host) {
    std::string text(200'000, '\0');
    uint64_t needed = 0, count = 0;
    REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
    for (size_t at = 0; (at = text.find("\"endpoints\"", at)) != std::string::npos; ++at)
        ++count;
    return count;
}

// Until the next attempt is at least 320 ms away.
void fail_six_times(World &world, Host &host, xfer_ep_t *ep) {
    ask(host, ep, 1);
    CHECK(world.world.run_until([&] { return world.net.dials == 6; }, 10 * kSecond));
    world.world.run_for(10 * kNsPerMs);
    CHECK(host.pending == 1);
}

}  // namespace

TEST_CASE("who opens an address again waits as long as if it had never been closed") {
    with_seeds(30, [](World &world) {
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        fail_six_times(world, a, ep);
        close_ep(a, ep);
        CHECK(a.wait(1, kSecond) == XFER_ECANCELED);
        ep = a.open(kB);
        ask(a, ep, 2);
        world.world.run_for(300 * kNsPerMs);
        CHECK(world.net.dials == 6);
        CHECK(world.world.run_until([&] { return world.net.dials == 7; }, 400 * kNsPerMs));
        world.world.run_for(600 * kNsPerMs);  // and it is one failure more
        CHECK(world.net.dials == 7);
        close_ep(a, ep);
    });
}

TEST_CASE("an address that failed is forgotten when its time has come, if nobody wants it") {
    with_seeds(30, [](World &world) {
        Host a(world, kA);
        xfer_ep_t *ep = a.open(kB);
        fail_six_times(world, a, ep);
        close_ep(a, ep);
        world.world.run_for(300 * kNsPerMs);
        CHECK(peers_of(a) == 1);
        world.world.run_for(400 * kNsPerMs);
        CHECK(peers_of(a) == 0);
        CHECK(world.net.dials == 6);
        ep = a.open(kB);  // as if it were new
        ask(a, ep, 2);
        world.world.run_for(kNsPerMs);
        CHECK(world.net.dials > 6);
        close_ep(a, ep);
    });
}

TEST_CASE(
    "a sign of life of the peer clears the memory of its failures, also while nobody wants it") {
    with_seeds(30, [](World &world) {
        const std::vector<uint8_t> name(16, 0xb0);
        xfer_id_t id{};
        std::copy(name.begin(), name.end(), id.bytes);
        xfer_ep_options_t options{};
        options.size = sizeof options;
        options.peer = &id;
        Host a(world, kA);
        const auto open_b = [&] {
            xfer_ep_t *ep = nullptr;
            REQUIRE(xfer_ep_open(a.engine, kB.c_str(), &options, &ep, nullptr) == XFER_OK);
            a.eps.push_back(ep);
            return ep;
        };
        xfer_ep_t *ep = open_b();
        fail_six_times(world, a, ep);
        close_ep(a, ep);
        Host b(world, kB, name);
        CHECK(b.lookup(b.open(kA), 1) == XFER_OK);
        CHECK(world.net.dials == 7);  // b's: nobody here wants it
        ep = open_b();
        world.net.cut_all();
        CHECK(world.world.run_until([&] { return a.stats().connections == 0; }, kSecond));
        ask(a, ep, 2);
        CHECK(a.wait(2, 10 * kNsPerMs) == XFER_OK);
        world.world.run_for(5 * kSecond);
        CHECK(a.stats().connections == 1);
        CHECK(world.net.dials == 8);
    });
}

// Its answers to our pings are late too; but an offer has a limit of its own, far sooner.
TEST_CASE("an offer that is not answered ends the connection, and what came meanwhile goes on") {
    with_seeds(30, [](World &world) {
        world.idle_ms = 1'000;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const uint64_t used = world.world.now();
        world.world.run_for(950 * kNsPerMs);
        world.net.silent = true;
        world.world.run_for(310 * kNsPerMs);  // it looks four times in a heartbeat
        ask(a, ep, 2);
        CHECK(world.world.run_until([&] { return a.stats().connections == 0; }, kSecond));
        const uint64_t took = world.world.now() - used;
        CHECK(took >= 1'499 * kNsPerMs);
        CHECK(took <= 1'760 * kNsPerMs);
        world.net.silent = false;
        CHECK(a.wait(2, kSecond) == XFER_OK);
        CHECK(a.downs == 0);  // the user is not told of an idle end
        CHECK(a.ups == 1);
    });
}

// What we say is late, what the peer says is not.
TEST_CASE("a peer that uses the connection before it can answer an offer keeps it") {
    with_seeds(30, [](World &world) {
        world.idle_ms = 1'000;
        Host a(world, kA), b(world, kB);
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        const uint64_t ends = a.stats().connection_ends;
        world.world.run_for(950 * kNsPerMs);
        const uint64_t late = world.world.now() + 1'000 * kNsPerMs;
        world.net.ways[{a.process->number, b.process->number}].silent_until = late;
        world.world.run_for(310 * kNsPerMs);  // it looks four times in a heartbeat: it has offered
        CHECK(b.lookup(back, 2) == XFER_OK);
        CHECK(world.world.now() >= late);
        CHECK(a.stats().connections == 1);
        CHECK(a.downs + b.downs == 0);
        CHECK(a.stats().connection_ends == ends);
    });
}

// The peer waits for a name here, and says no to every offer. One begins an offer after a second,
// and has the answer 200 ms later: some of these drains begin in between.
TEST_CASE("a drain that begins while the peer is asked whether it wants to stay ends in time") {
    for (uint64_t begins = 900; begins < 1'900; begins += 50) {
        CAPTURE(begins);
        World world(1);
        world.idle_ms = 1'000;
        world.net.delay_min = world.net.delay_max = 100 * kNsPerMs;
        Host a(world, kA), b(world, kB);
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        ask(b, b.open(kA), 1, true);
        world.world.run_for(begins * kNsPerMs);
        CHECK(a.stats().connections == 1);
        bool drained = false;
        a.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_DRAINED) drained = event.status == XFER_OK;
        };
        REQUIRE(xfer_engine_drain(a.engine, 2, nullptr) == XFER_OK);
        CHECK(world.world.run_until([&] { return drained; }, kSecond));
        CHECK(b.pending == 1);  // for who comes after the peer
    }
}

// Its bytes are with the sender, so that it is pulled; only the sender knows that it is at work.
// The offer begins after a second, and is answered 200 ms later: some of these receives come in
// between.
TEST_CASE("a receive that comes while the sender is asked whether it wants to stay") {
    constexpr uint64_t kBytes = 10'000;
    for (uint64_t begins = 900; begins < 1'900; begins += 50) {
        for (const uint32_t timeout_ms : {0u, 20u}) {
            CAPTURE(begins);
            CAPTURE(timeout_ms);
            World world(1);
            world.idle_ms = 1'000;
            world.net.delay_min = world.net.delay_max = 100 * kNsPerMs;
            const std::vector<uint8_t> from(kBytes, 1);
            std::vector<uint8_t> into(kBytes);
            Host a(world, kA), b(world, kB);
            REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
            b.expect(1), a.expect(2);
            REQUIRE(xfer_send(b.open(kA), from.data(), kBytes, 0, 1, nullptr) == XFER_OK);
            world.world.run_for(begins * kNsPerMs);
            xfer_op_options_t options{};
            options.size = sizeof options;
            options.timeout_ms = timeout_ms;
            REQUIRE(xfer_recv(a.engine, nullptr, into.data(), kBytes, 0, 0, 2, &options) ==
                    XFER_OK);
            const Status received = a.wait(2, kSecond);
            CHECK(received == (timeout_ms ? XFER_ETIMEDOUT : XFER_OK));
            CHECK(b.wait(1, kSecond) == received);
            CHECK(a.stats().connection_ends == 0);
        }
    }
}

TEST_CASE(
    "an idle end is not told, but for the handle that is the engine's: it goes if nobody comes") {
    with_seeds(30, [](World &world) {
        world.idle_ms = 1'000;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const auto idle = [&] { return a.stats().connections + b.stats().connections == 0; };
        CHECK(world.world.run_until(idle, 2 * kSecond));
        world.world.run_for(900 * kNsPerMs);
        CHECK(a.lookup(ep, 2) == XFER_OK);  // in time
        CHECK(world.world.run_until(idle, 2 * kSecond));
        world.world.run_for(900 * kNsPerMs);
        CHECK(b.ups == 1);
        CHECK(b.downs == 0);
        CHECK(peers_of(b) == 1);
        world.world.run_for(200 * kNsPerMs);
        CHECK(b.downs == 1);
        CHECK(peers_of(b) == 0);
        CHECK(a.lookup(ep, 3) == XFER_OK);
        CHECK(b.ups == 2);  // of a new handle
        CHECK(world.world.run_until(idle, 2 * kSecond));
        world.world.run_for(10 * kSecond);
        CHECK(b.downs == 2);
        CHECK(a.ups == 1);  // its user has kept the handle, and never noticed
        CHECK(a.downs == 0);
        CHECK(peers_of(a) == 1);
    });
}

TEST_CASE("who comes back after an idle end is told to a handle that is new") {
    with_seeds(30, [](World &world) {
        world.idle_ms = 1'000;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const auto idle = [&] { return a.stats().connections + b.stats().connections == 0; };
        CHECK(world.world.run_until(idle, 2 * kSecond));
        world.net.closed = {kB};
        ask(a, ep, 2);
        world.world.run_for(200 * kNsPerMs);
        close_ep(a, ep);  // what is known of the failures stays
        CHECK(b.lookup(b.open(kA), 1) == XFER_OK);
        world.world.run_for(10 * kNsPerMs);
        CHECK(a.ups == 2);
    });
}

// Its lanes end in any order: the local one, by which frames are said already, before the first
// one, by which its goodbye comes.
TEST_CASE("who leaves while its neighbour moves the control channel is not taken for lost") {
    for (uint64_t after = 0; after < 2'000'000; after += 5'000) {
        for (const bool dialed : {false, true}) {
            CAPTURE(after);
            CAPTURE(dialed);
            World world(1 + after);
            world.net.neighbours = true;
            Host a(world, kA), b(world, kB);
            Host &leaves = dialed ? a : b, &stays = dialed ? b : a;
            Status down = XFER_OK;
            stays.on_other = [&](const xfer_event_t &event) {
                if (event.kind == XFER_EVENT_PEER_DOWN) down = event.status;
            };
            xfer_ep_t *ep = a.open(kB);
            REQUIRE(a.lookup(ep, 1) == XFER_OK);
            a.expect(2);
            REQUIRE(xfer_put(ep, a.memory.data(), &a.ref, 0, 8, 2, nullptr) == XFER_OK);
            world.world.run_for(after);
            leaves.end();
            CHECK(world.world.run_until([&] { return stays.downs == 1; }, 10 * kSecond));
            CHECK(down == XFER_ECLOSED);
        }
    }
}

// Our bound is reached, somebody waits for a place, and who is idle here is at work over there: it
// says no, and is asked again after a while only, however often a use of it ends.
TEST_CASE("who refused to go is left alone for a while") {
    World world(1);
    world.net.delay_min = world.net.delay_max = kNsPerMs;
    Host a(world, kA);
    std::vector<std::unique_ptr<Host>> peers;
    std::vector<xfer_ep_t *> eps;
    constexpr uint64_t kBound = 64, kQuestions = 200, kTrip = 2 * kNsPerMs;
    for (uint64_t i = 0; i <= kBound; ++i) {
        const std::string uri = "tcp://10.0.1." + std::to_string(i) + ":1";
        peers.push_back(std::make_unique<Host>(world, uri));
        eps.push_back(a.open(uri));
    }
    for (uint64_t i = 1; i < kBound; ++i)
        ask(a, eps[i], i, true);  // at work
    REQUIRE(a.lookup(eps[0], kBound) == XFER_OK);
    Host &busy = *peers[0];
    ask(busy, busy.open(kA), 1, true);
    world.world.run_for(100 * kNsPerMs);
    REQUIRE(a.stats().connections == kBound);

    ask(a, eps[kBound], 1'000);  // there is no place for it
    const uint64_t began = world.world.now();
    for (uint64_t user = 2'000; user < 2'000 + kQuestions; ++user)
        REQUIRE(a.lookup(eps[0], user) == XFER_OK);
    const uint64_t took = world.world.now() - began;
    // A question that meets an offer waits for the answer.
    const uint64_t most_offers = took / (kBusyMs * kNsPerMs) + 2;
    CHECK(took <= (kQuestions + most_offers) * kTrip);
    CHECK(took > kQuestions * kTrip);  // it was asked
    CHECK(a.done.count(1'000) == 0);

    std::vector<xfer_region_t *> lent{lend_later(a)};  // the work over there ends: it may go
    CHECK(a.wait(1'000, kSecond) == XFER_OK);
    CHECK(a.downs == 0);
    for (auto &peer : peers)
        lent.push_back(lend_later(*peer));
    CHECK(world.world.run_until([&] { return a.pending == 0; }, kSecond));
    a.end();
    peers.clear();
    for (xfer_region_t *region : lent)
        xfer_region_close(region);
}
