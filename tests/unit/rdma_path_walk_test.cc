// SPDX-License-Identifier: Apache-2.0
// A random walk over a path, beside a model of both memories: operations, cancels, withdrawals,
// faults and ends, in any order, with adapters that move on in between. XFER_WALK_SEED and
// XFER_WALK_ROUNDS choose which, and how many; as they are by default, each fault has to come
// about.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <utility>

#include "rdma_paths.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kRegion = 7, kLocal = 1;
constexpr uint8_t kScribble = 0xee;  // what no operation brings
constexpr uint32_t kInline = 64;
constexpr uint64_t kDrainMs = 1'100;         // of a path, for an adapter that tells nothing
constexpr size_t kSlot = 2048, kSlots = 64;  // of an operation, on both sides

unsigned number_of(const char *name, unsigned otherwise) {
    const char *text = std::getenv(name);
    return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

constexpr ibv_wc_status kErrors[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                     IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, IBV_WC_GENERAL_ERR};
// Of what makes a path.
constexpr FakeCall kCalls[] = {FakeCall::create_comp_channel,
                               FakeCall::create_cq,
                               FakeCall::create_qp,
                               FakeCall::reg_mr,
                               FakeCall::alloc_mw,
                               FakeCall::dealloc_mw,
                               FakeCall::req_notify_cq};
constexpr FakePost kPosts[] = {FakePost::no_room, FakePost::none, FakePost::some, FakePost::all};
constexpr FakeHold kHolds[] = {FakeHold::completion};
constexpr ibv_qp_state kStates[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
constexpr FakeCut kCuts[] = {FakeCut::requests, FakeCut::answers};
constexpr ibv_event_type kEvents[] = {
    IBV_EVENT_PORT_ERR,      IBV_EVENT_PORT_ACTIVE, IBV_EVENT_QP_FATAL,    IBV_EVENT_QP_REQ_ERR,
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_CQ_ERR,      IBV_EVENT_DEVICE_FATAL};

struct Flight {
    TestOp op;
    size_t slot = 0;
    Octets local, remote;  // of its slot when it was posted
    bool quiet = false;    // its memory here was given back by a cancel
    bool over = false;
};

class Walk {
public:
    Walk(unsigned seed, MetFaults &met)
        : random_(seed),
          met_(met),
          registered_(pick(2)),
          paths_(personality(), options(), options()),
          local_(kSlot * kSlots),
          remote_(kSlot * kSlots) {
        for (uint8_t &byte : local_)
            byte = static_cast<uint8_t>(random_() % kScribble);
        fill(remote_, seed + 1);
        paths_.near->on_op = [this](Op &op) { on_over(op); };
        if (registered_) paths_.inside([&] { paths_.near->add_region(kLocal, local_); });
        paths_.inside([&] { paths_.far->add_region(kRegion, remote_); });
        start();
    }
    ~Walk() {
        if (pick(2)) raise(pick(2) ? *paths_.near : *paths_.far, IBV_EVENT_DEVICE_FATAL);
        finish();
        paths_.near->on_op = nullptr;
        add_met(met_, paths_.fabric);
    }

    void step() {
        switch (pick(16)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            return post();
        case 5:
            return cancel();
        case 6:
            return pick(8) ? void() : withdraw();
        case 7:
            return pick(2) ? void() : fault();
        case 8:
            return pick(12) ? void() : restart();
        case 9:
            if (pick(2))
                paths_.stalled = !paths_.stalled;
            else
                hold(!held_);
            return;
        case 10:
            return paths_.step();
        default:
            for (unsigned i = pick(6); i > 0; --i)
                paths_.fabric.step();
            return paths_.step();
        }
    }
    size_t posted = 0, well = 0, lost = 0, canceled = 0, declined = 0, falls = 0;

private:
    unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }
    FakePersonality personality() {
        const bool reuses = pick(2);
        const bool late = pick(2);
        return {.reuse_numbers = reuses, .null_bad_wr = pick(2) == 0, .late_reads = late};
    }
    FakeAdapterOptions options() {
        FakeAdapterOptions made;
        made.granted_sends = 2 + pick(12);
        made.inline_bytes = pick(2) ? 0 : kInline;
        return made;
    }

    void hold(bool on) {
        held_ = on;
        paths_.fabric.hold_completions(on);
    }
    void let_go() {
        paths_.stalled = false;
        hold(false);
    }
    void start() {
        let_go();
        do  // a fault may meet it
            close();
        while (!try_start());
        paths_.near->dropped.clear();
        const size_t begun = paths_.far->begun.size();
        CHECK(begun <= kSlots);
        paths_.far->begun.clear();
        for (int i = 0; i < 3; ++i)
            paths_.own->turn(kNsPerMs / 4);
    }
    bool try_start() {
        if (paths_.begin() != XFER_OK) {
            paths_.step();  // its port may be about to come up
            return false;
        }
        REQUIRE(paths_.until(
            [this] { return paths_.both_ready() || paths_.near->ended || paths_.far->ended; }));
        return paths_.both_ready() && paths_.try_import(*paths_.far, kRegion);
    }
    // An adapter that tells nothing any more is waited for by the path, and not by this test.
    template <typename Condition>
    void await(Condition condition) {
        for (int i = 0; i < 20 && !condition(); ++i)
            paths_.step();
        if (!condition()) paths_.skip(kDrainMs);
        REQUIRE(paths_.until(condition));
    }
    void close() {
        paths_.close(*paths_.near);
        paths_.close(*paths_.far);
        await([this] { return paths_.near->is_over() && paths_.far->is_over(); });
        paths_.release();
    }
    // Whatever is under way ends; then both memories are as the operations that ended well say.
    void finish() {
        let_go();
        await([this] { return paths_.near->posted.empty(); });
        close();
        for (const auto &flight : flights_)
            if (!flight->over) FAIL_CHECK("an operation never ended");
        flights_.clear();
        std::fill(std::begin(taken_), std::end(taken_), false);
    }
    void restart() {
        paths_.stalled = pick(2);
        if (pick(2)) paths_.close(pick(2) ? *paths_.near : *paths_.far);
        for (unsigned i = pick(5); i > 0; --i)
            paths_.step();
        finish();
        ++falls;
        start();
    }
    void post() {
        if (is_down()) return restart();
        if (!paths_.near->imports.count(kRegion) && !paths_.try_import(*paths_.far, kRegion))
            return;
        const size_t slot = pick(kSlots);
        if (taken_[slot]) return;
        auto made = std::make_unique<Flight>();
        Flight &flight = *made;
        flight.slot = slot;
        const size_t at = slot * kSlot;
        std::vector<Piece> pieces;
        size_t local = at, offset = at;
        for (unsigned i = 1 + pick(pick(2) ? 3 : 30); i > 0; --i) {
            const uint64_t length = pick(pick(8) ? 60 : 1);
            if (std::max(local, offset) + length > at + kSlot) break;
            pieces.push_back({address(local_.data()) + local, offset, length});
            local += length + (pick(3) ? 0 : 1 + pick(5));
            offset += length + (pick(3) ? 0 : 1 + pick(5));
            if (std::max(local, offset) >= at + kSlot) break;
        }
        if (pieces.empty()) return;
        flight.op.make(pick(2) ? Dir::put : Dir::get, kRegion, pieces);
        if (pick(3) == 0) flight.op.remote.notification = ++notification_;
        flight.local = slot_of(local_, slot), flight.remote = slot_of(remote_, slot);
        const bool flushes = pick(3) > 0;  // else the next one does, or the loop
        const bool took = paths_.inside(
            [&] { return flushes ? paths_.near->post(flight.op) : paths_.near->queue(flight.op); });
        if (!took) return;
        taken_[slot] = true;
        ++posted;
        flights_.push_back(std::move(made));
    }
    void cancel() {
        for (const auto &flight : flights_) {
            if (flight->over || flight->quiet || flight->op.unwanted || pick(3)) continue;
            TestOp &op = flight->op;
            const bool quiet = paths_.inside([&] { return paths_.near->cancel(op); });
            op.unwanted = true;
            if (!registered_ && op.bytes > kInline) CHECK(quiet);
            if (!quiet) return;
            flight->quiet = true;
            scribble(*flight);
            return;
        }
    }
    void withdraw() {
        if (is_down()) return;
        const size_t before = paths_.near->dropped.size();
        const bool quiet = paths_.inside([&] { return paths_.near->withdraw(kRegion); });
        if (quiet) return;
        let_go();
        REQUIRE(
            paths_.until([&] { return is_down() || paths_.near->dropped.size() == before + 1; }));
    }
    void fault() {
        switch (pick(10)) {
        case 0:
        case 1:
        case 2:
            return fail_post();
        case 3:
        case 4:
            return fail_call(kCalls[pick(std::size(kCalls))]);
        case 5:
            return fail_transition(kStates[pick(std::size(kStates))]);
        case 6:
            return cut(kCuts[pick(std::size(kCuts))]);
        case 7:
            return paths_.fabric.fail_request(nullptr, 1 + pick(9),
                                              kErrors[pick(std::size(kErrors))]);
        default:
            return raise(pick(2) ? *paths_.near : *paths_.far,
                         kEvents[pick(std::size(kEvents) - 1)]);
        }
    }
    void fail_post() {
        if (pick(2)) {  // so that there are slots
            let_go();
            paths_.step();
        }
        paths_.fabric.fail_post(1 + pick(2), pick(2) ? 0 : 1 + pick(2), pick(2) ? ENOMEM : EIO);
        for (unsigned i = 1 + pick(8); i > 0; --i)
            post();
        paths_.fabric.fail_post(0, 0, 0);
    }
    // A completion queue that can't be armed is not polled any more. Another one is only made when
    // that of before is in error.
    void fail_call(FakeCall call) {
        const bool makes_queue =
            call == FakeCall::create_comp_channel || call == FakeCall::create_cq;
        if (makes_queue) raise(pick(2) ? *paths_.near : *paths_.far, IBV_EVENT_CQ_ERR);
        paths_.fabric.fail_call(call, pick(8) ? 1 : 2, pick(2) ? ENOMEM : EPERM);
        restart();
        paths_.fabric.fail_call(call, 0, 0);
        if (call == FakeCall::req_notify_cq) paths_.fabric.took(Violation::unpolled);
    }
    void fail_transition(ibv_qp_state to) {
        paths_.fabric.fail_modify(to, 1 + pick(2), EINVAL);
        restart();
        paths_.fabric.fail_modify(to, 0, 0);
    }
    void cut(FakeCut what) {
        if (is_down()) return;
        paths_.fabric.cut(paths_.near->adapter, paths_.far->adapter, what);
        post();
        for (unsigned i = pick(12); i > 0; --i)
            paths_.fabric.step();
        paths_.fabric.mend(paths_.near->adapter, paths_.far->adapter);
    }
    void raise(Side &side, ibv_event_type type) {
        raise_event(paths_.fabric, side.adapter, type);
        for (unsigned i = pick(4); i > 0; --i)
            paths_.step();
        if (type == IBV_EVENT_PORT_ERR)
            raise_event(paths_.fabric, side.adapter, IBV_EVENT_PORT_ACTIVE);
    }
    bool is_down() const { return paths_.near->is_over() || paths_.near->down; }

    Octets slot_of(const Octets &of, size_t slot) const {
        const auto begin = of.begin() + static_cast<long>(slot * kSlot);
        return {begin, begin + kSlot};
    }
    void scribble(Flight &flight) {
        const auto begin = local_.begin() + static_cast<long>(flight.slot * kSlot);
        std::fill_n(begin, kSlot, kScribble);
        flight.local = Octets(kSlot, kScribble);
    }
    // What the slot has to be if all of it was done, with what was here when it was posted.
    Octets moved(const Flight &flight, const Octets &from, const Octets &to) const {
        Octets out = to;
        std::vector<Piece> pieces;
        flight.op.draw(pieces);
        const size_t at = flight.slot * kSlot;
        for (const Piece &piece : pieces) {
            const size_t here = piece.local - address(local_.data()) - at;
            const size_t there = piece.offset - at;
            const bool is_put = flight.op.dir == Dir::put;
            std::copy_n(&from[is_put ? here : there], piece.length, &out[is_put ? there : here]);
        }
        return out;
    }
    void on_over(Op &op) {
        for (const auto &each : flights_) {
            if (&each->op != &op || each->over) continue;
            return check(*each);
        }
        FAIL_CHECK("an operation that nobody has posted");
    }
    void check(Flight &flight) {
        flight.over = true;
        taken_[flight.slot] = false;
        const TestOp &op = flight.op;
        const Octets local = slot_of(local_, flight.slot), remote = slot_of(remote_, flight.slot);
        const bool is_put = op.dir == Dir::put;
        if (is_put || flight.quiet)
            CHECK(local == flight.local);
        else
            CHECK(remote == flight.remote);
        const auto done = std::exchange(paths_.near->done, {});
        const bool is_done = !done.empty();  // else declined
        const Status status = is_done ? done.back().status : XFER_EAGAIN;
        if (!is_done) {
            ++declined;
            CHECK(remote == flight.remote);
            CHECK(local == flight.local);
        } else if (status == XFER_OK) {
            ++well;
            if (is_put && !flight.quiet)
                CHECK(remote == moved(flight, flight.local, flight.remote));
            if (!is_put && !flight.quiet)
                CHECK(local == moved(flight, flight.remote, flight.local));
            if (op.bytes > 0) CHECK_FALSE(flight.quiet);
        } else {
            ++(flight.quiet ? canceled : lost);
            if (!op.sent) CHECK(remote == flight.remote);
            if (flight.quiet && is_put)
                for (size_t i = 0; i < kSlot; ++i)
                    if (remote[i] == kScribble && flight.remote[i] != kScribble) {
                        FAIL_CHECK("read when it was quiet");
                        break;
                    }
        }
        // From here on the memory is somebody else's.
        const auto begin = local_.begin() + static_cast<long>(flight.slot * kSlot);
        for (size_t i = 0; i < kSlot; ++i)
            begin[static_cast<long>(i)] = static_cast<uint8_t>(random_() % kScribble);
        const auto there = remote_.begin() + static_cast<long>(flight.slot * kSlot);
        if (is_done && (status == XFER_OK || status == XFER_ECANCELED))
            for (size_t i = 0; i < kSlot; ++i)
                there[static_cast<long>(i)] = static_cast<uint8_t>(random_() % kScribble);
    }

    std::mt19937 random_;
    MetFaults &met_;
    const bool registered_;
    bool held_ = false;
    Paths paths_;
    Octets local_, remote_;
    std::vector<std::unique_ptr<Flight>> flights_;
    bool taken_[kSlots] = {};
    uint64_t notification_ = 0;
};

}  // namespace

TEST_CASE("a walk") {
    const unsigned first = number_of("XFER_WALK_SEED", 1),
                   rounds = number_of("XFER_WALK_ROUNDS", 40);
    MetFaults met;
    for (unsigned seed = first; seed < first + rounds; ++seed) {
        CAPTURE(seed);
        Walk walk(seed, met);
        for (int i = 0; i < 600; ++i)
            walk.step();
        MESSAGE("seed ", seed, ": ", walk.posted, " operations, ", walk.well, " well, ", walk.lost,
                " lost, ", walk.canceled, " canceled, ", walk.declined, " declined, ", walk.falls,
                " falls");
    }
    if (std::getenv("XFER_WALK_SEED") || std::getenv("XFER_WALK_ROUNDS")) return;
    check_met(met, "call", kCalls);
    check_met(met, "transition to", kStates);
    check_met(met, "post", kPosts);
    check_met(met, "status", kErrors);
    check_met(met, "cut", kCuts);
    check_met(met, "hold", kHolds);
    check_met(met, "event", kEvents);
}
