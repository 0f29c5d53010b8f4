// SPDX-License-Identifier: Apache-2.0
// Fake adapters on a random walk beside a model: memory, order of completions, slots, and flushes.
#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <utility>

#include "fake_verbs.h"
#include "fake_verbs_ends.h"

using namespace xfer::rdma;

namespace {

constexpr uint32_t kBytes = 4096, kSlots = 12, kReceives = 6;

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }

private:
    std::mt19937 engine_;
};

struct Expected {
    uint64_t wr_id;
    ibv_wc_status status;
};

// What the model knows of one end.
struct Side {
    struct Posted {
        ibv_send_wr request;
        std::vector<std::pair<uint32_t, uint32_t>> pieces;  // offset, length
        std::vector<uint8_t> inlined;
        uint32_t at;  // offset at the other end
        bool signaled;
    };
    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
    std::deque<Posted> posted;      // not executed
    std::deque<uint64_t> receives;  // not used
    uint32_t sends_out = 0;         // slots that are taken
    uint32_t receives_out = 0;
    std::deque<std::pair<Expected, uint32_t>> sends_due;  // and how many slots come back with it
    std::deque<Expected> receives_due;
    uint32_t unsignaled = 0;  // executed since the last completion
    bool in_error = false;
};

// Two ends that are connected, broken and made anew, and the model of both.
class Walk {
public:
    Walk(FakeFabric &fabric, FakeAdapter &here, FakeAdapter &there, unsigned seed)
        : fabric_(fabric), random_(seed), adapters_{&here, &there} {
        for (size_t i = 0; i < 2; ++i)
            for (uint32_t k = 0; k < kBytes; ++k)
                sides_[i].memory[k] = static_cast<uint8_t>(random_.below(256));
        open();
    }

    void step() {
        const size_t from = random_.below(2);
        switch (random_.below(16)) {
        default:
            post(from);
            break;
        case 6:
        case 7:
            receive(from);
            break;
        case 8:
        case 9:
        case 10:
        case 11:
        case 12:
            execute(from);
            break;
        case 13:
        case 14:
            poll(from);
            break;
        case 15:
            if (random_.below(20) == 0) fail(from);
            break;
        }
        if (sides_[0].in_error && sides_[1].in_error) reopen();
    }
    // Ends both as a program does, and nothing is left.
    void close() {
        for (size_t i = 0; i < 2; ++i)
            fail(i);
        while (execute(0) || execute(1)) {}
        for (size_t i = 0; i < 2; ++i) {
            while (poll(i)) {}
            CHECK(sides_[i].sends_due.empty());
            CHECK(sides_[i].receives_due.empty());
            CHECK(sides_[i].receives_out == 0);
        }
        ends_[0].reset(), ends_[1].reset();
    }
    bool same_memory() const {
        for (size_t i = 0; i < 2; ++i)
            if (ends_[i]->bytes != sides_[i].memory) return false;
        return true;
    }
    uint64_t executed = 0, reopened = 0;

private:
    void open() {
        for (size_t i = 0; i < 2; ++i) {
            ends_[i] = std::make_unique<FakeEnd>(
                *adapters_[i], FakeDepths{.sends = kSlots, .receives = kReceives});
            ends_[i]->bytes = sides_[i].memory;
            verbs.dereg_mr(ends_[i]->region);
            ends_[i]->region =
                verbs.reg_mr(ends_[i]->domain, ends_[i]->bytes.data(), kBytes, kAllAccess);
            ends_[i]->psn = random_.below(1 << 24);
        }
        REQUIRE(ends_[0]->connect(*ends_[1]) == 0);
        REQUIRE(ends_[1]->connect(*ends_[0]) == 0);
    }
    void reopen() {
        close();
        for (Side &side : sides_) {
            auto memory = std::move(side.memory);
            side = {};
            side.memory = std::move(memory);
        }
        open();
        ++reopened;
    }

