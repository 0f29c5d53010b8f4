// SPDX-License-Identifier: Apache-2.0
// A connection that a newer one has taken the place of is closed, but may still have something on
// its way out until its channels are down.
#include <cerrno>

#include "sim_channel.h"
#include "sim_copy_path.h"
#include "sim_host.h"
#include "wire/limits.h"

using namespace xfer;

namespace {

constexpr uint64_t kBytes = 200'000;

// Counts the reads of memory that is its user's again.
struct Watcher final : SimObserver {
    uint64_t operation_at(const void *) override { return 0; }
    void leaves(uint64_t, const void *, uint32_t, bool) override {}
    void spoiled(uint64_t) override {}
    void reads(const void *at) override {
        const auto *byte = static_cast<const uint8_t *>(at);
        if (byte < memory || byte >= memory + kBytes) return;
        ++(returned ? late : in_time);
    }
    void writes(const void *) override {}
    void lands(uint64_t, uint32_t, uint32_t, uint64_t, const uint8_t *, size_t) override {}
    void changes(uint64_t, uint32_t, uint32_t, uint64_t, const void *) override {}
    void announced(uint64_t, uint32_t) override { ++begun; }
    void note(const std::string &) override {}

    const uint8_t *memory = nullptr;
    bool returned = false;
    uint64_t in_time = 0, late = 0, begun = 0;
};

// Slow enough to be in the middle of it, and of a channel that was closed something leaves later.
void slow_down(World &world, Watcher &watcher) {
    world.net.observer = &watcher;
    world.net.bytes_per_second = 1'000'000;
    world.net.part_max = 4'000;
    world.net.linger_max = 100 * kNsPerMs;
}

// `who` notices that its channels are broken, and comes again; the other end hears of it only then.
void come_again(World &world, Host &who, uint32_t transport, xfer_ep_t *ep, uint64_t user) {
    for (auto &[number, channel] : world.net.channels)
        if (channel->transport().number == transport) channel->cut();
    REQUIRE(world.world.run_until([&] { return who.downs > 0; }, kSecond));
    who.expect(user);
    REQUIRE(xfer_ep_connect(ep, user, nullptr) == XFER_OK);
    CHECK(who.wait(user) == XFER_OK);
}

// A handle by which `data` is copied, without the owner.
xfer_ep_t *open_near(Host &a, const std::vector<uint8_t> &data) {
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    for (uint64_t i = 10; i < 30; ++i)
        REQUIRE(a.put(ep, data.data(), 0, data.size(), i) == XFER_OK);
    REQUIRE(a.world.net.met["copied"] > 0);
    return ep;
}

}  // namespace

TEST_CASE("a region that is closed while a superseded connection still sends from it") {
    with_seeds(50, [](World &world) {
        Watcher watcher;
        std::vector<uint8_t> into(kBytes);
        Host a(world, kA), b(world, kB);
        b.open(kA);  // who has a handle is told
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        slow_down(world, watcher);
        watcher.memory = b.memory.data();
        b.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_PEER_DOWN) xfer_region_close(b.region);
            if (event.kind == XFER_EVENT_CLOSED && event.object == b.region)
                watcher.returned = true;
        };
        a.expect(2);
        REQUIRE(xfer_get(ep, into.data(), &a.ref, 0, kBytes, 2, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return watcher.in_time > 3; }, kSecond));
        come_again(world, a, 1, ep, 3);
        CHECK(a.wait(2) == XFER_EPEERLOST);
        world.world.run_for(kSecond);
        CHECK(b.downs == 1);
        CHECK(watcher.returned);
        CHECK(watcher.late == 0);
        b.on_other = nullptr;
        b.region = nullptr;
    });
}

