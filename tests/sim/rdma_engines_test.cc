// SPDX-License-Identifier: Apache-2.0
// Whole engines over adapters of fake verbs, in virtual time: how their paths come about, what
// moves by them, and what becomes of it when queue pairs, rails and engines are lost at any step.
#include "rdma_pair.h"

using namespace xfer;
using rdma::FakeCut;
using rdma::FakePersonality;

namespace {

constexpr uint64_t kOps = 24, kSpanNs = 300'000;

uint32_t rails_of(uint64_t seed) {
    return 1 + seed % 2;
}
uint32_t loops_of(uint64_t seed) {
    return 1 + seed % 3;
}

// All of it goes by the adapters.
void all_goes_by_them(RdmaPair &pair) {
    const uint64_t requests = pair.requests();
    RdmaStorm storm(pair, kOps, kSpanNs);
    REQUIRE(storm.all_end());
    storm.check();
    CHECK(storm.lost() == 0);
    CHECK(pair.requests() > requests + kOps);
}

std::set<uint32_t> numbers_of(RdmaPair &pair, uint32_t rail) {
    std::set<uint32_t> numbers;
    for (const ibv_qp *each : pair.adapters.fabric.pairs())
        if (each->context->device == pair.of[rail]->context()->device) numbers.insert(each->qp_num);
    return numbers;
}

}  // namespace

TEST_CASE("engines move everything by their adapters") {
    for (const uint32_t rails : {1u, 2u})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(rails);
            CAPTURE(seed);
            RdmaPair pair(seed,
                          {.rails = rails, .loops = loops_of(seed), .windows = seed % 5 != 0});
            pair.lookup();
            REQUIRE(pair.until_up());
            all_goes_by_them(pair);
            CHECK(pair.lost_connections() == 0);
        }
}

TEST_CASE("the same seed gives the same run") {
    const auto run = [](uint64_t seed) {
        RdmaPair pair(seed, {.rails = 2});
        pair.lookup();
        REQUIRE(pair.until_up());
        all_goes_by_them(pair);
        return std::pair(pair.world.digest(), pair.adapters.executed);
    };
    for (uint64_t seed = 1; seed <= 3; ++seed)
        CHECK(run(seed) == run(seed));
    CHECK(run(1) != run(2));
}

TEST_CASE("both engines open to each other at once") {
    uint64_t crossed = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        CAPTURE(seed);
        RdmaPair pair(seed, {.rails = rails_of(seed), .loops = loops_of(seed)});
        Host &a = *pair.a, &b = *pair.b;
        a.expect(1), b.expect(1);
        pair.world.post(pair.world.random(kSpanNs), [&] {
            REQUIRE(xfer_ep_lookup(pair.there, "memory", 1, nullptr, nullptr) == XFER_OK);
        });
        pair.world.post(pair.world.random(kSpanNs), [&] {
            REQUIRE(xfer_ep_lookup(pair.back, "memory", 1, nullptr, nullptr) == XFER_OK);
        });
        CHECK(a.wait(1) == XFER_OK);
        CHECK(b.wait(1) == XFER_OK);
        RdmaStorm at_once(pair, kOps, kSpanNs);
        REQUIRE(at_once.all_end());
        at_once.check();
        CHECK(at_once.lost() == 0);
        REQUIRE(pair.until_up());
        crossed += pair.net.dials > 1;
        all_goes_by_them(pair);
    }
    CHECK(crossed > 20);
}

TEST_CASE("a rail that never reaches the other end costs nothing but attempts") {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        RdmaPair pair(seed, {.rails = 2, .loops = loops_of(seed)});
        pair.cut(0, FakeCut::requests);
        pair.lookup();
        for (int i = 0; i < 10; ++i) {
            RdmaStorm storm(pair, kOps, kSpanNs);
            REQUIRE(storm.all_end());
            storm.check();
            CHECK(storm.lost() == 0);
        }
        CHECK(pair.adapters.fabric.met()[FakeCut::requests] > 2);
        CHECK(pair.lost_connections() == 0);
        pair.mend(0);
        REQUIRE(pair.until_up());
        all_goes_by_them(pair);
    }
}