    void post(size_t from) {
        Side &side = sides_[from];
        static constexpr ibv_wr_opcode kOpcodes[] = {
            IBV_WR_RDMA_WRITE,          IBV_WR_RDMA_WRITE,
            IBV_WR_RDMA_READ,           IBV_WR_SEND,
            IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD,
            IBV_WR_ATOMIC_CMP_AND_SWP};
        const ibv_wr_opcode opcode = kOpcodes[random_.below(std::size(kOpcodes))];
        const bool atomic =
            opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        Side::Posted posted{};
        posted.signaled = random_.below(3) == 0;
        ibv_sge pieces[3];
        const uint32_t count = atomic ? 1 : 1 + random_.below(3);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t length = atomic ? 8 : random_.below(20);
            // Those of one request do not overlap: the order of their bytes is not defined.
            posted.pieces.emplace_back(i * kThird + random_.below(kThird - 20), length);
            pieces[i] = ends_[from]->piece(posted.pieces.back().first, length);
        }
        posted.at = random_.below((kBytes - 64) / 8) * 8;
        ibv_send_wr request = ends_[from]->request(opcode, pieces, *ends_[1 - from], posted.at);
        request.num_sge = static_cast<int>(count);
        request.send_flags = posted.signaled ? IBV_SEND_SIGNALED : 0;
        request.imm_data = 5;
        if (atomic) {
            // Half of the comparisons hold.
            std::memcpy(&request.wr.atomic.compare_add, sides_[1 - from].memory.data() + posted.at,
                        8);
            if (random_.below(2) == 0) request.wr.atomic.compare_add = random_.below(1000);
            request.wr.atomic.swap = random_.below(1 << 30);
        } else if (opcode != IBV_WR_RDMA_READ && random_.below(2) == 0) {
            request.send_flags |= IBV_SEND_INLINE;
            for (const auto &[offset, length] : posted.pieces)
                posted.inlined.insert(posted.inlined.end(), side.memory.begin() + offset,
                                      side.memory.begin() + offset + length);
        }
        const bool full = side.sends_out == kSlots;
        posted.request = request;
        CHECK((ends_[from]->post(request) == ENOMEM) == full);
        if (full) {
            CHECK(fabric_.took(Violation::send_full));
            // Slots without a completion behind them do not come back: only a new one helps.
            if (side.posted.empty() && side.sends_due.empty()) fail(from), fail(1 - from);
            return;
        }
        ++side.sends_out;
        side.posted.push_back(std::move(posted));
    }

    void receive(size_t at) {
        Side &side = sides_[at];
        if (side.receives_out == kReceives) return;
        const uint64_t id = ++last_receive_;
        REQUIRE(ends_[at]->receive(id, ends_[at]->piece(kReceiveOffset, 64)) == 0);
        side.receives.push_back(id);
        ++side.receives_out;
    }

    bool execute(size_t from) {
        Side &side = sides_[from];
        const bool stepped = fabric_.step(ends_[from]->pair);
        if (side.posted.empty()) {
            const bool flushes = side.in_error && !side.receives.empty();
            CHECK(stepped == flushes);
            if (flushes) end_receive(side, IBV_WC_WR_FLUSH_ERR);
            return stepped;
        }
        CHECK(stepped);
        ++executed;
        const Side::Posted posted = std::move(side.posted.front());
        side.posted.pop_front();
        const ibv_wc_status status = apply(side, sides_[1 - from], posted);
        ++side.unsignaled;
        if (status != IBV_WC_SUCCESS) side.in_error = true;
        if (posted.signaled || status != IBV_WC_SUCCESS)
            side.sends_due.push_back(
                {{posted.request.wr_id, status}, std::exchange(side.unsignaled, 0)});
        return true;
    }

    static void end_receive(Side &side, ibv_wc_status status) {
        side.receives_due.push_back({side.receives.front(), status});
        side.receives.pop_front();
    }

    ibv_wc_status apply(Side &side, Side &other, const Side::Posted &posted) {
        if (side.in_error) return IBV_WC_WR_FLUSH_ERR;
        if (other.in_error) return IBV_WC_RETRY_EXC_ERR;
        std::vector<uint8_t> bytes = posted.inlined;
        if (!(posted.request.send_flags & IBV_SEND_INLINE))
            for (const auto &[offset, length] : posted.pieces)
                bytes.insert(bytes.end(), side.memory.begin() + offset,
                             side.memory.begin() + offset + length);
        uint8_t *remote = other.memory.data() + posted.at;
        uint64_t old, now;
        std::memcpy(&old, remote, 8);
        switch (posted.request.opcode) {
        case IBV_WR_SEND:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            if (other.receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
            end_receive(other, IBV_WC_SUCCESS);
            if (posted.request.opcode == IBV_WR_SEND) remote = other.memory.data() + kReceiveOffset;
            [[fallthrough]];
        case IBV_WR_RDMA_WRITE:
            std::copy(bytes.begin(), bytes.end(), remote);
            return IBV_WC_SUCCESS;
        case IBV_WR_RDMA_READ:
            bytes.assign(remote, remote + bytes.size());
            break;
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            now = old + posted.request.wr.atomic.compare_add;
            std::memcpy(remote, &now, 8);
            bytes.resize(8), std::memcpy(bytes.data(), &old, 8);
            break;
        default:
            now = old == posted.request.wr.atomic.compare_add ? posted.request.wr.atomic.swap : old;
            std::memcpy(remote, &now, 8);
            bytes.resize(8), std::memcpy(bytes.data(), &old, 8);
            break;
        }
        auto next = bytes.begin();
        for (const auto &[offset, length] : posted.pieces) {
            std::copy(next, next + length, side.memory.begin() + offset);
            next += length;
        }
        return IBV_WC_SUCCESS;
    }

    bool poll(size_t at) {
        Side &side = sides_[at];
        const auto entries = ends_[at]->poll(1 + static_cast<int>(random_.below(4)));
        for (const ibv_wc &entry : entries) {
            if (entry.wr_id < kFirstReceive) {
                REQUIRE_FALSE(side.sends_due.empty());
                CHECK(side.sends_due.front().first.wr_id == entry.wr_id);
                CHECK(side.sends_due.front().first.status == entry.status);
                side.sends_out -= side.sends_due.front().second;
                side.sends_due.pop_front();
                continue;
            }
            REQUIRE_FALSE(side.receives_due.empty());
            CHECK(side.receives_due.front().wr_id == entry.wr_id);
            CHECK(side.receives_due.front().status == entry.status);
            --side.receives_out;
            side.receives_due.pop_front();
        }
        return !entries.empty();
    }

    void fail(size_t at) {
        REQUIRE(ends_[at]->modify(IBV_QPS_ERR) == 0);
        sides_[at].in_error = true;
    }

    static constexpr uint32_t kReceiveOffset = kBytes - 64, kThird = kBytes / 3;
    static constexpr uint64_t kFirstReceive = uint64_t{1} << 32;  // apart from those of sends
    const Verbs &verbs = FakeFabric::verbs();
    FakeFabric &fabric_;
    Random random_;
    FakeAdapter *const adapters_[2];
    std::unique_ptr<FakeEnd> ends_[2];
    Side sides_[2];
    uint64_t last_receive_ = kFirstReceive;
};

}  // namespace

TEST_CASE("a random walk does as its model") {
    for (const FakePersonality &personality :
         {FakePersonality::strict(), FakePersonality::reuses_numbers()}) {
        FakeFabric fabric(personality);
        FakeAdapter &here = fabric.add(), &there = fabric.add({.mtu = IBV_MTU_1024});
        {
            Walk walks[] = {{fabric, here, there, 1},
                            {fabric, here, there, 2},
                            {fabric, there, here, 3},
                            {fabric, here, here, 4}};
            std::mt19937 turn(5);
            for (int i = 0; i < 100'000; ++i) {
                Walk &walk = walks[turn() % std::size(walks)];
                walk.step();
                if (i % 16 == 0) REQUIRE(walk.same_memory());
            }
            for (Walk &walk : walks) {
                CHECK(walk.same_memory());
                walk.close();
                CHECK(walk.executed > 3000);
                CHECK(walk.reopened > 20);
            }
        }
        CHECK(fabric.live() == FakeCounts{});
        CHECK(fabric.report() == "");
    }
}
