// SPDX-License-Identifier: Apache-2.0
// A queue pair and its send queue, on a port that is as strict as an adapter.
#include "transport/rdma/queue_pair.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <random>
#include <set>
#include <vector>

#include "fake_queue_pair.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr uint32_t kGeneration = 5, kSequence = 0x123456;

QueuePairParameters other_end() {
    QueuePairParameters made;
    made.address = {LinkLayer::ethernet, 0, {}, IBV_MTU_1024};
    made.address.gid.raw[15] = 2;
    made.number = 0x815;
    made.sequence_number = 0x777777;
    made.reads_in = 4;
    return made;
}

struct AnyKey final : LocalKeys {
    Key look(uint64_t) const override { return {1, UINT64_MAX}; }
};

struct Fixture {
    explicit Fixture(uint32_t requests = 25) {
        options.requests = requests;
        auto made =
            QueuePair::make(fake.verbs(), fake.port, &fake.queue, options, kGeneration, kSequence);
        REQUIRE(made);
        pair = std::move(*made);
        REQUIRE(pair->connect(other_end()).status == XFER_OK);
    }
    // Of so many requests, each of one byte.
    Ledger::Verdict post(uint32_t requests, uintptr_t user) {
        std::vector<Piece> pieces;
        for (uint32_t i = 0; i < requests; ++i)
            pieces.push_back({0x1000 + 10 * i, 10 * i, 1});
        ChainLimits limits = pair->limits();
        limits.requests = requests;
        Chain chain(limits);
        Chain::Progress from;
        REQUIRE(chain.build(Dir::put, pieces, AnyKey(), remote, pair->next_id(), from) ==
                Chain::End::all);
        return pair->post(chain, reinterpret_cast<void *>(user));
    }
    void poll_all() {
        while (const auto told = fake.poll())
            CHECK(pair->completed(*told));
    }
    std::multiset<uintptr_t> done() {
        std::multiset<uintptr_t> users;
        while (const auto chain = pair->pop_done())
            users.insert(reinterpret_cast<uintptr_t>(chain->user));
        return users;
    }
    std::multiset<uintptr_t> failed() {
        std::multiset<uintptr_t> users;
        while (const auto chain = pair->pop_failed())
            users.insert(reinterpret_cast<uintptr_t>(chain->user));
        return users;
    }

    FakeQueuePort fake;
    QueuePairOptions options;
    const uint32_t keys[1] = {9};
    const RemoteMemory remote{0x100000, 1 << 20, 1 << 20, keys};
    std::unique_ptr<QueuePair> pair;
};

using Users = std::multiset<uintptr_t>;

}  // namespace

TEST_CASE("it is made, and connected with what both ends can do") {
    Fixture at;
    CHECK(at.fake.state() == IBV_QPS_RTS);
    const ibv_qp_attr &init = at.fake.seen(IBV_QPS_INIT), &receive = at.fake.seen(IBV_QPS_RTR);
    const ibv_qp_attr &send = at.fake.seen(IBV_QPS_RTS);
    CHECK(init.pkey_index == 2);
    CHECK(init.port_num == 1);
    CHECK(receive.path_mtu == IBV_MTU_1024);
    CHECK(receive.dest_qp_num == 0x815);
    CHECK(receive.rq_psn == 0x777777);
    CHECK(receive.max_dest_rd_atomic == 8);
    CHECK(receive.ah_attr.is_global == 1);
    CHECK(receive.ah_attr.grh.dgid.raw[15] == 2);
    CHECK(receive.ah_attr.grh.sgid_index == 3);
    CHECK(send.sq_psn == kSequence);
    CHECK(send.max_rd_atomic == 4);
    CHECK(send.retry_cnt == 6);
    CHECK(at.pair->reads_out() == 4);
    const QueuePairParameters told = at.pair->parameters();
    CHECK(told.number == 0x4711);
    CHECK(told.sequence_number == kSequence);
    CHECK(told.reads_in == 8);
    CHECK(told.address.mtu == IBV_MTU_4096);
    CHECK(at.pair->limits().requests == 25);
    CHECK(at.pair->limits().pieces == 4);
    CHECK(at.pair->limits().inline_bytes == 64);
    CHECK(at.pair->completions() == 26);
}