// Its adapter gives it the numbers that its predecessor had, of which the peer knows no end.
TEST_CASE("an engine comes again, and its queue pairs have the same numbers") {
    uint64_t met = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        RdmaPair pair(seed,
                      {.rails = rails_of(seed), .personality = FakePersonality::reuses_numbers()});
        pair.lookup();
        REQUIRE(pair.until_up());
        const auto before = numbers_of(pair, 0);
        xfer_id_t id{};
        REQUIRE(xfer_engine_id(pair.a->engine, &id) == XFER_OK);
        RdmaStorm storm(pair, kOps, kSpanNs);
        storm.may_end = {XFER_OK, XFER_EPEERLOST, XFER_ECLOSED, XFER_ECANCELED, XFER_ESTALE};
        pair.world.run_for(pair.world.random(kSpanNs));
        pair.net.kill(*pair.a->process, false);
        const std::unique_ptr<Host> gone = std::move(pair.a);
        gone->end();
        pair.a = std::make_unique<Host>(pair, kA, std::vector<uint8_t>(id.bytes, id.bytes + 16));
        pair.there = pair.a->open(kB);
        pair.lookup();
        REQUIRE(pair.until_up());
        storm.give_up(*pair.b);
        REQUIRE(storm.all_end());
        const auto after = numbers_of(pair, 0);
        met += std::any_of(after.begin(), after.end(),
                           [&](uint32_t number) { return before.contains(number); });
        all_goes_by_them(pair);
    }
    CHECK(met == 60);
}

namespace {

// How a queue pair breaks in the middle of a storm.
struct Breaks {
    const char *name;
    std::function<void(RdmaPair &, unsigned k)> plan;
};

void fail_request(RdmaPair &pair, unsigned k, ibv_wc_status status) {
    pair.adapters.fabric.fail_request(nullptr, k, status);
}

const std::vector<Breaks> kBreaks = {
    {"not answered", [](auto &pair, unsigned k) { fail_request(pair, k, IBV_WC_RETRY_EXC_ERR); }},
    {"no receive", [](auto &pair, unsigned k) { fail_request(pair, k, IBV_WC_RNR_RETRY_EXC_ERR); }},
    {"local fault", [](auto &pair, unsigned k) { fail_request(pair, k, IBV_WC_LOC_QP_OP_ERR); }},
    {"remote fault", [](auto &pair, unsigned k) { fail_request(pair, k, IBV_WC_REM_OP_ERR); }},
    {"post in part", [](auto &pair, unsigned k) { pair.adapters.fabric.fail_post(k, 1, EIO); }},
    {"no post", [](auto &pair, unsigned k) { pair.adapters.fabric.fail_post(k, 0, EIO); }},
    {"no room", [](auto &pair, unsigned k) { pair.adapters.fabric.fail_post(k, 0, ENOMEM); }},
    {"given up",
     [](auto &pair, unsigned k) {
         pair.adapters.on_step = [&pair, left = k]() mutable {
             if (left > 0 && --left == 0) pair.adapters.raise(*pair.of[0], IBV_EVENT_QP_FATAL);
         };
     }},
    {"port down",
     [](auto &pair, unsigned k) {
         pair.adapters.on_step = [&pair, left = k]() mutable {
             if (left == 0 || --left > 0) return;
             pair.adapters.raise(*pair.of[1], IBV_EVENT_PORT_ERR);
             pair.world.post(pair.world.random(kNsPerMs),
                             [&pair] { pair.adapters.raise(*pair.of[1], IBV_EVENT_PORT_ACTIVE); });
         };
     }},
};

}  // namespace

TEST_CASE("a queue pair breaks in the middle of a storm, and another takes its place") {
    uint64_t lost = 0, landed = 0;
    for (const Breaks &each : kBreaks) {
        uint64_t met = 0;
        for (uint64_t seed = 1; seed <= 40; ++seed) {
            CAPTURE(each.name);
            CAPTURE(seed);
            RdmaPair pair(seed, {.loops = loops_of(seed),
                                 .windows = seed % 5 != 0,
                                 .personality = {.late_writes = true}});
            pair.lookup();
            REQUIRE(pair.until_up());
            const size_t before = pair.adapters.fabric.met().size();
            each.plan(pair, 1 + static_cast<unsigned>(pair.world.random(100)));
            RdmaStorm storm(pair, kOps, kSpanNs);
            REQUIRE(storm.all_end());
            storm.check();
            lost += storm.lost();
            landed += pair.adapters.fabric.landed();
            met += pair.adapters.fabric.met().size() > before;
            pair.adapters.on_step = nullptr;
            pair.adapters.fabric.fail_post(0, 0, 0);
            REQUIRE(pair.until_up());
            all_goes_by_them(pair);
            CHECK(pair.lost_connections() == 0);
        }
        CHECK(met > 20);
    }
    CHECK(lost > 300);
    CHECK(landed > 0);  // chance decides how often
}

namespace {

const std::vector<Breaks> kRailEnds = {
    {"requests", [](auto &pair, unsigned) { pair.cut(0, FakeCut::requests); }},
    {"answers", [](auto &pair, unsigned) { pair.cut(0, FakeCut::answers); }},
    {"port", [](auto &pair, unsigned) { pair.adapters.raise(*pair.of[0], IBV_EVENT_PORT_ERR); }},
    {"port of the other",
     [](auto &pair, unsigned) { pair.adapters.raise(*pair.of[2], IBV_EVENT_PORT_ERR); }},
};

}  // namespace

