// SPDX-License-Identifier: Apache-2.0
// The library's own devices, registrations, chains, queue pairs and completion queues, on a real
// driver.
#include "transport/rdma/queue_pair.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "endpoint.h"
#include "loop/own_loop.h"
#include "transport/rdma/devices.h"
#include "transport/rdma/registration.h"
#include "wire/proof.h"

using namespace xfer;
using namespace xfer::rdma;

TEST_SUITE_BEGIN("queue-pair");

namespace {

constexpr size_t kBytes = 1 << 20;
constexpr double kLimit = 10;  // seconds: what does not wake the loop comes behind them

std::string name_of(const char *variable) {
    const char *name = std::getenv(variable);
    return name ? name : "rxe0";
}

std::unique_ptr<OwnLoop> make_loop() {
    REQUIRE(crypto_ready());
    auto loop = OwnLoop::open();
    REQUIRE(loop);
    return std::move(*loop);
}

// One of the two ends: a device, memory, and a queue pair with its completion queue.
struct End final : QueuePairSink, CompletionQueueSink, LocalKeys {
    End(const char *variable, OwnLoop &on, const QueuePairOptions &wanted)
        : options(wanted), loop(on) {
        auto filter = parse_device_filter(name_of(variable));
        REQUIRE(filter);
        auto found = open_devices(rdma_test::verbs(), *filter);
        REQUIRE(found);
        REQUIRE(found->open.size() == 1);
        device = std::move(found->open[0]);
        REQUIRE(port().active);
        auto memory_made =
            Registration::add(rdma_test::verbs(), port(),
                              {memory.data(), memory.size(), XFER_READ | XFER_WRITE, false});
        REQUIRE(memory_made);
        registration.emplace(std::move(*memory_made));
        key = registration->chunk(0).rkey;
        EngineLoop::Inside inside(loop);
        auto made = CompletionQueue::create(rdma_test::verbs(), port(), 512, 0, loop, *this);
        REQUIRE(made);
        queue = std::move(*made);
        renew();
    }
    ~End() {
        EngineLoop::Inside inside(loop);
        pair.reset();
        queue.reset();
        registration.reset();
    }
    void renew() {
        pair.reset();
        drained = false;
        ends.clear();
        errors.clear();
        auto made = QueuePair::create(rdma_test::verbs(), port(), *queue, options, *this);
        REQUIRE(made);
        pair = std::move(*made);
    }

    void on_chain_ended(QueuePair &, const ChainEnd &end) override { ends.push_back(end); }
    void on_error(QueuePair &, const Failure &why) override { errors.push_back(why); }
    void on_drained(QueuePair &) override { drained = true; }
    void on_queue_failed(const Failure &why) override { FAIL(why.message.c_str()); }
    LocalKey find(uint64_t at) const override {
        if (at - address() >= memory.size()) return {};
        return {registration->chunk(0).lkey, address() + memory.size() - at};
    }

    const Port &port() const { return device->ports()[0]; }
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory.data()); }
    RemoteMemory remote() const { return {address(), {&key, 1}, kBytes}; }
    ChainLimits limits(uint32_t requests) const {
        const QueuePairCaps &caps = pair->caps();
        return {.requests = requests,
                .pieces = caps.send_pieces,
                .read_pieces = std::min(caps.send_pieces, port().limits.read_pieces),
                .request_bytes = port().message_bytes,
                .inline_bytes = caps.inline_bytes};
    }

    const QueuePairOptions options;
    OwnLoop &loop;
    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
    std::unique_ptr<Device> device;
    std::optional<Registration> registration;
    uint32_t key = 0;
    std::unique_ptr<CompletionQueue> queue;
    std::unique_ptr<QueuePair> pair;
    std::vector<ChainEnd> ends;
    std::vector<Failure> errors;
    bool drained = false;
};

// Each other's parameters go through their form on the wire.
void connect(End &a, End &b) {
    for (auto [to, from] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        auto heard = decode_queue_pair_parameters(encode(from->pair->parameters()));
        REQUIRE(heard);
        REQUIRE(to->pair->connect(*heard).status == XFER_OK);
    }
}

struct Ends {
    explicit Ends(uint32_t requests = 64) : options{.send_requests = requests, .ack_timeout = 8} {
        connect(here, there);
        std::mt19937 random(7);
        for (uint8_t &byte : here.memory)
            byte = static_cast<uint8_t>(random());
    }
    // Whether it comes to that in time.
    bool wait(const std::function<bool()> &condition) {
        const double end = rdma_test::now() + kLimit;
        while (!condition()) {
            if (rdma_test::now() > end) return false;
            loop->turn(static_cast<uint64_t>(kLimit * 1e9));
        }
        return true;
    }
    // Posts the chain as soon as there is room. False: the queue pair takes no more.
    bool post(uint64_t cookie) {
        const uint32_t size = list.chain().size();
        list.add(cookie);
        Posted posted;
        REQUIRE(wait([&] {
            posted = here.pair->post(list);
            return posted.admitted != Admitted::full;
        }));
        REQUIRE(posted.admitted != Admitted::too_large);
        if (posted.admitted == Admitted::granted) REQUIRE(posted.taken == size);
        return posted.admitted == Admitted::granted;
    }
    // All of the pieces, by as many chains as it takes. False: one failed.
    bool move(Dir dir, const std::vector<Piece> &pieces) {
        const ChainLimits limits = here.limits(here.pair->caps().send_requests);
        for (ChainPosition at; at.piece < pieces.size();) {
            list.clear();
            at = list.chain().build(dir, pieces, at, there.remote(), here, limits);
            REQUIRE_FALSE(list.chain().lacks_key());
            if (!post(0)) return false;
        }
        const Ledger &ledger = here.pair->ledger();
        REQUIRE(wait([&] { return ledger.outstanding() == 0 || ledger.degraded(); }));
        return !ledger.degraded();
    }
    // To ERR. How many chains did not succeed.
    uint32_t drain() {
        here.pair->fail();
        REQUIRE(wait([&] { return here.drained; }));
        CHECK(here.pair->ledger().outstanding() == 0);
        return static_cast<uint32_t>(
            std::count_if(here.ends.begin(), here.ends.end(),
                          [](const ChainEnd &end) { return end.how != ChainEnd::How::done; }));
    }
    std::vector<Piece> scattered(uint64_t length, uint64_t count) const {
        std::vector<Piece> pieces;
        for (uint64_t i = 0; i < count; ++i)
            pieces.push_back({here.address() + i * length, (count - 1 - i) * length, length});
        return pieces;
    }