TEST_CASE("a send that is pulled by a superseded connection") {
    with_seeds(50, [](World &world) {
        Watcher watcher;
        std::vector<uint8_t> from(kBytes, 1), into(kBytes);
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        slow_down(world, watcher);
        watcher.memory = from.data();
        b.on_done = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_SEND) watcher.returned = true;
        };
        a.expect(2), b.expect(2);
        REQUIRE(xfer_recv(a.engine, nullptr, into.data(), kBytes, 0, 0, 2, nullptr) == XFER_OK);
        REQUIRE(xfer_send(back, from.data(), kBytes, 0, 2, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return watcher.in_time > 3; }, kSecond));
        const bool cancels = world.world.random(2) != 0;
        if (cancels) xfer_cancel(b.engine, back, 2, UINT64_MAX);
        come_again(world, a, 1, ep, 3);
        CHECK(b.wait(2) == (cancels ? XFER_ECANCELED : XFER_EPEERLOST));
        world.world.run_for(kSecond);
        CHECK(watcher.late == 0);
    });
}

// Messages are numbered from 1 on each connection, and the pull of one may end when the next
// connection has one of that number.
TEST_CASE("a pull that ends late says nothing of the next connection's messages") {
    with_seeds(50, [](World &world) {
        Watcher watcher;
        std::vector<uint8_t> from(kBytes, 1), into(kBytes), again(kBytes);
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        slow_down(world, watcher);
        watcher.memory = into.data();
        a.expect(2), b.expect(2);
        REQUIRE(xfer_recv(a.engine, nullptr, into.data(), kBytes, 0, 0, 2, nullptr) == XFER_OK);
        REQUIRE(xfer_send(back, from.data(), kBytes, 0, 2, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return into[0] == 1; }, kSecond));
        come_again(world, b, 2, back, 3);
        b.expect(4);
        REQUIRE(xfer_send(back, from.data(), kBytes, 0, 4, nullptr) == XFER_OK);
        CHECK(a.wait(2) == XFER_EPEERLOST);
        world.world.run_for(kSecond);
        a.expect(5);
        REQUIRE(xfer_recv(a.engine, nullptr, again.data(), kBytes, 0, 0, 5, nullptr) == XFER_OK);
        CHECK(b.wait(4) == XFER_OK);
        CHECK(a.wait(5) == XFER_OK);
    });
}

TEST_CASE("what a superseded connection had not sent goes by the next one, at once") {
    with_seeds(50, [](World &world) {
        Watcher watcher;
        std::vector<uint8_t> from(kBytes, 1);
        world.lanes = XFER_NONE;  // the second put waits behind the first
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        slow_down(world, watcher);
        b.expect(2), b.expect(3);
        REQUIRE(xfer_put(back, from.data(), &b.ref, 0, kBytes, 2, nullptr) == XFER_OK);
        REQUIRE(xfer_put(back, from.data(), &b.ref, kBytes, kBytes, 3, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return a.memory[0] == 1; }, kSecond));
        come_again(world, a, 1, ep, 3);
        CHECK(b.wait(2) == XFER_EPEERLOST);
        CHECK(b.wait(3, 5 * kSecond) == XFER_OK);
    });
}

// The first has half a second to answer, however many come after it: heartbeats would find out only
// later.
TEST_CASE("newcomers don't extend the life of a silent connection") {
    with_seeds(50, [](World &world) {
        const std::vector<uint8_t> id(16, 7);
        Host a(world, kA), b(world, kB, id);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        REQUIRE(a.downs == 0);
        xfer_event_t first = {};
        a.on_other = [&](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_PEER_DOWN && first.kind == 0) first = event;
        };
        world.net.ways[{1, 2}].silent_until = world.net.ways[{2, 1}].silent_until = kNever;
        for (uint64_t i = 0; i < 3; ++i) {
            CHECK(a.downs == (i < 2 ? 0 : 1));
            Host newcomer(world, "", id);
            newcomer.expect(1);
            REQUIRE(xfer_ep_lookup(newcomer.open(kA), "memory", 1, nullptr, nullptr) == XFER_OK);
            world.world.run_for(300 * kNsPerMs);
        }
        a.on_other = nullptr;
        CHECK(first.status == XFER_EPEERLOST);
        CHECK(first.origin == XFER_ORIGIN_OS);
        CHECK(first.native_code == ETIMEDOUT);
        world.net.ways.clear();
    });
}

