// SPDX-License-Identifier: Apache-2.0
// Messages by queue pairs, on adapters that are stricter than any device: each one comes into the
// receive that was posted first, and each buffer comes back once.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <set>

#include "rdma_ends.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/devices.h"
#include "transport/rdma/queue_pair.h"

using namespace xfer;
using namespace xfer::rdma;
using How = ChainEnd::How;
using Received = std::vector<std::pair<uint32_t, uint32_t>>;

namespace {

// The memory of an end: buffers of receives, and behind them as many of sends.
constexpr uint32_t kBuffers = 8, kBytes = 512, kSends = kBuffers * kBytes;
const QueuePairOptions kOptions{.send_requests = kBuffers, .receives = kBuffers};

uint8_t *receive_buffer(End &end, uint32_t buffer) {
    return end.bytes.data() + buffer * kBytes;
}
Failure post_receive(End &end, uint32_t buffer, uint32_t length = kBytes) {
    const auto address = reinterpret_cast<uint64_t>(receive_buffer(end, buffer));
    return end.pair->post_receive(buffer, address, length, end.region->lkey);
}
void post_receives(End &end, uint32_t from, uint32_t to) {
    for (uint32_t buffer = from; buffer < to; ++buffer)
        REQUIRE(post_receive(end, buffer).status == XFER_OK);
}
// A message of `length` bytes `value`, to the list; with no key where it is inlined.
void add_message(End &end, uint32_t length, uint8_t value, uint64_t cookie) {
    uint8_t *bytes = end.bytes.data() + kSends + cookie % kBuffers * kBytes;
    std::memset(bytes, value, length);
    const bool inlined = length <= end.pair->caps().inline_bytes;
    end.list.chain().build_send(reinterpret_cast<uint64_t>(bytes), length,
                                inlined ? 0 : end.region->lkey, end.pair->limits(1));
    end.list.add(cookie);
}
Posted send(End &end, uint32_t length, uint8_t value, uint64_t cookie) {
    end.list.clear();
    add_message(end, length, value, cookie);
    return end.pair->post(end.list);
}
bool holds(End &end, uint32_t buffer, uint32_t length, uint8_t value) {
    const uint8_t *bytes = receive_buffer(end, buffer);
    return std::all_of(bytes, bytes + length, [&](uint8_t byte) { return byte == value; });
}

// A driver that names a receive which is not the caller's.
ibv_context_ops real;
ibv_recv_wr foreign;
int foreign_post(ibv_qp *pair, ibv_recv_wr *first, ibv_recv_wr **refused) {
    const int error = real.post_recv(pair, first, refused);
    if (error) *refused = &foreign;
    return error;
}
// One that tells of the same receive twice.
ibv_wc again;
int twice_poll(ibv_cq *queue, int room, ibv_wc *out) {
    if (again.wr_id != 0) {
        out[0] = std::exchange(again, {});
        return 1;
    }
    const int count = real.poll_cq(queue, room, out);
    if (count > 0) again = out[count - 1];
    return count;
}

// The sink of a queue pair on the completion queue of another.
struct Beside final : QueuePairSink {
    void on_chain_ended(QueuePair &, const ChainEnd &) override { ++ends; }
    void on_received(QueuePair &, uint32_t buffer, uint32_t bytes) override {
        received.emplace_back(buffer, bytes);
    }
    void on_error(QueuePair &, const Failure &why) override { errors.push_back(why); }
    void on_drained(QueuePair &) override { drained = true; }
    int ends = 0;
    Received received;
    std::vector<Failure> errors;
    bool drained = false;
};

// Is told of nothing that comes.
struct Silent final : QueuePairSink, MemoryDomainSink {
    void on_settled() override {}
    void on_chain_ended(QueuePair &, const ChainEnd &) override {}
    void on_error(QueuePair &, const Failure &) override {}
    void on_drained(QueuePair &) override {}
    void on_released(RegionId) override {}
};

}  // namespace

