// SPDX-License-Identifier: Apache-2.0
// An engine in the simulated world, driven through its C ABI, with all that it told. A failure
// prints the seed, and XFER_SIM_SEED=N runs that one alone.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "sim_fabric.h"
#include "sim_transport.h"

namespace xfer {

inline constexpr uint64_t kSecond = 1'000 * kNsPerMs;

// Where nothing stalls: what ends only by the stall limit was forgotten.
inline constexpr uint64_t kBeforeStall = 20 * kSecond;

struct Host;

struct World {
    explicit World(uint64_t seed) : world(seed), net(world) {}
    SimWorld world;
    SimNet net;
    uint32_t lanes = 1, idle_ms = 300'000, heartbeat_ms = 1'000;
    uint32_t max_connections = 64;
    uint32_t loops = 1;   // of engines that come from now on
    bool polled = false;  // by take(), the same
    // What engines have beside their channels, where it is not by the net.
    std::function<std::vector<std::unique_ptr<Fabric>>(const Host &, SimLoop &)> fabrics;
};

// One engine, with the events that it told.
struct Host {
    Host(World &w, std::string listen_at, std::vector<uint8_t> id = {})
        : world(w),
          loop(w.world),
          process(w.net.new_process()),
          uri(std::move(listen_at)),
          polled(w.polled) {
        Options options;
        options.dispatch = polled ? XFER_DISPATCH_POLL : XFER_DISPATCH_LOOP;
        options.io_threads =
            1;  // a loop that is driven all the time: peers may judge us by silence
        options.insecure = true;
        if (!polled)
            options.on_event = [](const xfer_event_t *event, uint64_t self) {
                reinterpret_cast<Host *>(self)->on_event(*event);
            };
        options.user = reinterpret_cast<uint64_t>(this);
        options.stall_ms = 30'000, options.connect_ms = 5'000,
        options.heartbeat_ms = world.heartbeat_ms, options.idle_ms = world.idle_ms;
        options.lanes = world.lanes;
        options.max_connections = world.max_connections, options.max_operations = 64;
        if (!id.empty()) {
            options.own_id = true;
            std::copy(id.begin(), id.end(), options.id.begin());
        }
        Seams seams;
        seams.loops = {&loop};
        for (uint32_t i = 1; i < world.loops; ++i) {
            others.push_back(std::make_unique<SimLoop>(world.world));
            seams.loops.push_back(others.back().get());
        }
        seams.context = this;
        seams.transports = [](void *self, Loop &driver) {
            auto &host = *static_cast<Host *>(self);
            std::vector<std::unique_ptr<Transport>> list;
            list.push_back(std::make_unique<SimTransport>(
                host.world.net, static_cast<SimLoop &>(driver), host.process));
            return list;
        };
        seams.fabrics = [](void *self, Loop &driver) {
            auto &host = *static_cast<Host *>(self);
            if (host.world.fabrics) return host.world.fabrics(host, static_cast<SimLoop &>(driver));
            std::vector<std::unique_ptr<Fabric>> list;
            if (host.world.net.adapters)
                list.push_back(std::make_unique<SimFabric>(
                    host.world.net, static_cast<SimLoop &>(driver), host.process));
            return list;
        };
        seams.random = [](void *self, Bytes out) {
            for (uint8_t &byte : out)
                byte = static_cast<uint8_t>(static_cast<Host *>(self)->world.world.random());
        };
        auto opened = Engine::open(std::move(options), seams);
        REQUIRE(opened);
        engine = reinterpret_cast<xfer_engine_t *>(*opened);
        if (!uri.empty()) {
            char bound[256];
            REQUIRE(xfer_engine_listen(engine, uri.c_str(), nullptr, bound, sizeof bound,
                                       nullptr) == XFER_OK);
        }
        xfer_region_options_t lent{};
        lent.size = sizeof lent;
        lent.name = "memory";
        lent.access = XFER_READ | XFER_WRITE;
        REQUIRE(xfer_region_open(engine, &lent, memory.data(), memory.size(), &region, nullptr) ==
                XFER_OK);
    }
    ~Host() { end(); }

