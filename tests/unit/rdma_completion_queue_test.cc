// SPDX-License-Identifier: Apache-2.0
// A completion queue on a loop: nothing is missed, nothing is told to another, and nothing waits
// behind it.
#include "transport/rdma/completion_queue.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "rdma_ends.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr uint64_t kMs = kNsPerMs;

struct Heard final : CompletionSink, CompletionQueueSink {
    void on_completion(const RequestId &, const ibv_wc &) override { ++completions; }
    void on_queue_failed(const Failure &why) override { failures.push_back(why); }
    int completions = 0;
    std::vector<Failure> failures;
};

// Stands before the adapter: counts what is asked of it, and may fail it.
struct Watched {
    int arms = 0, acks = 0;
    unsigned acknowledged = 0;
    int poll_result = 0;  // of all, if it is less than 0
    int arm_error = 0;
    unsigned gets = 0;  // of events
    std::function<void()> before_arm;
};
Watched watched;
ibv_context_ops real;

int watched_poll(ibv_cq *queue, int room, ibv_wc *out) {
    return watched.poll_result < 0 ? watched.poll_result : real.poll_cq(queue, room, out);
}
int watched_arm(ibv_cq *queue, int solicited) {
    ++watched.arms;
    if (watched.before_arm) watched.before_arm();
    return watched.arm_error ? watched.arm_error : real.req_notify_cq(queue, solicited);
}
void watched_ack(ibv_cq *queue, unsigned count) {
    ++watched.acks;
    watched.acknowledged += count;
    FakeFabric::verbs().ack_cq_events(queue, count);
}

int watched_get(ibv_comp_channel *channel, ibv_cq **queue, void **user) {
    ++watched.gets;
    return FakeFabric::verbs().get_cq_event(channel, queue, user);
}

// For the time of a test.
class Watching {
public:
    explicit Watching(ibv_context *context) : context_(context) {
        watched = {};
        real = context->ops;
        context->ops.poll_cq = watched_poll;
        context->ops.req_notify_cq = watched_arm;
    }
    ~Watching() { context_->ops = real; }

private:
    ibv_context *const context_;
};

// Behind the back of the queue pair.
void post_raw(End &from, uint64_t wr_id) {
    ibv_send_wr request{}, *refused;
    request.wr_id = wr_id;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    REQUIRE(ibv_post_send(from.pair->handle(), &request, &refused) == 0);
}

}  // namespace