// ---- messages

TEST_CASE("messages come into receives in the order in which these were posted, inlined or not") {
    Ends ends({}, {}, kOptions);
    CHECK(ends.far.pair->caps().receives == kBuffers);
    for (const uint32_t buffer : {5u, 0u, 7u, 2u})
        REQUIRE(post_receive(ends.far, buffer).status == XFER_OK);
    CHECK(ends.far.pair->receives_out() == 4);
    CHECK(send(ends.near, 1, 11, 0).taken == 1);
    CHECK(send(ends.near, 220, 12, 1).taken == 1);
    CHECK(send(ends.near, 221, 13, 2).taken == 1);
    CHECK(send(ends.near, kBytes, 14, 3).taken == 1);
    std::fill_n(ends.near.bytes.data() + kSends, 2 * kBytes,
                uint8_t{99});  // those inlined are read
    ends.settle();
    CHECK(ends.far.received == Received{{5, 1}, {0, 220}, {7, 221}, {2, kBytes}});
    CHECK(holds(ends.far, 5, 1, 11));
    CHECK(holds(ends.far, 0, 220, 12));
    CHECK(holds(ends.far, 7, 221, 13));
    CHECK(holds(ends.far, 2, kBytes, 14));
    CHECK(ends.far.pair->receives_out() == 0);
    REQUIRE(ends.near.ends.size() == 4);
    for (uint32_t i = 0; i < 4; ++i)
        CHECK(ends.near.ends[i] == ChainEnd{i, 1, How::done, 0});
    ends.end();
}

TEST_CASE("messages and writes share a list, and its completions") {
    Ends ends({}, {}, {.send_requests = 64, .receives = kBuffers});
    post_receives(ends.far, 0, 2);
    ends.near.list.clear();
    add_message(ends.near, 8, 1, 0);
    ends.near.add(ends.far, 3, 1);
    add_message(ends.near, 300, 2, 2);
    const FakePosts before = ends.fabric.posts();
    CHECK(ends.near.pair->post(ends.near.list).taken == 5);
    CHECK(ends.fabric.posts().calls == before.calls + 1);
    CHECK(ends.fabric.posts().signaled == before.signaled + 1);
    ends.settle();
    CHECK(ends.far.received == Received{{0, 8}, {1, 300}});
    CHECK(ends.near.ends.size() == 3);
    ends.end();
}

TEST_CASE("a receive is posted again where it is told, and no message meets none") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, kBuffers);
    uint32_t sent = 0;
    ends.far.on_receive = [&] {
        const auto [buffer, length] = ends.far.received.back();
        CHECK(length == 1 + ends.far.received.size() % kBytes);
        CHECK(post_receive(ends.far, buffer).status == XFER_OK);
    };
    for (int round = 0; round < 50; ++round) {
        while (sent < ends.far.received.size() + kBuffers) {
            const auto length = static_cast<uint32_t>(1 + (sent + 1) % kBytes);
            if (send(ends.near, length, 1, sent).admitted != Admitted::granted) break;
            ++sent;
        }
        ends.settle();
    }
    CHECK(ends.far.received.size() == 50 * kBuffers);
    CHECK(ends.near.errors.empty());
    ends.end();
}

TEST_CASE("who is connected last finds the messages of the other") {
    FakeFabric fabric;
    auto loop = make_loop();
    End near(fabric.add(), *loop), far(fabric.add(), *loop);
    REQUIRE(near.create(kOptions).status == XFER_OK);
    REQUIRE(far.create(kOptions).status == XFER_OK);
    post_receives(far, 0, 2);
    post_receives(near, 0, 1);
    far.connect(near);
    near.connect(far);
    CHECK(send(near, 5, 1, 0).taken == 1);
    fabric.run();
    for (int i = 0; i < 4; ++i)
        loop->turn(0);
    CHECK(far.received == Received{{0, 5}});
    CHECK(near.received.empty());
    for (End *end : {&near, &far})
        end->pair->fail();
    fabric.run();
    for (int i = 0; i < 4; ++i)
        loop->turn(0);
    CHECK(near.drained);
    CHECK(far.drained);
    CHECK(fabric.report() == "");
}

