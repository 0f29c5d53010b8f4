// SPDX-License-Identifier: Apache-2.0
// A random walk over a path, beside a model of both memories: operations, cancels, withdrawals,
// faults and ends, in any order, with adapters that move on in between. XFER_WALK_SEED and
// XFER_WALK_ROUNDS choose which, and how many.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "rdma_paths.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kRegion = 7, kLocal = 1;
constexpr uint8_t kScribble = 0xee;  // what no operation brings
constexpr uint32_t kInline = 64;
constexpr size_t kSlot = 2048, kSlots = 64;  // of an operation, on both sides

unsigned number_of(const char *name, unsigned otherwise) {
    const char *text = std::getenv(name);
    return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

struct Flight {
    TestOp op;
    size_t slot = 0;
    Octets local, remote;  // of its slot when it was posted
    bool quiet = false;    // its memory here was given back by a cancel
    bool over = false;
};

class Walk {
public:
    explicit Walk(unsigned seed)
        : random_(seed),
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
        finish();
        paths_.near->on_op = nullptr;
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
            return pick(6) ? void() : fault();
        case 8:
            return pick(12) ? void() : restart();
        case 9:
            paths_.stalled = !paths_.stalled;
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

    void start() {
        paths_.stalled = false;
        do {  // a fault of before may meet it
            paths_.close();
            REQUIRE(paths_.begin() == XFER_OK);
            REQUIRE(paths_.until(
                [this] { return paths_.both_ready() || paths_.near->ended || paths_.far->ended; }));
        } while (!paths_.both_ready() || !paths_.try_import(*paths_.far, kRegion));
        paths_.near->dropped.clear();
        const size_t begun = paths_.far->begun.size();
        CHECK(begun <= kSlots);
        paths_.far->begun.clear();
        for (int i = 0; i < 3; ++i)
            paths_.own->turn(kNsPerMs / 4);
    }
    // Whatever is under way ends; then both memories are as the operations that ended well say.
    void finish() {
        paths_.stalled = false;
        REQUIRE(paths_.until([&] { return paths_.near->posted.empty(); }));
        paths_.close();
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
        paths_.stalled = false;
        REQUIRE(
            paths_.until([&] { return is_down() || paths_.near->dropped.size() == before + 1; }));
    }
    void fault() {
        static constexpr ibv_wc_status kErrors[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                                    IBV_WC_GENERAL_ERR};
        if (pick(2)) return paths_.fabric.fail_request(nullptr, 1 + pick(9), kErrors[pick(3)]);
        // Not of a drain: no driver takes that and says that it does not.
        paths_.fabric.fail_post(1 + pick(2), pick(3), pick(2) ? ENOMEM : EIO);
        post();
        paths_.fabric.fail_post(0, 0, 0);
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
        const auto &done = paths_.near->done;
        const bool is_done = !done.empty() && done.back().op == &op;
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
    const bool registered_;
    Paths paths_;
    Octets local_, remote_;
    std::vector<std::unique_ptr<Flight>> flights_;
    bool taken_[kSlots] = {};
    uint64_t notification_ = 0;
};

}  // namespace

TEST_CASE("a walk") {
    const unsigned first = number_of("XFER_WALK_SEED", 1),
                   rounds = number_of("XFER_WALK_ROUNDS", 20);
    for (unsigned seed = first; seed < first + rounds; ++seed) {
        CAPTURE(seed);
        Walk walk(seed);
        for (int i = 0; i < 600; ++i)
            walk.step();
        MESSAGE("seed ", seed, ": ", walk.posted, " operations, ", walk.well, " well, ", walk.lost,
                " lost, ", walk.canceled, " canceled, ", walk.declined, " declined, ", walk.falls,
                " falls");
    }
}