TEST_CASE("one of two rails is lost at any step") {
    const uint64_t seeds = std::getenv("XFER_TEST_QUICK") ? 1 : 2;
    for (const Breaks &each : kRailEnds)
        for (uint64_t seed = 1; seed <= seeds; ++seed) {
            uint64_t lost = 0, steps = 0;
            for (bool met = true; met;) {
                const uint64_t k = ++steps;
                CAPTURE(each.name);
                CAPTURE(seed);
                CAPTURE(k);
                RdmaPair pair(seed, {.rails = 2, .personality = {.late_writes = true}});
                pair.lookup();
                REQUIRE(pair.until_up());
                met = false;
                RdmaStorm storm(pair, 8, 50'000);
                pair.adapters.on_step = [&, left = k]() mutable {
                    if (left == 0 || --left > 0) return;
                    met = true;
                    each.plan(pair, 0);
                };
                REQUIRE(storm.all_end());
                pair.adapters.on_step = nullptr;
                storm.check();
                lost += storm.lost();
                pair.mend(0);
                for (rdma::FakeAdapter *adapter : {pair.of[0], pair.of[2]})
                    pair.adapters.raise(*adapter, IBV_EVENT_PORT_ACTIVE);
                REQUIRE(pair.until_up());
                all_goes_by_them(pair);
                CHECK(pair.lost_connections() == 0);
            }
            CHECK(steps > 50);
            CHECK(lost > 20);
        }
}

namespace {

// What an adapter has done is told when the queue pair is gone, and its number another's.
constexpr FakePersonality kLate{.reuse_numbers = true, .late_completions = true};

}  // namespace

// The owner of memory does not say in time that its end is closed: this may cost the connection.
TEST_CASE("completions of queue pairs that are gone come late") {
    for (const bool nothing_done : {true, false}) {
        uint64_t late = 0, reused = 0, lost = 0;
        for (uint64_t seed = 1; seed <= 40; ++seed) {
            CAPTURE(nothing_done);
            CAPTURE(seed);
            RdmaPair pair(seed, {.rails = rails_of(seed), .personality = kLate});
            pair.lookup();
            REQUIRE(pair.until_up());
            SimAdapters &adapters = pair.adapters;
            for (const auto each : {rdma::Violation::busy_pair, rdma::Violation::unpolled})
                adapters.fabric.allow(each);
            const auto before = numbers_of(pair, 0);
            RdmaStorm storm(pair, kOps, kSpanNs);
            storm.may_end.insert(XFER_ECANCELED);
            pair.world.run_for(pair.world.random(kSpanNs));
            (nothing_done ? adapters.stalled : adapters.silent) = true;
            for (rdma::FakeAdapter *adapter : pair.of)
                adapters.raise(*adapter, IBV_EVENT_QP_FATAL);
            pair.world.run_for(kSecond / 2);
            for (ibv_qp *each : adapters.fabric.pairs())
                late += adapters.fabric.held(each) > 0;
            pair.world.run_for(2 * kSecond);  // nobody waits as long for what is flushed
            adapters.stalled = adapters.silent = false;
            adapters.go_on();
            pair.world.run_for(kSecond);
            for (Host *host : {pair.a.get(), pair.b.get()})
                if (pair.lost_connections() > 0) storm.give_up(*host);
            REQUIRE(storm.all_end());
            storm.check();
            lost += storm.lost();
            REQUIRE(pair.until_up());
            const auto after = numbers_of(pair, 0);
            reused += std::any_of(after.begin(), after.end(),
                                  [&](uint32_t number) { return before.contains(number); });
            all_goes_by_them(pair);
        }
        CHECK(reused == 40);
        CHECK(late > 40);
        CHECK(lost > 40);
    }
}

TEST_CASE("an engine ends in the middle of a storm") {
    for (const uint32_t rails : {1u, 2u})
        for (uint64_t after = 0; after < 400'000; after += 5'000) {
            CAPTURE(rails);
            CAPTURE(after);
            RdmaPair pair(1 + after, {.rails = rails, .loops = loops_of(after / 5'000)});
            pair.lookup();
            if (after % 20'000) REQUIRE(pair.until_up());
            RdmaStorm storm(pair, kOps, kSpanNs);
            storm.may_end = {XFER_OK, XFER_EPEERLOST, XFER_ECLOSED, XFER_ECANCELED};
            pair.world.run_for(after);
            Host &first = after % 10'000 ? *pair.a : *pair.b;
            first.end();
            Host &other = &first == pair.a.get() ? *pair.b : *pair.a;
            pair.world.run_for(kSecond);
            storm.check_told(other);
            storm.give_up(other);
            other.end();
        }
}
