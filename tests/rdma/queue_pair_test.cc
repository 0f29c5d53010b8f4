// SPDX-License-Identifier: Apache-2.0
// The library's own devices, registrations, chains and queue pairs, on a real driver.
#include "transport/rdma/queue_pair.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "endpoint.h"
#include "transport/rdma/devices.h"
#include "transport/rdma/registration.h"

using namespace xfer;
using namespace xfer::rdma;

TEST_SUITE_BEGIN("queue-pair");

namespace {

constexpr size_t kBytes = 1 << 20;

std::string name_of(const char *variable) {
    const char *name = std::getenv(variable);
    return name ? name : "rxe0";
}

struct RegisteredKeys final : LocalKeys {
    RegisteredKeys(std::vector<uint8_t> &memory, const Registration &of)
        : base(reinterpret_cast<uint64_t>(memory.data())), size(memory.size()), registration(of) {}
    Key look(uint64_t address) const override {
        if (address - base >= size) return {};
        return {registration.chunk(0).lkey, base + size - address};
    }
    const uint64_t base, size;
    const Registration &registration;
};

// One of the two ends: a device, memory, and a queue pair.
struct End {
    End(const char *variable, const QueuePairOptions &wanted) : options(wanted) {
        auto filter = parse_device_filter(name_of(variable));
        REQUIRE(filter);
        auto found = open_devices(rdma_test::verbs(), *filter);
        REQUIRE(found);
        REQUIRE(found->open.size() == 1);
        device = std::move(found->open[0]);
        REQUIRE(port().active);
        queue = rdma_test::verbs().create_cq(port().context, 2'000, nullptr, nullptr, 0);
        REQUIRE(queue);
        auto made =
            Registration::add(rdma_test::verbs(), port(),
                              {memory.data(), memory.size(), XFER_READ | XFER_WRITE, false});
        REQUIRE(made);
        registration.emplace(std::move(*made));
        renew();
    }
    ~End() {
        pair.reset();
        registration.reset();
        if (queue) CHECK(rdma_test::verbs().destroy_cq(queue) == 0);
    }
    void renew() {
        pair.reset();
        ++generation;
        auto made = QueuePair::make(rdma_test::verbs(), port(), queue, options, generation,
                                    0x1000 * generation);
        REQUIRE(made);
        pair = std::move(*made);
    }
    const Port &port() const { return device->ports()[0]; }
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory.data()); }

    const QueuePairOptions options;
    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
    std::unique_ptr<Device> device;
    ibv_cq *queue = nullptr;
    std::optional<Registration> registration;
    uint32_t generation = 0;
    std::unique_ptr<QueuePair> pair;
};

// Each other's parameters go through their form on the wire.
void connect(End &a, End &b) {
    for (auto [to, from] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        uint8_t bytes[QueuePairParameters::kSize];
        from->pair->parameters().encode(bytes);
        auto heard = QueuePairParameters::decode(bytes);
        REQUIRE(heard);
        REQUIRE(to->pair->connect(*heard).status == XFER_OK);
    }
}