TEST_CASE("two queue pairs of one completion queue are each told of their own") {
    Ends ends({}, {}, kOptions);
    Beside near, far;
    std::unique_ptr<QueuePair> pairs[2];
    for (const auto &[end, sink, pair] :
         {std::tuple(&ends.near, &near, &pairs[0]), std::tuple(&ends.far, &far, &pairs[1])}) {
        auto made = QueuePair::create(end->verbs, end->port, *end->queue, kOptions, *sink);
        REQUIRE(made);
        *pair = std::move(*made);
    }
    const auto post_beside = [&](uint32_t buffer, uint32_t at) {
        const auto address = reinterpret_cast<uint64_t>(receive_buffer(ends.far, at));
        REQUIRE(pairs[1]->post_receive(buffer, address, kBytes, ends.far.region->lkey).status ==
                XFER_OK);
    };
    REQUIRE(pairs[0]->connect(pairs[1]->parameters()).status == XFER_OK);
    REQUIRE(pairs[1]->connect(pairs[0]->parameters()).status == XFER_OK);
    post_receives(ends.far, 0, 2);
    post_beside(0, 2);
    post_beside(1, 3);
    CHECK(send(ends.near, 10, 1, 0).taken == 1);
    ends.near.list.clear();
    add_message(ends.near, 20, 2, 1);
    CHECK(pairs[0]->post(ends.near.list).taken == 1);
    ends.settle();
    CHECK(ends.far.received == Received{{0, 10}});
    CHECK(far.received == Received{{0, 20}});
    CHECK(holds(ends.far, 0, 10, 1));
    CHECK(holds(ends.far, 2, 20, 2));
    CHECK(near.ends == 1);
    pairs[1]->fail();  // takes nothing from the other
    ends.settle();
    CHECK(far.drained);
    CHECK(ends.far.pair->receives_out() == 1);
    CHECK(send(ends.near, 30, 3, 2).taken == 1);
    ends.settle();
    CHECK(ends.far.received == Received{{0, 10}, {1, 30}});
    pairs[0]->fail();
    ends.settle();
    EngineLoop::Inside inside(*ends.loop);
    pairs[0].reset(), pairs[1].reset();
    ends.end();
}

// ---- how many

TEST_CASE("a device with fewer receives than asked for is refused, and nothing is left of it") {
    FakeFabric fabric;
    auto loop = make_loop();
    FakeAdapterOptions options;
    options.granted_receives = kBuffers - 1;
    options.limits.send_requests = 100;
    End end(fabric.add(options), *loop);
    const FakeCounts before = fabric.live();
    for (const uint32_t receives : {kBuffers, 101u}) {
        const Failure failure = end.create({.receives = receives});
        CHECK(failure.status == XFER_EUNSUPPORTED);
        CHECK(fabric.live() == before);
        CHECK(end.queue->reserve(end.queue->entries()));
        end.queue->release(end.queue->entries());
    }
    REQUIRE(end.create({.receives = kBuffers - 1}).status == XFER_OK);
    REQUIRE(end.create({.receives = 2}).status == XFER_OK);
    CHECK(end.pair->caps().receives == 2);  // it would take more
    REQUIRE(end.create().status == XFER_OK);
    CHECK(end.pair->caps().receives == 0);
    CHECK(post_receive(end, 0).status == XFER_EAGAIN);
    CHECK(fabric.report() == "");
}