// Its end has broken, and it has no handle on us: it forgets what it has seen of ours. We had
// dialed, and would hear of it by a heartbeat alone.
TEST_CASE("who has forgotten a connection that we believe in is let in at once") {
    with_seeds(50, [](World &world) {
        world.heartbeat_ms = 20'000;
        world.loops = 1 + static_cast<uint32_t>(world.world.random(2));
        Host a(world, kA), b(world, kB);
        REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
        for (auto &[number, channel] : world.net.channels)
            if (channel->transport().number == b.process->number) channel->cut();
        world.world.run_for(kSecond);
        REQUIRE(a.downs == 0);
        b.expect(2);
        REQUIRE(xfer_ep_lookup(b.open(kA), "memory", 2, nullptr, nullptr) == XFER_OK);
        CHECK(b.wait(2, 200 * kNsPerMs) == XFER_OK);
        CHECK(a.downs == 1);
    });
}

// Only the end of its path tells the owner of it, which is behind that of the connection.
TEST_CASE("a notification whose puts a neighbour had copied by a superseded connection") {
    with_seeds(20, [](World &world) {
        Watcher watcher;
        world.net.neighbours = world.net.copies = true;
        Host a(world, kA), b(world, kB);
        b.open(kA);
        std::vector<Status> told;
        b.on_notify = [&](const xfer_event_t &event) { told.push_back(event.status); };
        const std::vector<uint8_t> data(1'000, 5);
        xfer_ep_t *ep = open_near(a, data);
        world.net.observer = &watcher;
        world.net.copy_ns_max = 500 * kNsPerMs;
        xfer_batch_t *batch = nullptr;
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
        REQUIRE(xfer_batch_put(batch, data.data(), &a.ref, 0, data.size()) == XFER_OK);
        xfer_submit_options_t options{};
        options.size = sizeof options;
        options.flags = XFER_SUBMIT_NOTIFY;
        options.notify_key = 7;
        a.expect(40);
        REQUIRE(xfer_batch_submit(batch, 40, &options) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return watcher.begun > 0; }, kSecond));
        come_again(world, a, a.process->number, ep, 41);
        world.world.run_for(kSecond);
        CHECK(a.done.at(40).status == XFER_EPEERLOST);
        CHECK(told == std::vector<Status>{XFER_EPEERLOST});
        xfer_batch_close(batch);
    });
}

// What the neighbour has written into the memory that both share is read when the path ends.
TEST_CASE("no more notifications than may begin are told of a superseded connection's path") {
    with_seeds(20, [](World &world) {
        world.net.neighbours = world.net.copies = true;
        Host a(world, kA), b(world, kB);
        b.open(kA);
        std::vector<uint64_t> told;
        b.on_notify = [&](const xfer_event_t &event) { told.push_back(event.tag); };
        const std::vector<uint8_t> data(1'000, 5);
        xfer_ep_t *ep = open_near(a, data);
        for (auto &[number, path] : world.net.copy_paths)
            for (uint64_t i = 1; i <= 2 * kNotificationSpan; ++i)
                if (path->owner().transport().number == b.process->number)
                    path->claim_begun(2 * i, i);
        come_again(world, a, a.process->number, ep, 41);
        world.world.run_for(kSecond);
        CHECK(told.size() == kMaxNotifications);
        CHECK(a.put(ep, data.data(), 0, data.size(), 50) == XFER_OK);
    });
}

// What waits for its turn behind all that may begin has no number on the next connection yet.
TEST_CASE("notifications that wait when their connection is superseded") {
    constexpr uint64_t kCount = 600, kEach = 1'000, kFirst = 1'000;
    with_seeds(8, [](World &world) {
        Host a(world, kA), b(world, kB);
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, 1) == XFER_OK);
        std::map<uint64_t, Status> told;
        b.on_notify = [&](const xfer_event_t &event) {
            CHECK(told.emplace(event.tag, event.status).second);
        };
        std::vector<xfer_ep_t *> eps;
        for (int i = 0; i < 10; ++i)
            eps.push_back(a.open(kB));
        REQUIRE(a.lookup(eps[0], 1) == XFER_OK);
        world.net.bytes_per_second = 200'000;
        world.net.window = 3'000;
        world.net.linger_max = 100 * kNsPerMs;
        const std::vector<uint8_t> from(kEach, 3);
        std::vector<xfer_batch_t *> batches(kCount);
        for (uint64_t i = 0; i < kCount; ++i) {
            REQUIRE(xfer_batch_open(eps[i / 60], nullptr, &batches[i], nullptr) == XFER_OK);
            REQUIRE(xfer_batch_put(batches[i], from.data(), &a.ref, i * kEach, kEach) == XFER_OK);
            xfer_submit_options_t options{};
            options.size = sizeof options;
            options.flags = XFER_SUBMIT_NOTIFY;
            options.notify_key = kFirst + i;
            a.expect(kFirst + i);
            REQUIRE(xfer_batch_submit(batches[i], kFirst + i, &options) == XFER_OK);
        }
        REQUIRE(world.world.run_until([&] { return told.size() > 3; }, kSecond));
        for (auto &[number, channel] : world.net.channels)
            if (channel->transport().number == b.process->number) channel->cut();
        REQUIRE(world.world.run_until([&] { return b.downs > 0; }, kSecond));
        b.expect(3);
        REQUIRE(xfer_ep_connect(back, 3, nullptr) == XFER_OK);
        CHECK(b.wait(3) == XFER_OK);
        world.net.window = 1 << 20;
        world.world.run_until([&] { return a.pending == 0; }, 60 * kSecond);
        for (uint64_t i = kFirst; i < kFirst + kCount; ++i) {
            CAPTURE(i);
            REQUIRE(a.done.contains(i));
            const Status status = a.done[i].status;
            CHECK((status == XFER_OK || status == XFER_EPEERLOST));
            if (status == XFER_OK) CHECK(told[i] == XFER_OK);
        }
        for (xfer_batch_t *batch : batches)
            xfer_batch_close(batch);
    });
}