TEST_CASE("within a subnet of InfiniBand it goes by LID") {
    FakeQueuePort fake;
    fake.port.address = {LinkLayer::infiniband, 7, {}, IBV_MTU_4096};
    QueuePairParameters other = other_end();
    other.address = {LinkLayer::infiniband, 0x33, {}, IBV_MTU_4096};
    auto pair = QueuePair::make(fake.verbs(), fake.port, &fake.queue, {}, 1, 1);
    REQUIRE(pair);
    REQUIRE((*pair)->connect(other).status == XFER_OK);
    CHECK(fake.seen(IBV_QPS_RTR).ah_attr.dlid == 0x33);
    CHECK(fake.seen(IBV_QPS_RTR).ah_attr.is_global == 0);
    CHECK((*pair)->limits().requests == 63);  // the device has 64
}

TEST_CASE("a call that fails, at each step, leaves nothing and says which") {
    for (int k = 1; k <= 4; ++k) {
        CAPTURE(k);
        FakeQueuePort fake;
        fake.inline_bytes = 1'000;
        fake.fail_call(k, ENOMEM);
        auto pair = QueuePair::make(fake.verbs(), fake.port, &fake.queue, {}, 1, 1);
        Failure why = pair ? (*pair)->connect(other_end()) : pair.error();
        CHECK(why.status == XFER_ENOMEM);
        CHECK(why.origin == XFER_ORIGIN_VERBS);
        CHECK(why.native == ENOMEM);
        const char *const words[] = {"made", "INIT", "RTR", "RTS"};
        CHECK(std::string_view(why.message).find(words[k - 1]) != std::string_view::npos);
        CHECK(bool(pair) == (k > 2));
    }
}

TEST_CASE("a chain that was posted ends by its completion, and gives its slots back") {
    Fixture at;
    CHECK(at.post(10, 1) == Ledger::Verdict::reserved);
    CHECK(at.post(10, 2) == Ledger::Verdict::reserved);
    CHECK(at.post(10, 3) == Ledger::Verdict::full);
    CHECK(at.post(26, 3) == Ledger::Verdict::too_large);
    CHECK(at.fake.waiting() == 20);
    for (int i = 0; i < 10; ++i)
        at.fake.carry_out();
    at.poll_all();
    CHECK(at.done() == Users{1});
    CHECK(at.post(10, 3) == Ledger::Verdict::reserved);
    while (at.fake.waiting())
        at.fake.carry_out();
    at.poll_all();
    CHECK(at.done() == Users{2, 3});
    CHECK(at.pair->ledger().depth() == 0);
    int signaled = 0;
    for (const ibv_send_wr &request : at.fake.log())
        signaled += bool(request.send_flags & IBV_SEND_SIGNALED);
    CHECK(signaled == 3);
}

TEST_CASE("a list of which the device takes a part, for each part and each answer") {
    using Bad = FakeQueuePort::Bad;
    for (const Bad bad : {Bad::right, Bad::null, Bad::foreign})
        for (uint32_t taken = 0; taken < 6; ++taken) {
            CAPTURE(taken);
            CAPTURE(static_cast<int>(bad));
            Fixture at;
            REQUIRE(at.post(3, 1) == Ledger::Verdict::reserved);
            at.fake.take(taken, bad);
            CHECK(at.post(6, 2) == Ledger::Verdict::reserved);
            CHECK(at.pair->ledger().degraded());
            CHECK(at.post(1, 3) == Ledger::Verdict::degraded);
            // Slots are owed for what may be under way: all of it, where the device does not say.
            CHECK(at.pair->ledger().depth() == 3 + (bad == Bad::right ? taken : 6));
            for (int i = 0; i < 3; ++i)
                at.fake.carry_out();
            at.poll_all();
            CHECK(at.done() == Users{1});
            at.pair->fail();
            CHECK(at.fake.state() == IBV_QPS_ERR);
            CHECK(at.failed().empty());  // not before the flush
            at.poll_all();
            CHECK(at.pair->flushed());
            const bool owed = bad != Bad::right || taken > 0;
            CHECK(at.failed() == (owed ? Users{2} : Users{}));
            CHECK(at.pair->ledger().depth() == 0);
        }
}

TEST_CASE("a request that fails takes all behind it along, and nothing before it") {
    Fixture at;
    for (uintptr_t user = 1; user <= 4; ++user)
        REQUIRE(at.post(5, user) == Ledger::Verdict::reserved);
    for (int i = 0; i < 7; ++i)
        at.fake.carry_out();
    at.fake.carry_out(false);  // in the second
    at.poll_all();
    CHECK(at.done() == Users{1});
    CHECK(at.pair->ledger().degraded());
    CHECK(at.post(1, 5) == Ledger::Verdict::degraded);
    CHECK(at.failed().empty());
    at.pair->fail();
    at.poll_all();
    CHECK(at.pair->flushed());
    CHECK(at.failed() == Users{2, 3, 4});
    CHECK(at.pair->ledger().depth() == 0);
}