TEST_CASE("no more receives are posted than granted, until one is told") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, kBuffers);
    CHECK(post_receive(ends.far, 0).status == XFER_EAGAIN);
    CHECK(ends.far.pair->receives_out() == kBuffers);
    CHECK(send(ends.near, 1, 1, 0).taken == 1);
    ends.fabric.run();
    CHECK(post_receive(ends.far, 0).status == XFER_EAGAIN);
    ends.turn();
    CHECK(post_receive(ends.far, 0).status == XFER_OK);
    CHECK(post_receive(ends.far, 1).status == XFER_EAGAIN);
    ends.end();
}

TEST_CASE("a completion queue has room for receives as well") {
    FakeFabric fabric;
    auto loop = make_loop();
    End end(fabric.add(), *loop);
    const uint32_t needed = 2 * kBuffers + 1;
    REQUIRE(end.queue->reserve(end.queue->room() - needed + 1));
    CHECK(end.create(kOptions).status == XFER_ENOMEM);
    end.queue->release(1);
    CHECK(end.create(kOptions).status == XFER_OK);
    CHECK(end.queue->room() == 0);
    CHECK(end.pair->destroy().status == XFER_OK);
    CHECK(end.queue->room() == needed);
    end.queue->release(end.queue->entries() - needed);
    CHECK(fabric.report() == "");
}

TEST_CASE("an adapter counts receives where it picks a completion queue") {
    FakeFabric fabric;
    FakeAdapterOptions options;
    options.limits.completions = 200;
    fabric.add(options);
    auto loop = make_loop();
    auto devices = open_devices(FakeFabric::verbs(), *parse_device_filter("fake0"));
    REQUIRE(devices);
    REQUIRE(devices->open.size() == 1);
    Silent sink;
    const Log log;
    EngineLoop::Inside inside(*loop);
    Worker worker(*loop);
    Adapter adapter(FakeFabric::verbs(), std::move(devices->open[0]), {.send_requests = 64}, *loop,
                    worker, log, sink);
    const Port &port = adapter.device().ports().front();
    std::vector<std::unique_ptr<QueuePair>> pairs;
    const auto make = [&](uint32_t receives) {
        auto made = adapter.make_queue_pair(port, sink, receives);
        REQUIRE(made);
        CHECK((*made)->caps().receives == receives);
        pairs.push_back(std::move(*made));
        return fabric.live().queues;
    };
    CHECK(make(40) == 1);  // 105 of 200
    CHECK(make(31) == 2);
    CHECK(make(30) == 2);
    CHECK(make(0) == 2);
    pairs.clear();
}

// ---- what fails

TEST_CASE("a message that meets no receive is an error of its sender, and of nobody else") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, 1);
    CHECK(send(ends.near, 1, 1, 0).taken == 1);
    CHECK(send(ends.near, 1, 2, 1).taken == 1);
    CHECK(send(ends.near, 1, 3, 2).taken == 1);
    ends.settle();
    REQUIRE(ends.near.errors.size() == 1);
    CHECK(ends.near.errors[0].status == XFER_EIO);
    CHECK(ends.near.errors[0].native == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{0, 1, How::done, 0},
                                                  {1, 1, How::failed, IBV_WC_RNR_RETRY_EXC_ERR},
                                                  {2, 1, How::failed, IBV_WC_WR_FLUSH_ERR}});
    CHECK(ends.far.received == Received{{0, 1}});
    CHECK(ends.far.errors.empty());
    ends.end();
}

TEST_CASE("a message that is longer than its receive is an error at both ends") {
    Ends ends({}, {}, kOptions);
    REQUIRE(post_receive(ends.far, 0, 100).status == XFER_OK);
    post_receives(ends.far, 1, 3);
    CHECK(send(ends.near, 101, 1, 0).taken == 1);
    ends.settle();
    REQUIRE(ends.far.errors.size() == 1);
    CHECK(ends.far.errors[0].native == IBV_WC_LOC_LEN_ERR);
    REQUIRE(ends.near.errors.size() == 1);
    CHECK(ends.near.errors[0].native == IBV_WC_REM_INV_REQ_ERR);
    CHECK(ends.far.received.empty());
    CHECK(ends.far.pair->receives_out() == 0);
    CHECK(post_receive(ends.far, 0).status == XFER_EDEGRADED);
    CHECK(send(ends.far, 1, 1, 0).admitted == Admitted::degraded);
    CHECK_FALSE(ends.far.drained);
    ends.end();
}