TEST_CASE("a completion wakes a loop that sleeps") {
    Ends ends;
    for (uint64_t i = 0; i < 200; ++i) {
        ends.loop->turn(kMs);  // it sleeps at the end
        std::thread adapter([&] {
            EngineLoop::Inside inside(*ends.loop);
            ends.near.post(ends.far, 1, i);
            ends.fabric.run();
        });
        while (ends.near.ends.size() <= i && ends.loop->wakeups() < 2'000)
            ends.loop->turn(1'000 * kMs);
        adapter.join();
        REQUIRE(ends.near.ends.size() == i + 1);
    }
    ends.end();
}

TEST_CASE("what comes just before the queue is armed is not slept over") {
    Ends ends;
    ends.turn();
    const Watching watching(ends.near.port.context);
    ends.near.post(ends.far, 1, 1);
    watched.before_arm = [&] { ends.fabric.run(); };
    const uint64_t wakeups = ends.loop->wakeups();
    ends.loop->turn(100 * kMs);
    CHECK(ends.loop->wakeups() == wakeups);  // it did not sleep
    CHECK(ends.near.ends.size() == 1);
    watched.before_arm = nullptr;
    ends.end();
}

TEST_CASE("nothing is told on the way to sleep") {
    // The descriptor of a loop is brought up to date by any thread, between turns.
    Ends ends;
    REQUIRE(ends.loop->fd());
    ends.turn();
    ends.near.post(ends.far, 3, 1);
    ends.near.post(ends.far, 3, 2);
    ends.fabric.run();
    ends.loop->settle();
    CHECK(ends.near.ends.empty());
    ends.turn();
    CHECK(ends.near.ends.size() == 2);
    ends.end();
}

TEST_CASE("events are acknowledged many at once, and all of them at the end") {
    Verbs table = FakeFabric::verbs();
    table.ack_cq_events = watched_ack;
    table.get_cq_event = watched_get;
    watched = {};
    FakeFabric fabric;
    auto loop = make_loop();
    constexpr unsigned kRounds = 150;
    {
        End near(fabric.add(), *loop, table), far(fabric.add(), *loop);
        REQUIRE(near.create().status == XFER_OK);
        REQUIRE(far.create().status == XFER_OK);
        near.connect(far);
        far.connect(near);
        for (unsigned i = 0; i < kRounds; ++i) {
            loop->turn(kMs);  // arms
            near.post(far, 1, i);
            fabric.run();
            while (near.ends.size() <= i)
                loop->turn(0);
        }
        CHECK(watched.acks <= 3);
        CHECK(watched.gets <= kRounds + 1);  // each is a system call
    }
    CHECK(watched.acknowledged >= kRounds / 2);  // some came without one
    CHECK(fabric.report() == "");
}

TEST_CASE("a turn has a bound, whatever has come") {
    Ends ends({}, {}, {.send_requests = 600}, 1'000);
    for (uint64_t i = 0; i < 600; ++i)
        REQUIRE(ends.near.post(ends.far, 1, i).taken == 1);
    ends.turn();
    ends.fabric.run();
    struct Other final : Task {
        explicit Other(End &of) : end(of) {}
        void run() override { ended = end.ends.size(); }
        End &end;
        size_t ended = 0;
    } other{ends.near};
    ends.near.on_end = [&] {
        if (ends.near.ends.size() == 1) ends.loop->defer(other);
    };
    ends.turn();
    CHECK(ends.near.ends.size() == 600);
    CHECK(other.ended > 0);
    CHECK(other.ended < 300);  // it had its turn between
    ends.end();
}

TEST_CASE("what comes of a queue pair that is gone meets no other") {
    Ends ends;
    Heard first, second;
    EngineLoop::Inside inside(*ends.loop);
    CompletionQueue &queue = *ends.near.queue;
    const uint32_t gone = queue.attach(first);
    post_raw(ends.near, encode(RequestId{RequestId::Kind::send, gone, 1}));
    queue.detach(gone);
    const uint32_t next = queue.attach(second);
    CHECK(next != gone);
    post_raw(ends.near, encode(RequestId{RequestId::Kind::send, next, 1}));
    post_raw(ends.near, 0);
    post_raw(ends.near, UINT64_MAX);
    ends.fabric.run();
    ends.turn();
    CHECK(first.completions == 0);
    CHECK(second.completions == 1);
    CHECK(queue.stale() == 3);
    CHECK(ends.near.ends.empty());
    queue.detach(next);
    ends.end();
}

TEST_CASE("a number is not used again at once, nor while it is used, and 0 never") {
    Ends ends;
    CompletionQueue &queue = *ends.near.queue;
    Heard sink;
    std::set<uint32_t> used;
    const uint32_t kept = queue.attach(sink);
    for (int i = 0; i < 1'000; ++i) {
        const uint32_t number = queue.attach(sink);
        CHECK(number > 0);
        CHECK(number < RequestId::kQueues);
        CHECK(number != kept);
        CHECK(used.insert(number).second);
        queue.detach(number);
    }
    for (uint32_t i = 0; i < RequestId::kQueues; ++i) {
        const uint32_t number = queue.attach(sink);
        if (number == 0 || number == kept) FAIL("it was given out");
        queue.detach(number);
    }
    queue.detach(kept);
    ends.end();
}

TEST_CASE("room is for what the queue was made for") {
    Ends ends({}, {}, {.send_requests = 20}, 64);
    CompletionQueue &queue = *ends.near.queue;
    CHECK(queue.entries() == 64);
    CHECK_FALSE(queue.reserve(44));  // the queue pair has 21
    CHECK(queue.reserve(43));
    CHECK_FALSE(queue.reserve(1));
    CHECK_FALSE(queue.reserve(UINT32_MAX));
    queue.release(43);
    CHECK(queue.reserve(1));
    queue.release(1);
    ends.end();
}

TEST_CASE("a queue that can't be polled or armed is told once") {
    Ends ends;
    ends.turn();
    {
        const Watching watching(ends.near.port.context);
        SUBCASE("polled") {
            watched.poll_result = -EIO;
        }
        SUBCASE("armed") {
            watched.arm_error = EIO;
        }
        for (int i = 0; i < 5; ++i)
            ends.loop->turn(kMs);
        REQUIRE(ends.near.queue_failures.size() == 1);
        CHECK(ends.near.queue_failures[0].status == XFER_EIO);
        CHECK(ends.near.queue_failures[0].origin == XFER_ORIGIN_VERBS);
        CHECK(ends.far.queue_failures.empty());
        CHECK(watched.arms <= 1);
    }
    // The owner ends its queue pairs.
    CHECK(ends.near.post(ends.far, 3, 1).taken == 3);
    ends.fabric.run();
    ends.near.pair->fail();
    ends.turn();
    CHECK_FALSE(ends.near.pair->is_drained());
    ends.fabric.run();
    ends.fabric.allow(Violation::unpolled);  // it can't be
    CHECK(ends.near.pair->destroy().status == XFER_OK);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 3, ChainEnd::How::unknown, 0}});
    ends.near.pair.reset();
    ends.end();
}

TEST_CASE("a queue that can't be made leaves nothing") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    auto loop = make_loop();
    Heard sink;
    EngineLoop::Inside inside(*loop);
    for (const FakeCall call : {FakeCall::create_comp_channel, FakeCall::create_cq}) {
        fabric.fail_call(call, 1, ENOMEM);
        auto made = CompletionQueue::create(FakeFabric::verbs(), adapter.port(), 8, 0, *loop, sink);
        REQUIRE_FALSE(made);
        CHECK(made.error().status == XFER_ENOMEM);
        CHECK(made.error().origin == XFER_ORIGIN_VERBS);
        CHECK(fabric.live() == FakeCounts{});
    }
    CHECK(fabric.report() == "");
}