TEST_CASE("behind fail() nothing is posted") {
    Fixture at;
    at.pair->fail();
    CHECK(at.post(1, 1) == Ledger::Verdict::degraded);
    CHECK(at.fake.log().size() == 1);  // the marker
    at.poll_all();
    CHECK(at.post(1, 1) == Ledger::Verdict::degraded);
    CHECK(at.failed().empty());
}

TEST_CASE("a full queue has room for the marker") {
    Fixture at;
    REQUIRE(at.post(25, 1) == Ledger::Verdict::reserved);
    at.pair->fail();
    at.poll_all();
    CHECK(at.pair->flushed());
    CHECK(at.failed() == Users{1});
}

TEST_CASE("a marker that is refused: what was posted ends with the queue pair") {
    Fixture at;
    REQUIRE(at.post(5, 1) == Ledger::Verdict::reserved);
    at.fake.take(0);
    at.pair->fail();
    at.poll_all();
    CHECK_FALSE(at.pair->flushed());
    CHECK(at.failed().empty());
    CHECK(at.pair->destroy().status == XFER_OK);
    CHECK(at.failed() == Users{1});
}

TEST_CASE("completions of other lives and other requests are none of its own") {
    Fixture at;
    REQUIRE(at.post(1, 1) == Ledger::Verdict::reserved);
    ibv_wc told{};
    for (const RequestId id : {RequestId{RequestKind::chain, kGeneration - 1, 0},
                               RequestId{RequestKind::marker, kGeneration, 0},
                               RequestId{RequestKind::receive, kGeneration, 0}, RequestId{}}) {
        told.wr_id = id.word();
        CHECK_FALSE(at.pair->completed(told));
    }
    at.pair->fail();
    told.wr_id = RequestId{RequestKind::marker, kGeneration + 1, 0}.word();
    CHECK_FALSE(at.pair->completed(told));
    CHECK_FALSE(at.pair->flushed());
    at.poll_all();
    CHECK(at.pair->flushed());
}

TEST_CASE("a device that is gone: what was posted ends with the queue pair") {
    Fixture at;
    REQUIRE(at.post(5, 1) == Ledger::Verdict::reserved);
    at.fake.fail_call(1, EIO);
    at.pair->fail();
    CHECK_FALSE(at.pair->flushed());
    CHECK(at.failed().empty());
    at.fake.fail_call(1, EBUSY);
    const Failure why = at.pair->destroy();
    CHECK(why.native == EBUSY);
    CHECK(at.failed().empty());  // the device may still touch memory
    CHECK(at.pair->destroy().status == XFER_OK);
    CHECK(at.failed() == Users{1});
    CHECK(at.pair->destroy().status == XFER_OK);
}

// Requirement E5 and more: many chains on a small queue, with faults of all kinds, through many
// lives of the queue pair.
TEST_CASE("10,000 chains on a depth of 16: each ends once, and in the end nothing is owed") {
    std::mt19937_64 random(1);
    uintptr_t user = 0;
    std::set<uintptr_t> ended;
    uint64_t faults = 0;
    while (user < 10'000) {
        Fixture at(16);
        const auto end = [&](const Users &users) {
            for (const uintptr_t one : users)
                CHECK(ended.insert(one).second);
        };
        bool over = false;
        for (uint64_t left = 1 + random() % 800; left && !over; --left) {
            if (random() % 2) {
                const auto requests = static_cast<uint32_t>(1 + random() % 16);
                const bool part = at.pair->ledger().free() >= requests && random() % 300 == 0;
                if (part) at.fake.take(static_cast<uint32_t>(random() % requests));
                const Ledger::Verdict verdict = at.post(requests, user + 1);
                if (verdict == Ledger::Verdict::reserved) ++user;
                if (at.pair->ledger().degraded()) over = true, ++faults;
            } else if (at.fake.waiting()) {
                over = random() % 500 == 0;
                faults += over;
                at.fake.carry_out(!over);
            }
            if (random() % 3 == 0) at.poll_all();
            end(at.done());
        }
        at.poll_all();
        end(at.done());
        at.pair->fail();
        at.poll_all();
        CHECK(at.pair->flushed());
        end(at.failed());
        CHECK(at.pair->ledger().depth() == 0);
    }
    CHECK(faults > 10);
    CHECK(user - ended.size() <= faults);  // only what was not taken at all has no end of its own
}