TEST_CASE("receives that are flushed unasked tell that the queue pair is in error") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, 3);
    ends.near.list.clear();
    uint32_t wrong = ends.far.region->rkey + 1'000;
    const Piece piece{reinterpret_cast<uint64_t>(ends.near.bytes.data()), 0, 1};
    const RemoteMemory remote{reinterpret_cast<uint64_t>(ends.far.bytes.data()), {&wrong, 1}};
    ends.near.list.chain().build(Dir::put, {&piece, 1}, {}, remote, ends.near,
                                 ends.near.pair->limits(1));
    ends.near.list.add(1);
    REQUIRE(ends.near.pair->post(ends.near.list).taken == 1);
    ends.settle();
    REQUIRE(ends.far.errors.size() == 1);
    CHECK(ends.far.errors[0].native == IBV_WC_WR_FLUSH_ERR);
    CHECK(ends.far.received.empty());
    CHECK(post_receive(ends.far, 0).status == XFER_EDEGRADED);
    ends.end();
    CHECK(ends.far.errors.size() == 1);
}

TEST_CASE("a write with immediate data is no message, whatever length it tells") {
    Ends ends({}, {}, kOptions);
    REQUIRE(post_receive(ends.far, 0, 8).status == XFER_OK);
    ibv_sge local{reinterpret_cast<uint64_t>(ends.near.bytes.data()), 4'000,
                  ends.near.region->lkey};
    ibv_send_wr request{}, *refused = nullptr;
    request.wr_id = 0;  // nobody's
    request.sg_list = &local;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(ends.far.bytes.data());
    request.wr.rdma.rkey = ends.far.region->rkey;
    REQUIRE(ibv_post_send(ends.near.pair->handle(), &request, &refused) == 0);
    ends.settle();
    CHECK(ends.far.received.empty());
    REQUIRE(ends.far.errors.size() == 1);
    CHECK(ends.far.errors[0].status == XFER_EPROTO);
    CHECK(post_receive(ends.far, 0).status == XFER_EDEGRADED);
    ends.end();
}

TEST_CASE("the k-th receive that is refused leaves the others, and the queue pair, as they were") {
    for (uint32_t k = 1; k <= 4; ++k)
        for (const int error : {ENOMEM, EIO}) {
            CAPTURE(k);
            CAPTURE(error);
            Ends ends({}, {}, kOptions);
            ends.fabric.fail_call(FakeCall::post_recv, k, error);
            post_receives(ends.far, 0, k - 1);
            const Failure failure = post_receive(ends.far, k - 1);
            const bool may_help = error == ENOMEM && k > 1;
            CHECK(failure.status == (may_help ? XFER_EAGAIN : XFER_EIO));
            CHECK(failure.native == error);
            CHECK(failure.origin == XFER_ORIGIN_VERBS);
            CHECK(ends.far.pair->receives_out() == k - 1);
            post_receives(ends.far, k - 1, 4);
            for (uint32_t i = 0; i < 4; ++i)
                CHECK(send(ends.near, 1 + i, 1, i).taken == 1);
            ends.settle();
            CHECK(ends.far.received == Received{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
            ends.end();
        }
}

TEST_CASE("a receive that a driver does not name is the adapter's until the end") {
    for (const bool mute : {false, true}) {
        CAPTURE(mute);
        FakePersonality personality;
        personality.null_bad_wr = mute;
        Ends ends(personality, {}, kOptions);
        post_receives(ends.far, 0, 1);
        ibv_context_ops &ops = ends.far.port.context->ops;
        real = ops;
        if (!mute) ops.post_recv = foreign_post;
        ends.fabric.fail_call(FakeCall::post_recv, 1, ENOMEM);
        CHECK(post_receive(ends.far, 1).status == XFER_EDEGRADED);
        ops = real;
        CHECK(ends.far.pair->receives_out() == 2);
        CHECK(post_receive(ends.far, 2).status == XFER_EDEGRADED);
        CHECK(send(ends.far, 1, 1, 0).admitted == Admitted::degraded);
        ends.far.pair->fail();
        ends.settle();
        CHECK_FALSE(ends.far.drained);  // it was not taken, which nobody knows
        CHECK(ends.far.pair->destroy().status == XFER_OK);
        CHECK(ends.far.pair->receives_out() == 0);
        ends.far.pair.reset();
        ends.end();
    }
}

TEST_CASE("a receive that is told once more than posted changes nothing") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, 1);
    ibv_context_ops &ops = ends.far.port.context->ops;
    real = ops;
    again = {};
    ops.poll_cq = twice_poll;
    CHECK(send(ends.near, 1, 1, 0).taken == 1);
    ends.settle();
    ops = real;
    CHECK(ends.far.received.size() == 1);
    CHECK(ends.far.pair->receives_out() == 0);
    ends.end();
}