    void end() {
        if (!engine) return;
        xfer_engine_close(engine);
        CHECK(world.world.run_until([&] { return take(), ended; }, 60 * kSecond));
        CHECK(xfer_engine_join(engine, XFER_NONE) == XFER_OK);
        engine = nullptr;
        for (xfer_ep_t *ep : eps)
            xfer_ep_close(ep);
        xfer_region_close(region);
        CHECK(pending == 0);
    }
    xfer_ep_t *open(const std::string &to, uint64_t user = 0) {
        xfer_ep_options_t options{};
        options.size = sizeof options;
        options.user = user;
        xfer_ep_t *ep = nullptr;
        REQUIRE(xfer_ep_open(engine, to.c_str(), &options, &ep, nullptr) == XFER_OK);
        eps.push_back(ep);
        return ep;
    }
    // The completion of an accepted operation with this word; each comes once.
    void expect(uint64_t user) {
        CHECK(done.count(user) == 0);
        ++pending;
    }
    void take() {
        xfer_event_t event;
        for (uint32_t count = polled; count;) {
            REQUIRE(xfer_engine_poll(engine, &event, sizeof event, 1, 0, &count) == XFER_OK);
            if (count) on_event(event);
        }
    }
    void on_event(const xfer_event_t &event) {
        ++sequence;
        CHECK(event.sequence == sequence);
        if (event.kind == XFER_EVENT_CLOSED && event.object == engine) ended = true;
        if (event.kind == XFER_EVENT_PEER_UP) ++ups, last_up_flags = event.flags;
        if (event.kind == XFER_EVENT_PEER_DOWN) ++downs;
        if (event.kind == XFER_EVENT_REGION_GONE) ++gone;
        if (event.kind == XFER_EVENT_NOTIFY && on_notify) on_notify(event);
        const bool operation =
            event.kind <= XFER_EVENT_CONNECT || event.kind >= XFER_EVENT_NOTIFIED;
        if (!operation && on_other) on_other(event);
        if (!operation) return;
        CHECK(done.emplace(event.user, event).second);  // exactly once
        --pending;
        if (event.status == XFER_OK) CHECK((event.flags & XFER_FENCED));
        if (event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK)
            std::memcpy(&ref, event.data, sizeof ref);
        if (on_done) on_done(event);
    }
    xfer_engine_stats_t stats() {
        xfer_engine_stats_t stats{};
        xfer_engine_stats(engine, &stats, sizeof stats);
        return stats;
    }
    Status wait(uint64_t user, uint64_t limit = 120 * kSecond) {
        if (!world.world.run_until([&] { return take(), done.count(user) != 0; }, limit))
            return XFER_EINTERNAL;
        return done[user].status;
    }
    Status lookup(xfer_ep_t *ep, uint64_t user) {
        expect(user);
        REQUIRE(xfer_ep_lookup(ep, "memory", user, nullptr, nullptr) == XFER_OK);
        return wait(user);
    }
    Status put(xfer_ep_t *ep, const void *from, uint64_t offset, uint64_t length, uint64_t user) {
        expect(user);
        REQUIRE(xfer_put(ep, from, &ref, offset, length, user, nullptr) == XFER_OK);
        return wait(user);
    }

    World &world;
    SimLoop loop;
    std::vector<std::unique_ptr<SimLoop>> others;
    const std::shared_ptr<SimProcess> process;
    const std::string uri;
    const bool polled;
    xfer_engine_t *engine = nullptr;
    xfer_region_t *region = nullptr;
    std::vector<xfer_ep_t *> eps;
    std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 20);
    std::map<uint64_t, xfer_event_t> done;
    std::function<void(const xfer_event_t &)> on_done, on_notify, on_other;
    xfer_ref_t ref{};
    uint64_t sequence = 0, pending = 0, ups = 0, downs = 0, gone = 0;
    uint32_t last_up_flags = 0;
    bool ended = false;
};

template <typename Scenario>
void with_seeds(uint64_t count, Scenario scenario) {
    if (const char *one = std::getenv("XFER_SIM_SEED")) {
        World world(std::strtoull(one, nullptr, 10));
        return scenario(world);
    }
    for (uint64_t seed = 1; seed <= count; ++seed) {
        INFO("seed=" << seed);
        World world(seed);
        scenario(world);
    }
}

inline const std::string kA = "tcp://10.0.0.1:1", kB = "tcp://10.0.0.2:2";

}  // namespace xfer
