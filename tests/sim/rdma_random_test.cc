// SPDX-License-Identifier: Apache-2.0
// Whole engines over adapters of fake verbs, and whatever can go wrong with these, at moments that
// the seed chooses, while everything is moved and memory comes and goes.
#include <cerrno>

#include "rdma_pair.h"

using namespace xfer;
using rdma::FakeCall;
using rdma::FakeCut;

namespace {

// Faults at random moments, until end().
class Faults {
public:
    Faults(RdmaPair &both, bool with_cuts) : pair_(both), cuts_channels_(with_cuts) { next(); }
    ~Faults() { *over_ = true; }
    Faults(const Faults &) = delete;
    Faults &operator=(const Faults &) = delete;

    void end() {
        *over_ = true;
        SimAdapters &adapters = pair_.adapters;
        adapters.fabric.fail_post(0, 0, 0);
        for (const FakeCall call : kCalls)
            adapters.fabric.fail_call(call, 0, 0);
        for (const ibv_qp_state to : kStates)
            adapters.fabric.fail_modify(to, 0, 0);
        for (uint32_t rail = 0; rail < pair_.rails; ++rail)
            pair_.mend(rail);
        for (rdma::FakeAdapter *adapter : pair_.of)
            adapters.raise(*adapter, IBV_EVENT_PORT_ACTIVE);
    }

private:
    // What fails for good when it fails once is left out: a registration, a queue's arming.
    static constexpr FakeCall kCalls[] = {FakeCall::alloc_mw, FakeCall::dealloc_mw,
                                          FakeCall::create_qp, FakeCall::create_cq,
                                          FakeCall::post_recv};
    static constexpr ibv_qp_state kStates[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    static constexpr ibv_wc_status kEnds[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
                                              IBV_WC_LOC_QP_OP_ERR, IBV_WC_REM_OP_ERR,
                                              IBV_WC_FATAL_ERR};

    uint64_t random(uint64_t below) { return pair_.world.random(below); }
    template <typename T, size_t N>
    T one_of(const T (&all)[N]) {
        return all[random(N)];
    }
    rdma::FakeAdapter &some_adapter() { return *pair_.of[random(pair_.of.size())]; }
    template <typename Call>
    void later(uint64_t most, Call call) {
        pair_.world.post(random(most), [call, over = over_] {
            if (!*over) call();
        });
    }
    void next() {
        later(400'000, [this] {
            fault();
            next();
        });
    }
    void fault() {
        rdma::FakeFabric &fabric = pair_.adapters.fabric;
        const auto k = static_cast<unsigned>(1 + random(20));
        switch (random(cuts_channels_ ? 9 : 8)) {
        case 0:
            return fabric.fail_request(nullptr, k, one_of(kEnds));
        case 1:
            return fabric.fail_post(k, static_cast<unsigned>(random(3)), random(2) ? EIO : ENOMEM);
        case 2:
            return fabric.fail_call(one_of(kCalls), k, ENOMEM);
        case 3:
            return fabric.fail_modify(one_of(kStates), k, EIO);
        case 4:
            return cut_rail();
        case 5:
            return pair_.adapters.raise(some_adapter(), IBV_EVENT_QP_FATAL);
        case 6:
            return take_port_down();
        case 7:
            return stop(random(2) ? pair_.a->loop : pair_.b->loop);
        default:
            return pair_.net.cut_all();
        }
    }
    void cut_rail() {
        const auto rail = static_cast<uint32_t>(random(pair_.rails));
        pair_.cut(rail, random(2) ? FakeCut::requests : FakeCut::answers);
        later(3 * kNsPerMs, [this, rail] { pair_.mend(rail); });
    }
    void take_port_down() {
        rdma::FakeAdapter &adapter = some_adapter();
        pair_.adapters.raise(adapter, IBV_EVENT_PORT_ERR);
        later(5 * kNsPerMs,
              [this, &adapter] { pair_.adapters.raise(adapter, IBV_EVENT_PORT_ACTIVE); });
    }
    // Its engine does nothing for a while, and the adapters go on.
    void stop(SimLoop &loop) {
        pair_.world.freeze(loop);
        pair_.world.post(random(10 * kNsPerMs), [this, &loop] { pair_.world.thaw(loop); });
    }