    const QueuePairOptions options;
    std::unique_ptr<OwnLoop> loop = make_loop();
    End here{"RDMA_TEST_NEAR", *loop, options}, there{"RDMA_TEST_FAR", *loop, options};
    PostList list{64, 1'024};
};

}  // namespace

TEST_CASE("pieces go to their places and come back, by more chains than the queue has slots") {
    for (const uint64_t length : {1u, 100u, 4'096u, 10'000u}) {
        CAPTURE(length);
        Ends ends;
        const uint64_t count = std::min<uint64_t>(200, kBytes / length);
        const std::vector<uint8_t> right = ends.here.memory;
        REQUIRE(ends.move(Dir::put, ends.scattered(length, count)));
        for (uint64_t i = 0; i < count; ++i) {
            const auto at = [&](uint64_t place) { return static_cast<ptrdiff_t>(place * length); };
            CHECK(std::equal(right.begin() + at(i), right.begin() + at(i + 1),
                             ends.there.memory.begin() + at(count - 1 - i)));
        }
        std::fill(ends.here.memory.begin(), ends.here.memory.end(), uint8_t{0});
        REQUIRE(ends.move(Dir::get, ends.scattered(length, count)));
        CHECK(std::equal(right.begin(), right.begin() + static_cast<ptrdiff_t>(count * length),
                         ends.here.memory.begin()));
        CHECK(ends.drain() == 0);
    }
}

TEST_CASE("adjacent pieces are merged, and gathered from several places") {
    Ends ends;
    std::vector<Piece> pieces;
    for (uint64_t i = 0; i < 30; ++i)
        pieces.push_back({ends.here.address() + i * 500, i * 100, 100});
    REQUIRE(ends.move(Dir::put, pieces));
    for (uint64_t i = 0; i < 30; ++i)
        CHECK(std::equal(ends.there.memory.begin() + static_cast<ptrdiff_t>(i * 100),
                         ends.there.memory.begin() + static_cast<ptrdiff_t>(i * 100 + 100),
                         ends.here.memory.begin() + static_cast<ptrdiff_t>(i * 500)));
}

TEST_CASE("what is posted on a queue that fails ends with the drain, and the next pair works") {
    Ends ends(16);
    for (int life = 0; life < 50; ++life) {
        CAPTURE(life);
        const ChainLimits limits = ends.here.limits(4);
        for (uint64_t posted = 0; posted < 4; ++posted) {
            ends.list.clear();
            ends.list.chain().build(Dir::put, ends.scattered(50'000, 4), {}, ends.there.remote(),
                                    ends.here, limits);
            ends.list.add(posted);
            REQUIRE(ends.here.pair->post(ends.list).taken == 4);
        }
        CHECK(ends.here.pair->post(ends.list).admitted == Admitted::full);
        ends.drain();
        REQUIRE(ends.here.ends.size() == 4);
        for (uint64_t i = 0; i < 4; ++i)
            CHECK(ends.here.ends[i].cookie == i);
        CHECK(ends.here.pair->destroy().status == XFER_OK);
        ends.here.renew();
        ends.there.renew();
        connect(ends.here, ends.there);
    }
    REQUIRE(ends.move(Dir::put, ends.scattered(1'000, 20)));
    CHECK(ends.here.queue->stale() == 0);
}

TEST_CASE("a key that is void degrades the queue, and the drain ends what was posted") {
    Ends ends;
    REQUIRE(ends.move(Dir::put, ends.scattered(1'000, 20)));
    CHECK_FALSE(ends.there.registration->close());
    const std::vector<uint8_t> then = ends.there.memory;
    CHECK_FALSE(ends.move(Dir::put, ends.scattered(2'000, 20)));
    CHECK(ends.drain() >= 1);
    REQUIRE(ends.here.errors.size() == 1);
    CHECK(ends.here.errors[0].status == XFER_ESTALE);
    CHECK(ends.there.memory == then);
}

// On one device all else is done before the loop comes to sleep.
TEST_CASE("an end that is gone is told within its retries, to a loop that sleeps") {
    Ends ends;
    ends.there.pair.reset();
    const uint64_t wakeups = ends.loop->wakeups();
    const double begin = rdma_test::now();
    CHECK_FALSE(ends.move(Dir::put, ends.scattered(1'000, 20)));
    CHECK(ends.drain() == 1);
    REQUIRE(ends.here.errors.size() == 1);
    CHECK(ends.here.errors[0].status == XFER_EPEERLOST);
    CHECK(ends.loop->wakeups() > wakeups);
    CHECK(rdma_test::now() - begin < kLimit / 2);
}

TEST_SUITE_END();