// ---- ending

TEST_CASE("of what is failed each buffer is told as received, or comes back with the drain") {
    for (uint32_t sent = 0; sent <= 6; ++sent)
        for (uint32_t before = 0; before <= sent; ++before) {
            CAPTURE(sent);
            CAPTURE(before);
            Ends ends({}, {}, kOptions);
            post_receives(ends.far, 0, 6);
            for (uint32_t i = 0; i < sent; ++i)
                CHECK(send(ends.near, 1 + i, 1, i).taken == 1);
            for (uint32_t i = 0; i < before; ++i)  // they have come, and nobody has looked
                REQUIRE(ends.fabric.step(ends.near.pair->handle()));
            ends.far.pair->fail();
            CHECK(post_receive(ends.far, 6).status == XFER_EDEGRADED);
            CHECK(ends.far.received.empty());
            CHECK_FALSE(ends.far.drained);
            ends.turn();
            Received expected;
            for (uint32_t i = 0; i < before; ++i)
                expected.emplace_back(i, 1 + i);
            CHECK(ends.far.received == expected);
            CHECK(ends.far.pair->receives_out() == 6 - before);
            CHECK(ends.far.drained == (before == 6));
            ends.settle();
            CHECK(ends.far.received == expected);
            CHECK(ends.far.errors.empty());
            CHECK(ends.far.drained);
            CHECK(ends.far.pair->receives_out() == 0);
            ends.end();
        }
}

TEST_CASE("it is drained when requests and receives are, in any order") {
    for (const bool receives_first : {false, true}) {
        CAPTURE(receives_first);
        Ends ends({}, {}, kOptions);
        post_receives(ends.near, 0, 2);
        CHECK(send(ends.near, 1, 1, 0).taken == 1);
        ends.fabric.hold_completions(true);
        ends.near.pair->fail();
        ends.fabric.run();
        ibv_qp *pair = ends.near.pair->handle();
        REQUIRE(ends.fabric.held(pair) == 4);  // the message, the drain, two receives
        for (int i = 0; i < 4; ++i) {
            ends.turn();
            CHECK_FALSE(ends.near.drained);
            const bool is_receive = receives_first == (i < 2);
            REQUIRE(
                (is_receive ? ends.fabric.release_receive(pair) : ends.fabric.release_send(pair)));
        }
        ends.turn();
        CHECK(ends.near.drained);
        CHECK(ends.near.ends == std::vector<ChainEnd>{{0, 1, How::failed, IBV_WC_WR_FLUSH_ERR}});
        ends.fabric.hold_completions(false);
        ends.end();
    }
}