    RdmaPair &pair_;
    const bool cuts_channels_;
    std::shared_ptr<bool> over_ = std::make_shared<bool>(false);
};

// Memory of one end that is lent, as a region and as a grant of its half, written by the other end,
// and taken back meanwhile: from then on nothing lands there.
class Lent {
public:
    Lent(RdmaPair &both, bool of_a, uint64_t span_ns)
        : pair_(both),
          owner_(of_a ? *both.a : *both.b),
          user_(of_a ? *both.b : *both.a),
          ep_(of_a ? both.back : both.there) {
        xfer_region_options_t lent{};
        lent.size = sizeof lent;
        lent.access = XFER_READ | XFER_WRITE;
        REQUIRE(xfer_region_open(owner_.engine, &lent, memory_.data(), memory_.size(), &region_,
                                 nullptr) == XFER_OK);
        REQUIRE(xfer_region_ref(region_, &whole_) == XFER_OK);
        xfer_grant_options_t half{};
        half.size = sizeof half;
        half.access = XFER_WRITE;
        half.length = kHalf;
        half.lease_ms = XFER_NONE;
        REQUIRE(xfer_region_grant(region_, &half, &part_, nullptr) == XFER_OK);
        for (uint64_t i = 0; i < kPuts; ++i)
            pair_.world.post(pair_.world.random(span_ns), [this] { put(); });
        pair_.world.post(pair_.world.random(span_ns), [this] { revoke(); });
        pair_.world.post(span_ns / 2 + pair_.world.random(span_ns / 2), [this] { close(); });
    }
    // Told by the owner.
    void on_event(const xfer_event_t &event) {
        rdma::FakeFabric &fabric = pair_.adapters.fabric;
        if (event.object != region_) return;
        if (event.kind == XFER_EVENT_REVOKED) {
            revoked_ = true;
            CHECK_FALSE(fabric.has_bound(memory_.data(), kHalf));
        }
        if (event.kind != XFER_EVENT_CLOSED) return;
        CHECK(revoked_);
        CHECK_FALSE(fabric.has_registered(memory_.data(), memory_.size()));
        closed_ = true;
        then_ = memory_;
    }
    bool is_over() const { return closed_ && puts_ == kPuts; }
    void check() {
        CHECK(memory_ == then_);
        for (const uint64_t user : users_) {
            const Status status = user_.done.at(user).status;
            CAPTURE(status);
            CHECK((status == XFER_OK || status == XFER_EPEERLOST || status == XFER_ESTALE ||
                   status == XFER_EREVOKED));
            taken_back += status == XFER_ESTALE || status == XFER_EREVOKED;
        }
    }

    uint64_t taken_back = 0;
    bool was_bound = false, was_registered = false;

private:
    static constexpr uint64_t kHalf = 30'000, kPuts = 12;

    void put() {
        ++puts_;
        was_bound |= pair_.adapters.fabric.has_bound(memory_.data(), kHalf);
        was_registered |= pair_.adapters.fabric.has_registered(memory_.data(), kHalf);
        const bool grant = pair_.world.random(2);
        users_.push_back(++pair_.last_user);
        user_.expect(users_.back());
        REQUIRE(xfer_put(ep_, data_.data(), grant ? &part_ : &whole_, 0,
                         1 + pair_.world.random(grant ? kHalf : 2 * kHalf), users_.back(),
                         nullptr) == XFER_OK);
    }
    // The end of its region is that of a grant.
    void revoke() {
        if (!closing_) REQUIRE(xfer_region_revoke(region_, &part_) == XFER_OK);
    }
    void close() {
        closing_ = true;
        REQUIRE(xfer_region_close(region_) == XFER_OK);
    }