// The two have dialed each other, and the peer takes the second attempt when the first connection
// has ended there in peace: its answer comes before the goodbye. At each moment of the handshakes.
TEST_CASE("the answer to a proof that overtakes the goodbye of the connection before") {
    constexpr uint64_t kTrip = kNsPerMs, kLate = 20 * kTrip;
    uint64_t overtaken = 0;
    for (uint64_t at = 0; at < 10 * kTrip; at += kTrip / 4) {
        CAPTURE(at);
        World world(1);
        world.net.delay_min = world.net.delay_max = kTrip;
        Host a(world, kA, std::vector<uint8_t>(16, 9)), b(world, kB, std::vector<uint8_t>(16, 1));
        a.on_other = b.on_other = [](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_PEER_DOWN) CHECK(event.status == XFER_ECLOSED);
        };
        const auto delay = [&](const Host &host, const std::string &to) {
            for (auto &[number, channel] : world.net.channels)
                if (channel->transport().number == host.process->number &&
                    (channel->remote() == to || to.empty()))
                    channel->be_late(kLate);
        };
        xfer_ep_t *ep = a.open(kB), *back = b.open(kA);
        a.expect(1), b.expect(1);
        REQUIRE(xfer_ep_lookup(ep, "memory", 1, nullptr, nullptr) == XFER_OK);
        REQUIRE(xfer_ep_lookup(back, "memory", 1, nullptr, nullptr) == XFER_OK);
        world.world.run_for(at);
        delay(a, kB);
        REQUIRE(world.world.run_until([&] { return a.ups && b.ups; }, kSecond));
        REQUIRE(xfer_engine_drain(a.engine, 2, nullptr) == XFER_OK);
        delay(b, kA);
        REQUIRE(world.world.run_until([&] { return b.downs || b.ups > 1; }, kSecond));
        b.expect(3);  // right behind its answer
        REQUIRE(xfer_ep_lookup(back, "memory", 3, nullptr, nullptr) == XFER_OK);
        CHECK(a.wait(1, kSecond) == XFER_OK);
        world.world.run_for(kSecond);
        overtaken += a.ups > 1;
        if (a.ups > 1) CHECK(b.wait(3, kSecond) == XFER_OK);
        a.on_other = b.on_other = nullptr;
    }
    CHECK(overtaken > 8);
}