TEST_CASE("one that was never connected is drained of its receives, too") {
    FakeFabric fabric;
    auto loop = make_loop();
    End end(fabric.add(), *loop);
    for (const bool fails : {false, true}) {
        CAPTURE(fails);
        REQUIRE(end.create(kOptions).status == XFER_OK);
        post_receives(end, 0, 3);
        if (fails) {
            end.pair->fail();
            CHECK_FALSE(end.drained);
            fabric.run();
            for (int i = 0; i < 4; ++i)
                loop->turn(0);
            CHECK(end.drained);
        }
        CHECK(end.pair->destroy().status == XFER_OK);
        CHECK(end.pair->receives_out() == 0);
    }
    CHECK(end.errors.empty());
    CHECK(end.received.empty());
    CHECK(fabric.report() == "");
}

TEST_CASE("one that can't be connected takes no receives, and those it has end with it") {
    for (const ibv_qp_state to : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        FakeFabric fabric;
        auto loop = make_loop();
        End near(fabric.add(), *loop), far(fabric.add(), *loop);
        REQUIRE(near.create(kOptions).status == XFER_OK);
        REQUIRE(far.create(kOptions).status == XFER_OK);
        post_receives(near, 0, 2);
        fabric.fail_modify(to, 1, EIO);
        CHECK(near.pair->connect(far.pair->parameters()).status == XFER_EIO);
        CHECK(post_receive(near, 2).status == XFER_EDEGRADED);
        near.pair->fail();
        CHECK_FALSE(near.drained);
        fabric.run();
        for (int i = 0; i < 4; ++i)
            loop->turn(0);
        CHECK(near.drained);
        CHECK(near.errors.empty());
        CHECK(near.pair->destroy().status == XFER_OK);
        CHECK(fabric.report() == "");
    }
}

TEST_CASE("where an adapter flushes no receives, the owner destroys, and they end") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.near, 0, 3);
    ends.fabric.fail_modify(IBV_QPS_ERR, 1, EIO);
    ends.near.pair->fail();
    ends.settle();
    CHECK_FALSE(ends.near.drained);
    ends.fabric.allow(Violation::busy_pair);
    CHECK(ends.near.pair->destroy().status == XFER_OK);
    CHECK(ends.near.pair->is_drained());
    CHECK(ends.near.pair->receives_out() == 0);
    CHECK(ends.near.received.empty());
    CHECK(post_receive(ends.near, 0).status == XFER_EDEGRADED);
    ends.near.pair.reset();
    ends.end();
}

TEST_CASE("what is told late of receives meets no successor") {
    Ends ends({.reuse_numbers = true, .late_completions = true}, {}, kOptions);
    const uint32_t qpn = ends.far.pair->parameters().qpn;
    post_receives(ends.far, 0, 4);
    CHECK(send(ends.near, 7, 1, 0).taken == 1);
    ends.fabric.step();
    ends.far.pair->fail();
    ends.fabric.run();
    ends.fabric.allow(Violation::unpolled);  // the owner has waited long enough
    CHECK(ends.far.pair->destroy().status == XFER_OK);
    REQUIRE(ends.far.create(kOptions).status == XFER_OK);
    REQUIRE(ends.far.pair->parameters().qpn == qpn);
    post_receives(ends.far, 0, 4);
    ends.turn();
    CHECK(ends.far.received.empty());
    CHECK(ends.far.errors.empty());
    CHECK(ends.far.queue->stale() == 4);
    CHECK(ends.far.pair->receives_out() == 4);
    ends.end();
}