    RdmaPair &pair_;
    Host &owner_, &user_;
    xfer_ep_t *const ep_;
    std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kHalf), then_;
    const std::vector<uint8_t> data_ = std::vector<uint8_t>(2 * kHalf, 9);
    xfer_region_t *region_ = nullptr;
    xfer_ref_t whole_{}, part_{};
    uint64_t puts_ = 0;
    std::vector<uint64_t> users_;
    bool revoked_ = false, closing_ = false, closed_ = false;
};

constexpr uint64_t kOps = 24, kSpanNs = 5 * kNsPerMs;

// Whatever was lost with a connection is given up.
void let_end(RdmaPair &pair, RdmaStorm &storm) {
    if (!storm.all_end(5 * kSecond)) {
        CHECK(pair.lost_connections() > 0);
        for (Host *host : {pair.a.get(), pair.b.get()})
            storm.give_up(*host);
    }
    REQUIRE(storm.all_end());
    storm.check();
}

// What came about, in all runs.
struct Seen {
    uint64_t lost = 0, taken_back = 0, bound = 0, registered = 0;
    void add(const Lent &lent) {
        taken_back += lent.taken_back;
        bound += lent.was_bound;
        registered += lent.was_registered;
    }
};

void one_storm(RdmaPair &pair, Faults &faults, bool last, Seen &seen) {
    RdmaStorm storm(pair, kOps, kSpanNs);
    storm.may_end.insert(XFER_ECANCELED);
    Lent of_a(pair, true, kSpanNs), of_b(pair, false, kSpanNs);
    pair.a->on_other = [&](const xfer_event_t &event) { of_a.on_event(event); };
    pair.b->on_other = [&](const xfer_event_t &event) { of_b.on_event(event); };
    pair.world.run_for(kSpanNs + 2 * kNsPerMs);
    if (last) faults.end();
    let_end(pair, storm);
    const auto quiet = [&] {
        return of_a.is_over() && of_b.is_over() && pair.a->pending + pair.b->pending == 0;
    };
    CHECK(pair.world.run_until(quiet, kBeforeStall));
    pair.a->on_other = pair.b->on_other = nullptr;
    of_a.check(), of_b.check();
    seen.lost += storm.lost();
    seen.add(of_a), seen.add(of_b);
}

void run(uint64_t seed, Seen &seen) {
    const bool cuts = seed % 4 == 0;
    RdmaPair pair(seed, {.rails = 1 + static_cast<uint32_t>(seed % 2),
                         .loops = 1 + static_cast<uint32_t>(seed % 3),
                         .windows = seed % 5 != 0,
                         .personality = {.late_writes = seed % 7 != 0}});
    pair.lookup();
    if (seed % 3) REQUIRE(pair.until_up());
    Faults faults(pair, cuts);
    one_storm(pair, faults, false, seen);
    one_storm(pair, faults, true, seen);
    REQUIRE(pair.until_up());
    if (!cuts) CHECK(pair.lost_connections() == 0);
    RdmaStorm storm(pair, kOps, kSpanNs);
    REQUIRE(storm.all_end());
    storm.check();
    CHECK(storm.lost() == 0);
}

}  // namespace

TEST_CASE("whatever goes wrong, at any moment") {
    // XFER_SIM_SEED is the first one, and alone without XFER_SIM_COUNT.
    const char *const first = std::getenv("XFER_SIM_SEED"), *count = std::getenv("XFER_SIM_COUNT");
    const uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
    const uint64_t usual = first ? 1 : std::getenv("XFER_TEST_QUICK") ? 20 : 100;
    const uint64_t runs = count ? std::strtoull(count, nullptr, 10) : usual;
    Seen seen;
    for (uint64_t seed = begin; seed < begin + runs; ++seed) {
        CAPTURE(seed);
        run(seed, seen);
    }
    if (runs < 100) return;
    CHECK(seen.lost > 2 * runs);
    CHECK(seen.taken_back > 10 * runs);
    CHECK(seen.bound > runs / 20);
    CHECK(seen.registered > runs / 2);
}
