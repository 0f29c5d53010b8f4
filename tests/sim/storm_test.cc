// SPDX-License-Identifier: Apache-2.0
// Very many engines at once, in virtual time: all come to one, and one goes to all with a bound on
// its connections.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "core/engine/engine.h"
#include "sim_transport.h"

using namespace xfer;

namespace {

constexpr uint64_t kSecond = 1'000 * kNsPerMs;

size_t many(size_t count) {
    return std::getenv("XFER_TEST_QUICK") ? count / 10 : count;
}

// As little as an engine can be: ten thousand fit into one process.
class Node {
public:
    Node(SimNet &net, const std::string &uri, uint32_t max_connections)
        : net_(net), loop_(net.world) {
        Options options;
        options.dispatch = XFER_DISPATCH_LOOP;
        options.io_threads = 1;
        options.insecure = true;
        options.on_event = [](const xfer_event_t *event, uint64_t self) {
            reinterpret_cast<Node *>(self)->on_event(*event);
        };
        options.user = reinterpret_cast<uint64_t>(this);
        options.stall_ms = 30'000, options.connect_ms = 5'000, options.heartbeat_ms = 5'000;
        options.idle_ms = 300'000, options.max_operations = 64;
        options.max_connections = max_connections;
        Seams seams;
        seams.loops = {&loop_};
        seams.context = this;
        seams.transports = [](void *self, Loop &) {
            auto &node = *static_cast<Node *>(self);
            std::vector<std::unique_ptr<Transport>> list;
            list.push_back(std::make_unique<SimTransport>(node.net_, node.loop_));
            return list;
        };
        seams.random = [](void *self, Bytes out) {
            for (uint8_t &byte : out)
                byte = static_cast<uint8_t>(static_cast<Node *>(self)->net_.world.random());
        };
        auto opened = Engine::open(std::move(options), seams);
        REQUIRE(opened);
        engine = reinterpret_cast<xfer_engine_t *>(*opened);
        if (uri.empty()) return;
        char bound[64];
        REQUIRE(xfer_engine_listen(engine, uri.c_str(), nullptr, bound, sizeof bound, nullptr) ==
                XFER_OK);
    }
    ~Node() {
        xfer_engine_close(engine);
        CHECK(net_.world.run_until([&] { return ended_; }, 60 * kSecond));
        CHECK(xfer_engine_join(engine, XFER_NONE) == XFER_OK);
        for (xfer_ep_t *ep : eps)
            xfer_ep_close(ep);
    }
    Node(const Node &) = delete;

    void open(const std::string &uri) {
        xfer_ep_t *ep = nullptr;
        REQUIRE(xfer_ep_open(engine, uri.c_str(), nullptr, &ep, nullptr) == XFER_OK);
        eps.push_back(ep);
    }
    void connect(size_t ep) { REQUIRE(xfer_ep_connect(eps[ep], ep, nullptr) == XFER_OK); }
    void look_up(size_t ep) {
        REQUIRE(xfer_ep_lookup(eps[ep], "memory", ep, nullptr, nullptr) == XFER_OK);
    }
    xfer_engine_stats_t stats() {
        xfer_engine_stats_t stats{};
        xfer_engine_stats(engine, &stats, sizeof stats);
        return stats;
    }

    xfer_engine_t *engine = nullptr;
    std::vector<xfer_ep_t *> eps;
    size_t good = 0, bad = 0, ups = 0, downs = 0;

private:
    void on_event(const xfer_event_t &event) {
        if (event.kind == XFER_EVENT_CLOSED && event.object == engine) ended_ = true;
        if (event.kind == XFER_EVENT_PEER_UP) ++ups;
        if (event.kind == XFER_EVENT_PEER_DOWN) ++downs;
        if (event.kind == XFER_EVENT_CONNECT) ++(event.status == XFER_OK ? good : bad);
        // Nobody has such a region; but who says so is connected.
        if (event.kind == XFER_EVENT_LOOKUP) ++(event.status == XFER_ENOTFOUND ? good : bad);
    }

    SimNet &net_;
    SimLoop loop_;
    bool ended_ = false;
};

std::string uri_of(size_t number) {
    return "tcp://10." + std::to_string(number / 60'000) +
           ".0.1:" + std::to_string(1 + number % 60'000);
}

}  // namespace

TEST_CASE("ten thousand come to one at the same moment") {
    const size_t count = many(10'000);
    SimWorld world(1);
    SimNet net(world);
    Node one(net, uri_of(0), 20'000);
    std::deque<std::unique_ptr<Node>> nodes;
    for (size_t i = 0; i < count; ++i) {
        nodes.push_back(std::make_unique<Node>(net, "", 16));
        nodes.back()->open(uri_of(0));
    }
    const uint64_t began = world.now();
    for (auto &node : nodes)
        node->connect(0);
    const auto all = [&] { return one.stats().connections == count; };
    CHECK(world.run_until(all, 20 * kSecond));
    world.run_for(kSecond);
    size_t attempts = 0;
    size_t good = 0;
    for (auto &node : nodes) {
        good += node->good;
        attempts += node->stats().connects;
    }
    CHECK(good == count);
    MESSAGE(count << " to one: " << (world.now() - began - kSecond) / kNsPerMs
                  << " ms of virtual time, " << attempts << " attempts");
    CHECK(attempts < 4 * count);
    nodes.clear();
}

TEST_CASE("no more than 64 attempts to connect are under way") {
    constexpr size_t kPeers = 300;
    constexpr uint64_t kAttempts = 64;
    SimWorld world(3);
    SimNet net(world);
    net.delay_min = net.delay_max = kSecond / 4;  // one way: none is over before that
    Node one(net, uri_of(0), 1'024);
    std::deque<std::unique_ptr<Node>> nodes;
    for (size_t i = 0; i < kPeers; ++i) {
        nodes.push_back(std::make_unique<Node>(net, uri_of(1 + i), 16));
        one.open(uri_of(1 + i));
        one.connect(i);
    }
    world.run_for(kSecond / 5);
    CHECK(net.dials == kAttempts);
    CHECK(world.run_until([&] { return one.good == kPeers; }, 60 * kSecond));
    CHECK(net.dials == kPeers);
    nodes.clear();
}

TEST_CASE("one goes around ten thousand with 256 connections at most, and nobody notices") {
    const size_t count = many(10'000);
    constexpr uint32_t kBound = 256;
    SimWorld world(2);
    SimNet net(world);
    Node one(net, uri_of(0), kBound);  // it can be dialed, and so can be left
    std::deque<std::unique_ptr<Node>> nodes;
    for (size_t i = 0; i < count; ++i) {
        nodes.push_back(std::make_unique<Node>(net, uri_of(1 + i), 16));
        one.open(uri_of(1 + i));
    }
    for (int round = 1; round <= 2; ++round) {
        for (size_t i = 0; i < count; ++i)
            one.look_up(i);
        const auto done = [&] {
            CHECK_MESSAGE(one.stats().connections <= kBound, "more than the bound");
            return one.good + one.bad == static_cast<size_t>(round) * count;
        };
        CHECK(world.run_until(done, 60 * kSecond));
    }
    CHECK(one.bad == 0);
    CHECK(one.ups == count);  // once each, whatever ended meanwhile
    CHECK(one.downs == 0);
    MESSAGE(one.stats().connects << " connections for " << 2 * count << " questions");
    CHECK(one.stats().connects >= 2 * count - kBound);
    CHECK(one.stats().connects < 2 * count + 2 * kBound);
    nodes.clear();
}
