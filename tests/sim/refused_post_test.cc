// SPDX-License-Identifier: Apache-2.0
// A channel may take fewer operations than core counts, or no more frames: what it refuses waits,
// or ends with a status, and the process goes on.
#include <algorithm>
#include <cerrno>

#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kOps = 40, kBytes = 20'000;

// Puts, then gets, each of a range and a word of its own, all at once; every other one of them in
// two lanes' queues. Those in `canceled` are canceled with their begin.
struct GatherBatch {
    GatherBatch(Host &host, xfer_ep_t *ep) : host(host), ep(ep) {
        for (uint64_t i = 0; i < kOps; ++i)
            sources.emplace_back(kBytes, static_cast<uint8_t>(i + 1));
        backs.assign(kOps, std::vector<uint8_t>(kBytes));
    }
    void begin(uint32_t kind) {
        for (uint64_t i = 0; i < kOps; ++i) {
            const uint64_t user = word(kind, i);
            host.expect(user);
            const Status status =
                kind == XFER_EVENT_PUT
                    ? xfer_put(ep, sources[i].data(), &host.ref, i * kBytes, kBytes, user, nullptr)
                    : xfer_get(ep, backs[i].data(), &host.ref, i * kBytes, kBytes, user, nullptr);
            REQUIRE(status == XFER_OK);
            if (is_canceled(i)) REQUIRE(xfer_cancel(host.engine, ep, user, UINT64_MAX) == XFER_OK);
        }
    }
    bool is_canceled(uint64_t i) const { return cancel_one_in && i % cancel_one_in == 0; }
    static uint64_t word(uint32_t kind, uint64_t i) { return kind * 1000 + i; }

    Host &host;
    xfer_ep_t *const ep;
    uint64_t cancel_one_in = 0;
    std::vector<std::vector<uint8_t>> sources, backs;
};

}  // namespace

TEST_CASE("what a channel refuses to take goes when it has room") {
    for (const uint64_t takes : {1, 2, 7, 63})
        with_seeds(10, [&](World &world) {
            CAPTURE(takes);
            world.net.takes_ops = takes;
            Host a(world, kA), b(world, kB);
            xfer_ep_t *ep = a.open(kB);
            REQUIRE(a.lookup(ep, 1) == XFER_OK);
            GatherBatch burst(a, ep);
            for (const uint32_t kind : {XFER_EVENT_PUT, XFER_EVENT_GET}) {
                burst.begin(kind);
                REQUIRE(world.world.run_until([&] { return a.pending == 0; }, kBeforeStall));
                for (uint64_t i = 0; i < kOps; ++i)
                    CHECK(a.done[GatherBatch::word(kind, i)].status == XFER_OK);
            }
            CHECK(burst.backs == burst.sources);
            CHECK(a.downs + b.downs == 0);
        });
}

TEST_CASE("what a channel refuses to take can be canceled, and ends once") {
    with_seeds(50, [](World &world) {
        world.net.takes_ops = 1 + world.world.random(4);
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        GatherBatch burst(a, ep);
        burst.cancel_one_in = 2 + world.world.random(3);
        burst.begin(XFER_EVENT_PUT);
        REQUIRE(world.world.run_until([&] { return a.pending == 0; }, kBeforeStall));
        for (uint64_t i = 0; i < kOps; ++i) {
            const Status status = a.done[GatherBatch::word(XFER_EVENT_PUT, i)].status;
            const auto *landed = b.memory.data() + i * kBytes;
            if (!burst.is_canceled(i)) CHECK(status == XFER_OK);
            if (status == XFER_OK)
                CHECK(std::equal(burst.sources[i].begin(), burst.sources[i].end(), landed));
            else
                CHECK(status == XFER_ECANCELED);
        }
        CHECK(a.downs + b.downs == 0);
    });
}

TEST_CASE("a channel that takes nothing ends its connection, and what waits ends by its limit") {
    with_seeds(10, [](World &world) {
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        world.net.takes_ops = 0;
        uint8_t byte = 1;
        CHECK(a.put(ep, &byte, 0, 1, 2) == XFER_ETIMEDOUT);
        CHECK(a.downs > 0);
        world.net.takes_ops = UINT64_MAX;
        CHECK(a.put(ep, &byte, 0, 1, 3) == XFER_OK);
    });
}

TEST_CASE("a channel that takes no more frames is told as a peer that does not read") {
    with_seeds(20, [](World &world) {
        Host a(world, kA), b(world, kB);
        xfer_ep_t *ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        xfer_event_t down{};
        std::string why;
        a.on_other = [&](const xfer_event_t &event) {
            if (event.kind != XFER_EVENT_PEER_DOWN) return;
            down = event;
            why.assign(static_cast<const char *>(event.data), event.data_length);
        };
        world.net.takes_frames = 0;
        a.expect(2);
        REQUIRE(xfer_ep_probe(ep, 2, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return a.downs > 0; }, kSecond));
        world.net.takes_frames = UINT64_MAX;
        CHECK(down.status == XFER_EPEERLOST);
        CHECK(down.origin == XFER_ORIGIN_OS);
        CHECK(down.native_code == ETIMEDOUT);
        CHECK(why == "the peer does not read its control channel");
        CHECK(a.wait(2) == XFER_OK);  // by the next connection
        a.on_other = nullptr;
    });
}