TEST_CASE("the end may begin where a message is told") {
    Ends ends({}, {}, kOptions);
    post_receives(ends.far, 0, 3);
    ends.far.on_receive = [&] {
        ends.far.pair->fail();
        CHECK(post_receive(ends.far, 4).status == XFER_EDEGRADED);
    };
    for (uint32_t i = 0; i < 2; ++i)
        CHECK(send(ends.near, 1, 1, i).taken == 1);
    ends.settle();
    CHECK(ends.far.received == Received{{0, 1}, {1, 1}});  // both had come
    CHECK(ends.far.drained);
    ends.end();
}

// ---- whatever happens

namespace {

// An end that sends to the other, as many messages as that has receives for, and receives itself.
struct Talker {
    explicit Talker(End &of) : end(of) {
        end.on_receive = [this] { take(); };
    }
    void receive(std::mt19937 &random, FakeFabric &fabric) {
        if (free.empty()) return;
        const uint32_t buffer = free.front();
        const bool refused = random() % 20 == 0;
        if (refused) fabric.fail_call(FakeCall::post_recv, 1, ENOMEM);
        const Status status = post_receive(end, buffer).status;
        fabric.fail_call(FakeCall::post_recv, 0, 0);
        if (status != XFER_OK) return;
        free.pop_front();
        posted.push_back(buffer);
    }
    void say(std::mt19937 &random, Talker &other) {
        if (sent - other.heard >= other.posted.size() || end.pair->free_slots() == 0) return;
        const uint32_t length = 1 + random() % (random() % 2 ? 100 : kBytes);
        if (send(end, length, static_cast<uint8_t>(sent), sent).taken == 1) {
            lengths.push_back(length);
            ++sent;
        }
    }
    void take() {
        const auto [buffer, length] = end.received.back();
        REQUIRE_FALSE(posted.empty());
        CHECK(posted.front() == buffer);
        posted.pop_front();
        free.push_back(buffer);
        REQUIRE(heard < from->lengths.size());
        CHECK(length == from->lengths[heard]);
        CHECK(holds(end, buffer, length, static_cast<uint8_t>(heard)));
        ++heard;
    }

    End &end;
    Talker *from = nullptr;
    std::deque<uint32_t> free{0, 1, 2, 3, 4, 5, 6, 7}, posted;
    std::vector<uint32_t> lengths;
    uint64_t sent = 0, heard = 0;
};

}  // namespace

TEST_CASE("in any life, messages come whole and in order, and no receive is left") {
    uint64_t messages = 0, failures = 0;
    for (uint32_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        FakePersonality personality;
        personality.reuse_numbers = random() % 2 == 0;
        Ends ends(personality, {}, kOptions);
        Talker near(ends.near), far(ends.far);
        near.from = &far, far.from = &near;
        bool is_broken = false;
        for (int step = 0; step < 300; ++step) {
            Talker &one = random() % 2 ? near : far;
            const unsigned choice = random() % 16;
            if (choice < 4) {
                one.receive(random, ends.fabric);
            } else if (choice < 8) {
                one.say(random, &one == &near ? far : near);
            } else if (choice < 11) {
                ends.fabric.step();
            } else if (choice < 13) {
                ends.loop->turn(0);
            } else if (choice == 13) {
                ends.fabric.hold_completions(random() % 2 == 0);
            } else if (choice == 14 && random() % 60 == 0) {
                ends.fabric.fail_request(one.end.pair->handle(), 1 + random() % 3,
                                         IBV_WC_REM_OP_ERR);
                is_broken = true;
            } else if (choice == 15 && random() % 60 == 0) {
                one.end.pair->fail();
                is_broken = true;
            }
        }
        ends.fabric.hold_completions(false);
        if (!is_broken) {
            ends.settle();
            CHECK(near.heard == far.sent);
            CHECK(far.heard == near.sent);
            CHECK(ends.near.errors.empty());  // no message met no receive
            CHECK(ends.far.errors.empty());
        }
        ends.end();
        messages += near.heard + far.heard;
        failures += is_broken;
    }
    CHECK(messages > 5'000);
    CHECK(failures > 30);
}
