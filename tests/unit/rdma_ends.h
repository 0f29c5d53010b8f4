// SPDX-License-Identifier: Apache-2.0
// Two ends of a path on fake adapters, on one loop: each has a completion queue, a queue pair and
// memory, and writes down what it is told.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fake_verbs.h"
#include "loop/own_loop.h"
#include "transport/rdma/queue_pair.h"
#include "wire/proof.h"

namespace xfer::rdma {

inline std::unique_ptr<OwnLoop> make_loop() {
    auto loop = OwnLoop::open();
    REQUIRE(loop);
    REQUIRE(crypto_ready());
    return std::move(*loop);
}

struct End final : QueuePairSink, CompletionQueueSink, LocalKeys {
    End(FakeAdapter &adapter, OwnLoop &on, const Verbs &table = FakeFabric::verbs(),
        uint32_t completions = 256)
        : End(adapter.port(), on, table, completions) {}
    End(const Port &of, OwnLoop &on, const Verbs &table = FakeFabric::verbs(),
        uint32_t completions = 256)
        : verbs(table), port(of), loop(on), bytes(8192) {
        region =
            verbs.reg_mr(port.domain, bytes.data(), bytes.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
        EngineLoop::Inside inside(loop);
        auto made = CompletionQueue::create(verbs, port, completions, 1'001, loop, *this);
        REQUIRE(made);
        queue = std::move(*made);
    }
    ~End() {
        EngineLoop::Inside inside(loop);
        pair.reset();
        queue.reset();
        verbs.dereg_mr(region);
    }

    Failure create(const QueuePairOptions &options = {}) {
        EngineLoop::Inside inside(loop);
        pair.reset();
        auto made = QueuePair::create(verbs, port, *queue, options, *this);
        if (!made) return made.error();
        pair = std::move(*made);
        return {};
    }
    void connect(const End &other) {
        REQUIRE(pair->connect(other.pair->parameters()).status == XFER_OK);
    }

    Posted post(End &other, uint32_t requests, uint64_t cookie, Dir dir = Dir::put) {
        list.clear();
        add(other, requests, cookie, dir);
        return pair->post(list);
    }
    // To the list: one chain of so many requests, of a byte each, which lie apart on both sides:
    // byte 2 i of ours goes to byte 2 i of the other's.
    void add(End &other, uint32_t requests, uint64_t cookie, Dir dir = Dir::put) {
        pieces.clear();
        const auto base = reinterpret_cast<uint64_t>(bytes.data());
        for (uint32_t i = 0; i < requests; ++i)
            pieces.push_back({base + 2 * uint64_t{i}, 2 * uint64_t{i}, 1});
        const ChainLimits limits{
            .requests = requests,
            .pieces = pair->caps().send_pieces,
            .read_pieces = std::min(port.limits.read_pieces, pair->caps().send_pieces),
            .request_bytes = port.message_bytes};
        list.chain().build(dir, pieces, {}, other.remote(), *this, limits);
        REQUIRE(list.chain().size() == requests);
        list.add(cookie);
    }
    RemoteMemory remote() const {
        return {reinterpret_cast<uint64_t>(bytes.data()), {&region->rkey, 1}, bytes.size()};
    }
    LocalKey find(uint64_t address) const override {
        const uint64_t at = address - reinterpret_cast<uint64_t>(bytes.data());
        return at < bytes.size() ? LocalKey{region->lkey, bytes.size() - at} : LocalKey{};
    }

    void on_chain_ended(QueuePair &of, const ChainEnd &end) override {
        CHECK(&of == pair.get());
        CHECK_FALSE(drained);
        ends.push_back(end);
        if (on_end) on_end();
    }
    void on_received(QueuePair &of, uint32_t buffer, uint32_t length) override {
        CHECK(&of == pair.get());
        CHECK_FALSE(drained);
        received.emplace_back(buffer, length);
        if (on_receive) on_receive();
    }
    void on_error(QueuePair &, const Failure &why) override { errors.push_back(why); }
    void on_drained(QueuePair &) override {
        CHECK_FALSE(drained);
        drained = true;
    }
    void on_queue_failed(const Failure &why) override { queue_failures.push_back(why); }

    const Verbs &verbs;
    const Port port;
    OwnLoop &loop;
    std::vector<uint8_t> bytes;
    ibv_mr *region;
    std::unique_ptr<CompletionQueue> queue;
    std::unique_ptr<QueuePair> pair;
    std::vector<Piece> pieces;
    PostList list{256, 256};
    std::vector<ChainEnd> ends;
    std::vector<std::pair<uint32_t, uint32_t>> received;  // buffer and bytes of each message
    std::vector<Failure> errors, queue_failures;
    std::function<void()> on_end, on_receive;
    bool drained = false;
};

struct Ends {
    explicit Ends(FakePersonality personality = {}, const FakeAdapterOptions &options = {},
                  const QueuePairOptions &pair = {}, uint32_t completions = 256)
        : fabric(personality),
          near(fabric.add(options), *loop, FakeFabric::verbs(), completions),
          far(fabric.add(options), *loop, FakeFabric::verbs(), completions) {
        REQUIRE(near.create(pair).status == XFER_OK);
        REQUIRE(far.create(pair).status == XFER_OK);
        near.connect(far);
        far.connect(near);
    }
    // What is posted is carried out, and all of it is told.
    void settle() {
        do
            turn();
        while (fabric.run() > 0);
        turn();
    }
    void turn() {
        for (int i = 0; i < 4; ++i)
            loop->turn(0);
    }
    // As their owner ends them.
    void end(End &one) {
        if (!one.pair) return;
        {
            EngineLoop::Inside inside(*loop);
            one.pair->fail();
        }
        settle();
        CHECK(one.pair->is_drained());
        EngineLoop::Inside inside(*loop);
        CHECK(one.pair->destroy().status == XFER_OK);
        CHECK(one.pair->ledger().outstanding() == 0);
    }
    void end() {
        end(near);
        end(far);
        CHECK(fabric.report() == "");
    }

    std::unique_ptr<OwnLoop> loop = make_loop();
    FakeFabric fabric;
    End near, far;
};

}  // namespace xfer::rdma