struct Ends {
    explicit Ends(uint32_t requests = 64) : options{.requests = requests, .timeout = 8} {
        connect(here, there);
        keys[0] = there.registration->chunk(0).rkey;
        std::mt19937 random(7);
        for (uint8_t &byte : here.memory)
            byte = static_cast<uint8_t>(random());
    }
    // One completion, if one comes within ten seconds.
    bool poll() {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        ibv_wc told;
        while (std::chrono::steady_clock::now() < limit) {
            const int count = ibv_poll_cq(here.queue, 1, &told);
            REQUIRE(count >= 0);
            if (count == 0) continue;
            CHECK(here.pair->completed(told));
            return true;
        }
        return false;
    }
    // All of the pieces, by as many chains as it takes. False: a chain failed.
    bool move(Dir dir, const std::vector<Piece> &pieces) {
        const RegisteredKeys local(here.memory, *here.registration);
        const RemoteMemory remote{there.address(), kBytes, kBytes, keys};
        Chain chain(here.pair->limits());
        Chain::Progress from;
        Chain::End end = Chain::End::full;
        while (end == Chain::End::full) {
            end = chain.build(dir, pieces, local, remote, here.pair->next_id(), from);
            REQUIRE((end == Chain::End::full || end == Chain::End::all));
            if (chain.requests() == 0) break;
            Ledger::Verdict verdict;
            while ((verdict = here.pair->post(chain, &from)) == Ledger::Verdict::full) {
                REQUIRE(poll());
                while (here.pair->pop_done()) {}
            }
            if (verdict != Ledger::Verdict::reserved) return false;
        }
        while (here.pair->ledger().depth() && !here.pair->ledger().degraded()) {
            REQUIRE(poll());
            while (here.pair->pop_done()) {}
        }
        return !here.pair->ledger().degraded();
    }
    uint32_t flush() {
        here.pair->fail();
        while (!here.pair->flushed() && poll()) {}
        CHECK(here.pair->flushed());
        uint32_t failed = 0;
        while (here.pair->pop_failed())
            ++failed;
        CHECK(here.pair->ledger().depth() == 0);
        return failed;
    }
    std::vector<Piece> scattered(uint64_t length, uint64_t count) const {
        std::vector<Piece> pieces;
        for (uint64_t i = 0; i < count; ++i)
            pieces.push_back({here.address() + i * length, (count - 1 - i) * length, length});
        return pieces;
    }

    const QueuePairOptions options;
    End here{"RDMA_TEST_NEAR", options}, there{"RDMA_TEST_FAR", options};
    uint32_t keys[1];
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
        CHECK(ends.flush() == 0);
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

TEST_CASE("what is posted on a queue that fails ends with the flush, and the next pair works") {
    Ends ends(16);
    for (int life = 0; life < 50; ++life) {
        CAPTURE(life);
        const RegisteredKeys local(ends.here.memory, *ends.here.registration);
        const RemoteMemory remote{ends.there.address(), kBytes, kBytes, ends.keys};
        ChainLimits limits = ends.here.pair->limits();
        limits.requests = 4;
        Chain chain(limits);
        uint32_t posted = 0;
        for (; posted < 4; ++posted) {
            Chain::Progress from;
            REQUIRE(chain.build(Dir::put, ends.scattered(50'000, 4), local, remote,
                                ends.here.pair->next_id(), from) == Chain::End::all);
            REQUIRE(ends.here.pair->post(chain, nullptr) == Ledger::Verdict::reserved);
        }
        CHECK(ends.here.pair->post(chain, nullptr) == Ledger::Verdict::full);
        ends.here.pair->fail();
        while (!ends.here.pair->flushed())
            REQUIRE(ends.poll());
        uint32_t ended = 0;
        while (ends.here.pair->pop_done())
            ++ended;
        while (ends.here.pair->pop_failed())
            ++ended;
        CHECK(ended == posted);
        CHECK(ends.here.pair->ledger().depth() == 0);
        CHECK(ends.here.pair->destroy().status == XFER_OK);
        ends.here.renew();
        ends.there.renew();
        connect(ends.here, ends.there);
    }
    REQUIRE(ends.move(Dir::put, ends.scattered(1'000, 20)));
}

TEST_CASE("a key that is void degrades the queue, and the flush ends what was posted") {
    Ends ends;
    REQUIRE(ends.move(Dir::put, ends.scattered(1'000, 20)));
    CHECK_FALSE(ends.there.registration->close());
    const std::vector<uint8_t> then = ends.there.memory;
    CHECK_FALSE(ends.move(Dir::put, ends.scattered(2'000, 20)));
    CHECK(ends.flush() >= 1);
    CHECK(ends.there.memory == then);
}

TEST_CASE("an end that is gone is told within its retries") {
    Ends ends;
    ends.there.pair.reset();
    CHECK_FALSE(ends.move(Dir::put, ends.scattered(1'000, 20)));
    CHECK(ends.flush() == 1);
}
