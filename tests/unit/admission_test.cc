// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "core/base/endpoint.h"
#include "polled_engine.h"

using namespace xfer;

namespace {

constexpr uint32_t kLimit = 3;

// An endpoint whose peer is not there: what it takes stays with it.
struct Fixture {
    PolledEngine engine{{}, kLimit};
    xfer_ep_t *ep = engine.ep();
    Endpoint *inside = reinterpret_cast<Endpoint *>(ep);
    uint8_t memory[64] = {};
    const xfer_ref_t ref = PolledEngine::ref(64);

    ~Fixture() { CHECK(xfer_ep_close(ep) == XFER_OK); }

    Status put(uint64_t user) { return xfer_put(ep, memory, &ref, 0, 8, user, nullptr); }
    // The types of the events that come until one of `last` has come.
    std::vector<uint32_t> poll_until(uint32_t last) {
        std::vector<uint32_t> types;
        for (int turn = 0; turn < 1000 && (types.empty() || types.back() != last); ++turn) {
            xfer_event_t event;
            uint32_t count = 0;
            REQUIRE(xfer_engine_poll(engine.handle(), &event, sizeof event, 1, 10, &count) ==
                    XFER_OK);
            if (count) types.push_back(event.kind);
        }
        return types;
    }
    bool quiet() {
        xfer_event_t event;
        uint32_t count = 0;
        REQUIRE(xfer_engine_poll(engine.handle(), &event, sizeof event, 1, 0, &count) == XFER_OK);
        return count == 0;
    }
};

}  // namespace

TEST_CASE("an endpoint counts a kind of operation once one was admitted") {
    Fixture f;
    EndpointCounters &counters = f.inside->counters;
    CHECK(!counters.find(OpKind::put));
    CHECK(f.inside->admit(OpKind::put));
    OpCounters *const put = counters.find(OpKind::put);
    REQUIRE(put);
    put->submitted.add();
    CHECK(f.inside->admit(OpKind::put));
    CHECK(counters.find(OpKind::put) == put);
    CHECK(!counters.find(OpKind::get));
    xfer_op_stats_t told{};
    counters.add_to(OpKind::put, told);
    counters.add_to(OpKind::get, told);
    CHECK(told.submitted == 1);
    f.inside->outstanding.store(0);
}

TEST_CASE("an endpoint takes as many operations as its limit") {
    Fixture f;
    for (uint32_t i = 0; i < kLimit; ++i) {
        CHECK(f.inside->outstanding.load() == i);
        CHECK(f.inside->admit(OpKind::put));
    }
    CHECK(!f.inside->room_wanted.load());
    for (int again = 0; again < 3; ++again) {
        CHECK(!f.inside->admit(OpKind::put));
        CHECK(f.inside->outstanding.load() == kLimit);
        CHECK(f.inside->room_wanted.load());
    }
    f.inside->outstanding.fetch_sub(1);
    CHECK(f.inside->admit(OpKind::put));
    CHECK(!f.inside->admit(OpKind::put));
    f.inside->outstanding.store(0);
}

TEST_CASE("whoever was refused is told once when there is room") {
    Fixture f;
    for (uint64_t i = 1; i <= kLimit; ++i)
        CHECK(f.put(i) == XFER_OK);
    CHECK(f.put(9) == XFER_EAGAIN);
    CHECK(f.put(9) == XFER_EAGAIN);
    CHECK(xfer_ep_connect(f.ep, 9, nullptr) == XFER_EAGAIN);
    CHECK(xfer_ep_probe(f.ep, 9, nullptr) == XFER_EAGAIN);
    CHECK(xfer_ep_lookup(f.ep, "name", 9, nullptr, nullptr) == XFER_EAGAIN);
    CHECK(f.quiet());

    CHECK(xfer_cancel(f.engine.handle(), f.ep, 2, UINT64_MAX) == XFER_OK);
    const auto types = f.poll_until(XFER_EVENT_ROOM);
    REQUIRE(types.size() == 2);  // the put, then the room that it left
    CHECK(types[0] == XFER_EVENT_PUT);
    CHECK(types[1] == XFER_EVENT_ROOM);
    CHECK(f.put(4) == XFER_OK);
    CHECK(f.put(5) == XFER_EAGAIN);

    // Nobody was refused since: two more ends make one more event.
    CHECK(xfer_cancel(f.engine.handle(), f.ep, 1, UINT64_MAX) == XFER_OK);
    CHECK(xfer_cancel(f.engine.handle(), f.ep, 3, UINT64_MAX) == XFER_OK);
    int rooms = 0, puts = 0;
    for (int turn = 0; turn < 100 && puts < 2; ++turn)
        for (uint32_t type : f.poll_until(XFER_EVENT_PUT)) {
            rooms += type == XFER_EVENT_ROOM;
            puts += type == XFER_EVENT_PUT;
        }
    CHECK(puts == 2);
    CHECK(rooms == 1);
    CHECK(f.quiet());
}

TEST_CASE("who was not refused is told nothing") {
    Fixture f;
    CHECK(f.put(1) == XFER_OK);
    CHECK(xfer_cancel(f.engine.handle(), f.ep, 1, UINT64_MAX) == XFER_OK);
    CHECK(f.poll_until(XFER_EVENT_PUT) == std::vector<uint32_t>{XFER_EVENT_PUT});
    CHECK(f.quiet());
}

TEST_CASE("a batch counts as one, however many entries it has") {
    Fixture f;
    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(f.ep, nullptr, &batch, nullptr) == XFER_OK);
    for (int i = 0; i < 8; ++i)
        CHECK(xfer_batch_put(batch, f.memory, &f.ref, 0, 8) == XFER_OK);
    CHECK(xfer_batch_submit(batch, 0, nullptr) == XFER_OK);
    CHECK(f.inside->outstanding.load() == 1);
    CHECK(f.put(1) == XFER_OK);
    CHECK(f.put(2) == XFER_OK);
    CHECK(f.put(3) == XFER_EAGAIN);
    CHECK(xfer_batch_close(batch) == XFER_OK);
    const auto types = f.poll_until(XFER_EVENT_ROOM);
    CHECK(types == std::vector<uint32_t>{XFER_EVENT_BATCH, XFER_EVENT_ROOM});
}
