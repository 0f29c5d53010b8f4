// SPDX-License-Identifier: Apache-2.0
// Several paths beside the channels of one connection: when they are opened, what each of them
// carries, and what becomes of the others when one of them falls.
#include <nlohmann/json.hpp>

#include "core/base/limits.h"
#include "near_pair.h"

using namespace xfer;

namespace {

using By = NearPair::By;
using nlohmann::json;

constexpr uint32_t kPorts = 3;
constexpr uint64_t kLarge = 400'000;

struct Rails : World, NearPair {
    using NearPair::world;
    explicit Rails(uint64_t seed, uint32_t lane_ops = kLaneOps)
        : World(seed), NearPair(with_ports(*this, lane_ops), By::adapter) {}
    static World &with_ports(World &world, uint32_t lane_ops) {
        world.net.ports = kPorts;
        world.net.on_caps = [lane_ops](const SimChannel &, Caps &caps) { caps.max_ops = lane_ops; };
        world.net.copy_max_bytes = 20'000;
        return world;
    }
};

// What an engine tells of the paths beside its one connection.
json paths(Host &host) {
    std::string text(100'000, '\0');
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
    text.resize(needed - 1);
    const json told = json::parse(text);
    std::vector<json> found;
    for (const json &loop : told.at("loops"))
        for (const json &peer : loop.at("peers"))
            for (const json &connection : peer.at("connections"))
                found.push_back(connection.at("attached_paths"));
    REQUIRE(found.size() == 1);
    return found[0];
}

uint64_t open_paths(Host &host) {
    const json all = paths(host);
    return static_cast<uint64_t>(std::count_if(
        all.begin(), all.end(), [](const json &at) { return at["state"] == "open"; }));
}

std::vector<uint64_t> carried(Host &host) {
    std::vector<uint64_t> bytes;
    for (const json &path : paths(host))
        bytes.push_back(path.at("carried").at("bytes"));
    return bytes;
}

// Large puts, until so many paths are open.
bool until_open(NearPair &pair, uint64_t count) {
    for (int i = 0; i < 200 && open_paths(*pair.a) < count; ++i) {
        REQUIRE(pair.put(0, kLarge) == XFER_OK);
        pair.world.world.run_for(20 * kNsPerMs);
    }
    return open_paths(*pair.a) == count;
}

void move_some(NearPair &pair, uint64_t bytes) {
    Burst burst(pair, 12, bytes);
    burst.begin();
    REQUIRE(burst.all_end());
    burst.check();
    CHECK(burst.count(XFER_OK) == 12);
}

}  // namespace

TEST_CASE("what is small opens one, what is large the others, and each carries its part") {
    Rails pair(1);
    pair.come_near();
    move_some(pair, 30'000);
    CHECK(open_paths(*pair.a) == 1);
    CHECK(pair.said(FrameType::path_signal) == 3);
    REQUIRE(until_open(pair, kPorts));
    CHECK(open_paths(*pair.b) == kPorts);
    CHECK(pair.said(FrameType::path_signal) == 3 * kPorts);
    const std::vector<uint64_t> before = carried(*pair.a);
    const uint64_t puts = pair.said(FrameType::put);
    for (int i = 0; i < 10; ++i)
        REQUIRE(pair.put(0, 1'000'000) == XFER_OK);
    CHECK(pair.said(FrameType::put) == puts);
    for (size_t i = 0; i < kPorts; ++i) {
        CAPTURE(i);
        CHECK(carried(*pair.a)[i] - before[i] > 2'000'000);
    }
    CHECK(pair.lost_connections() == 0);
}

TEST_CASE("the end that was dialed asks for all of them") {
    Rails pair(1);
    Host &b = *pair.b;
    xfer_ep_t *back = b.open(kA);
    REQUIRE(b.lookup(back, ++pair.last_user) == XFER_OK);
    const std::vector<uint8_t> data(kLarge, 5);
    for (int i = 0; i < 100; ++i)
        REQUIRE(b.put(back, data.data(), 0, data.size(), ++pair.last_user) == XFER_OK);
    CHECK(open_paths(b) == kPorts);
    CHECK(pair.said(FrameType::lanes) <= 2 + kPorts);  // for lanes, too
    for (const uint64_t bytes : carried(b))
        CHECK(bytes > 0);
}

TEST_CASE("an end that has fewer ports is asked for no more of them, once, and asks for none") {
    for (const bool dialed : {true, false}) {
        CAPTURE(dialed);
        Rails pair(1);
        (dialed ? pair.net.other_ports : pair.net.ports) = 1;
        if (!dialed) pair.net.other_ports = kPorts;
        uint64_t asked = 0;
        pair.net.on_attach = [&](AttachStep step, const SimAttachedPath &) {
            asked += step == AttachStep::open;
            return AttachFate::go_on;
        };
        pair.come_near();
        Host &b = *pair.b;
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, ++pair.last_user) == XFER_OK);
        const std::vector<uint8_t> data(kLarge, 5);
        for (int i = 0; i < 50; ++i) {
            move_some(pair, 80'000);
            REQUIRE(b.put(back, data.data(), 0, data.size(), ++pair.last_user) == XFER_OK);
            pair.world.world.run_for(kSecond / 2);
        }
        CHECK(asked == (dialed ? 1 + kPorts : 2));  // each attempt once
        CHECK(open_paths(*pair.a) == 1);
        CHECK(open_paths(b) == 1);
        CHECK(paths(*pair.a).size() == (dialed ? kPorts : 1));
        CHECK(pair.said(FrameType::lanes) <= 2 + kPorts);
        pair.net.on_attach = nullptr;
    }
}

// Its own end can't be opened, or the other's first word is its end.
TEST_CASE("the end that was dialed asks again, whichever end failed") {
    for (const bool own : {true, false}) {
        CAPTURE(own);
        Rails pair(1);
        uint64_t failed = 0;
        pair.net.on_attach = [&](AttachStep step, const SimAttachedPath &path) {
            const bool due = step == (own ? AttachStep::open : AttachStep::offer);
            const bool fails = due && path.first() != own && ++failed <= 3;
            return fails ? AttachFate::fail : AttachFate::go_on;
        };
        Host &b = *pair.b;
        xfer_ep_t *back = b.open(kA);
        REQUIRE(b.lookup(back, ++pair.last_user) == XFER_OK);
        for (int i = 0; i < 100; ++i) {
            const uint8_t byte = 1;
            REQUIRE(b.put(back, &byte, 0, 1, ++pair.last_user) == XFER_OK);
            pair.world.world.run_for(100 * kNsPerMs);
        }
        CHECK(failed == 4);
        CHECK(open_paths(b) == 1);
        pair.net.on_attach = nullptr;
    }
}

// It asks for a local path, and hears nothing of a dial that failed.
TEST_CASE("the end that was dialed has paths by adapters where no memory is shared") {
    World world(1);
    world.net.neighbours = world.net.adapters = true;
    Host a(world, kA), b(world, kB);
    for (const auto &[uri, listener] : world.net.listeners)
        if (uri.starts_with("shm:")) world.net.closed.insert(uri);
    REQUIRE(a.lookup(a.open(kB), 1) == XFER_OK);
    xfer_ep_t *back = b.open(kA);
    REQUIRE(b.lookup(back, 2) == XFER_OK);
    const std::vector<uint8_t> data(700'000, 5);
    REQUIRE(b.put(back, data.data(), 0, data.size(), 3) == XFER_OK);
    world.world.run_for(5 * kSecond);
    CHECK(open_paths(b) == 1);
    CHECK(a.stats().connection_ends == 0);
}

TEST_CASE("neighbours make no place for paths that they need not") {
    World world(1);
    world.net.ports = kPorts;
    NearPair pair(world, By::copies_and_adapter);
    pair.come_near();
    for (int i = 0; i < 5; ++i)
        REQUIRE(pair.put(0, kLarge) == XFER_OK);
    CHECK(paths(*pair.a).size() == 1);
    CHECK(pair.said(FrameType::path_signal) == 0);
}

TEST_CASE("memory that lacks for another path costs that one alone") {
    Rails pair(1);
    pair.net.on_attach = [&](AttachStep step, const SimAttachedPath &path) {
        const bool lacks = step == AttachStep::open && !path.first() && pair.copied() > 0;
        return lacks ? AttachFate::lack : AttachFate::go_on;
    };
    pair.come_near();
    for (int i = 0; i < 10; ++i)
        move_some(pair, 80'000);
    CHECK(open_paths(*pair.a) == 1);
    pair.net.on_attach = nullptr;
    pair.world.world.run_for(4 * kSecond);
    CHECK(until_open(pair, kPorts));
    CHECK(pair.lost_connections() == 0);
}

// What was posted on it ends as lost, what was not goes by the others, which carry on.
TEST_CASE("one that falls at any step costs what it had posted, and comes back") {
    for (const CopyStep step : {CopyStep::post, CopyStep::begin, CopyStep::finish})
        for (uint64_t k = 1; k <= 8; ++k)
            for (const bool first : {true, false}) {
                CAPTURE(static_cast<int>(step));
                CAPTURE(k);
                CAPTURE(first);
                Rails pair(k);
                pair.come_near();
                REQUIRE(until_open(pair, kPorts));
                uint64_t victim = 0, posts = 0, times = 0, on_others = 0;
                bool fallen = false;
                pair.script = [&](CopyStep now, uint64_t, const SimCopyPath &path) {
                    if (victim == 0 && now == CopyStep::post && posts++ == !first)
                        victim = path.number();
                    if (path.number() != victim) {
                        on_others += fallen && now == CopyStep::finish;
                        return CopyFate::go_on;
                    }
                    if (now != step || ++times != k) return CopyFate::go_on;
                    fallen = true;
                    return CopyFate::fall;
                };
                Burst burst(pair, 12, 80'000);
                burst.begin();
                REQUIRE(burst.all_end());
                burst.check();
                CHECK(fallen);
                CHECK(on_others > 0);
                pair.script = nullptr;
                CHECK(until_open(pair, kPorts));
                move_some(pair, 80'000);
                CHECK(pair.lost_connections() == 0);
                CHECK(pair.a->downs + pair.b->downs == 0);
            }
}

TEST_CASE("all of them fall at once, and come back") {
    for (uint64_t k = 1; k <= 12; ++k) {
        CAPTURE(k);
        Rails pair(k);
        pair.come_near();
        REQUIRE(until_open(pair, kPorts));
        uint64_t times = 0;
        pair.script = [&](CopyStep now, uint64_t, const SimCopyPath &) {
            return now == CopyStep::finish && ++times >= k ? CopyFate::fall : CopyFate::go_on;
        };
        Burst burst(pair, 12, 80'000);
        burst.begin();
        pair.world.world.run_for(2 * kNsPerMs);
        pair.script = nullptr;
        REQUIRE(burst.all_end());
        burst.check();
        CHECK(until_open(pair, kPorts));
        CHECK(pair.lost_connections() == 0);
    }
}

TEST_CASE("what is small brings back one of them") {
    Rails pair(1);
    pair.come_near();
    REQUIRE(until_open(pair, kPorts));
    for (int i = 0; i < 5; ++i)
        REQUIRE(pair.put(0, kLarge) == XFER_OK);  // each imports the region
    pair.net.on_attach = [](AttachStep, const SimAttachedPath &) { return AttachFate::fail; };
    pair.script = [](CopyStep, uint64_t, const SimCopyPath &) { return CopyFate::fall; };
    Burst burst(pair, 12, 80'000);
    burst.begin();
    REQUIRE(burst.all_end());
    burst.check();
    pair.script = nullptr;
    REQUIRE(open_paths(*pair.a) == 0);
    pair.net.on_attach = nullptr;
    for (int i = 0; i < 100; ++i) {
        REQUIRE(pair.put(0, 1) == XFER_OK);
        pair.world.world.run_for(100 * kNsPerMs);
    }
    CHECK(open_paths(*pair.a) == 1);
    CHECK(until_open(pair, kPorts));
}

// The lane takes one request at a time: those behind it go on when that is answered.
TEST_CASE("what the paths decline goes on by the lane, however little that takes") {
    Rails pair(1, 1);
    pair.come_near();
    REQUIRE(until_open(pair, kPorts));
    pair.script = [](CopyStep step, uint64_t, const SimCopyPath &) {
        return step == CopyStep::begin ? CopyFate::decline : CopyFate::go_on;
    };
    move_some(pair, 80'000);
    pair.script = nullptr;
}

// Each of them has keys of it.
TEST_CASE("a region is closed when no path writes to it any more") {
    for (uint64_t after = 0; after < 4'000'000; after += 200'000) {
        CAPTURE(after);
        Rails pair(after + 1);
        pair.come_near();
        REQUIRE(until_open(pair, kPorts));
        pair.net.copy_ns_max = 2 * kNsPerMs;  // longer than words take
        std::vector<uint8_t> memory(1'000'000);
        xfer_ref_t ref{};
        xfer_region_t *region = pair.open_region(memory, ref);
        const std::vector<uint8_t> data(memory.size(), 9);
        for (int i = 0; i < 10; ++i)
            pair.put_to(ref, data);
        bool closed = false;
        pair.b->on_other = [&](const xfer_event_t &event) {
            closed |= event.kind == XFER_EVENT_CLOSED && event.object == region;
        };
        pair.a->expect(++pair.last_user);
        REQUIRE(xfer_put(pair.ep, data.data(), &ref, 0, data.size(), pair.last_user, nullptr) ==
                XFER_OK);
        pair.world.world.run_for(after);
        std::fill(memory.begin(), memory.end(), 1);
        xfer_region_close(region);
        REQUIRE(pair.world.world.run_until([&] { return closed; }, kSecond));
        const std::vector<uint8_t> then = memory;
        REQUIRE(pair.world.world.run_until([&] { return pair.a->pending == 0; }, kBeforeStall));
        pair.world.world.run_for(kSecond);
        CHECK(memory == then);
        CHECK(pair.said(FrameType::withdrawn) == kPorts);
        CHECK(pair.net.met["copy, dead key"] == 0);
        CHECK(pair.lost_connections() == 0);
        pair.b->on_other = nullptr;
    }
}

TEST_CASE("an engine ends with its paths in any state") {
    for (uint64_t wait = 0; wait < 3'000'000; wait += 100'000)
        for (const uint64_t detach_ns : {0u, 1'000'000u}) {
            CAPTURE(wait);
            Rails pair(wait + 1);
            pair.net.detach_ns = detach_ns;
            pair.script = falls_at(CopyStep::finish, 5);
            Burst burst(pair, 12, 80'000);
            burst.begin();
            pair.world.world.run_for(wait);
            pair.a->end();
            CHECK(burst.all_end(0));
        }
}
