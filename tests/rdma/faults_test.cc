// SPDX-License-Identifier: Apache-2.0
// How a queue pair fails: what is told to each side, in which order, and that the next one works.
#include <doctest/doctest.h>
#include <poll.h>

#include <cerrno>

#include "link.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("faults");

namespace {

// Soft-RoCE ends what a dead peer leaves after half a second with these attributes; a real device
// may take four times its time-out. The rest is for a machine that is busy.
constexpr double kRetriesEnd = 15;

// SENDs to who posts no receives stay outstanding: they are tried for ever.
template <typename Target>
void post_sends_that_stay(const Link<Target> &link, uint64_t count, uint64_t first_unsignaled) {
    for (uint64_t id = 0; id < count; ++id) {
        Request request = link.request(IBV_WR_SEND, 0, 8, id);
        if (id >= first_unsignaled) request.flags = 0;
        REQUIRE(post(link.near, request) == 0);
    }
}

// A new pair of queue pairs between the same devices moves bytes.
template <typename Target>
void works_anew() {
    Target target;
    Link<Target> link(target);
    link.fill_far(5);
    link.mine.fill(6);
    REQUIRE(link.done(link.request(IBV_WR_RDMA_WRITE, 1, 100'000)) == IBV_WC_SUCCESS);
    CHECK(link.far_differs(6, 1, 100'000) == -1);
}

bool no_async_event(const Device &device) {
    pollfd ready{device.context->async_fd, POLLIN, 0};
    return ::poll(&ready, 1, 200) == 0;
}

}  // namespace

TEST_CASE_TEMPLATE("to ERR: all that is outstanding is flushed, in its order", Target, Here,
                   Elsewhere) {
    Target target;
    Link<Target> link(target);
    for (uint64_t id = 100; id < 103; ++id)
        REQUIRE(post_receive(link.near, id, piece(link.mine, 4096, 64)) == 0);
    post_sends_that_stay(link, 8, 4);
    CHECK_FALSE(link.near.next(0.1));
    link.near.fail();
    uint64_t next_send = 0, next_receive = 100;
    for (int i = 0; i < 8 + 3; ++i) {
        const auto flushed = link.near.next(2);
        REQUIRE(flushed);
        CHECK(flushed->status == IBV_WC_WR_FLUSH_ERR);
        uint64_t &next = flushed->wr_id < 100 ? next_send : next_receive;
        CHECK(flushed->wr_id == next);
        ++next;
    }
    CHECK(next_send == 8);  // unsignaled ones too
    CHECK(next_receive == 103);
    CHECK_FALSE(link.near.next(0.1));
    CHECK(link.near.state() == IBV_QPS_ERR);
}

TEST_CASE_TEMPLATE("a chain longer than the queue: the first that is left is named", Target, Here,
                   Elsewhere) {
    Target target;
    Attributes attributes;
    attributes.sends = 5;
    Link<Target> link(target, attributes);
    constexpr unsigned kChain = 40;
    REQUIRE(link.near.granted().max_send_wr >= 5);
    REQUIRE(link.near.granted().max_send_wr < kChain);
    Request requests[kChain];
    ibv_send_wr chain[kChain], *bad = nullptr;
    for (unsigned i = 0; i < kChain; ++i) {
        requests[i] = link.request(IBV_WR_SEND, 0, 8, i);
        chain[i] = work(requests[i]);
        if (i > 0) chain[i - 1].next = &chain[i];
    }
    CHECK(ibv_post_send(link.near.pair(), chain, &bad) == ENOMEM);
    REQUIRE(bad);
    const uint64_t taken = bad->wr_id;
    CHECK(taken >= link.near.granted().max_send_wr);  // more than it grants
    CHECK(taken < kChain);
    link.near.fail();
    for (uint64_t id = 0; id < taken; ++id) {
        const auto flushed = link.near.next(2);
        REQUIRE(flushed);
        CHECK(flushed->wr_id == id);
    }
    CHECK_FALSE(link.near.next(0.1));  // what was left never was there
}

TEST_CASE_TEMPLATE("a dead key: told to both sides", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    link.far_receives(3);
    link.far.ask({Ask::kDeregister});
    REQUIRE(post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, 4096, 1)) == 0);
    const auto refused = link.near.next();
    REQUIRE(refused);
    CHECK(refused->status == IBV_WC_REM_ACCESS_ERR);
    CHECK(refused->wr_id == 1);
    REQUIRE(post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, 4096, 2)) == 0);
    CHECK(link.near.next_status() == IBV_WC_WR_FLUSH_ERR);
    CHECK(link.near.state() == IBV_QPS_ERR);
    for (uint64_t id = 0; id < 3; ++id) {
        const Answer flushed = link.far_next();
        CHECK(flushed.value == IBV_WC_WR_FLUSH_ERR);
        CHECK(flushed.id == id);
    }
    CHECK(link.far_state() == IBV_QPS_ERR);
    CHECK(no_async_event(near_device()));  // hardware tells the responder by one
    works_anew<Target>();
}

TEST_CASE("a key goes in the middle of a WRITE: nothing is written behind it") {
    Here target;
    Link<Here> link(target);
    Buffer theirs(far_device(), size_t(64) << 20);
    Buffer ours(near_device(), theirs.length());
    ours.fill(1);
    Request request;
    request.piece = piece(ours, 0, ours.length());
    request.address = reinterpret_cast<uint64_t>(theirs.at());
    request.key = theirs.remote_key();
    REQUIRE(post(link.near, request) == 0);
    const auto *const begun = const_cast<volatile uint8_t *>(theirs.at(1));
    const double end = now() + 10;
    while (*begun == 0 && now() < end) {}
    theirs.deregister();
    // What the device had in its hands is through when the deregistration is.
    theirs.fill(2);
    CHECK(link.near.next_status() == IBV_WC_REM_ACCESS_ERR);
    CHECK(theirs.differs(2, 0, theirs.length()) == -1);
}

TEST_CASE_TEMPLATE("a byte too many; a wrong key of one's own; no receive; a receive too short",
                   Target, Here, Elsewhere) {
    Target target;
    {
        Link<Target> link(target);
        Request beyond = link.request(IBV_WR_RDMA_READ, 0, 4096);
        beyond.address = link.there.address + kTargetBytes - 4095;
        CHECK(link.done(beyond) == IBV_WC_REM_ACCESS_ERR);
    }
    {
        Link<Target> link(target);
        Request wrong = link.request(IBV_WR_RDMA_WRITE, 0, 64);
        wrong.piece.lkey ^= 0x5500;
        CHECK(link.done(wrong) == IBV_WC_LOC_QP_OP_ERR);  // hardware: IBV_WC_LOC_PROT_ERR
    }
    {
        Attributes attributes;
        attributes.receiver_not_ready_retries = 2;
        Link<Target> link(target, attributes);
        CHECK(link.done(link.request(IBV_WR_SEND, 0, 64)) == IBV_WC_RNR_RETRY_EXC_ERR);
    }
    {
        Link<Target> link(target);
        link.far_receives(1);
        CHECK(link.done(link.request(IBV_WR_SEND, 0, 5000)) == IBV_WC_REM_OP_ERR);
        CHECK(link.far_next().value == IBV_WC_LOC_QP_OP_ERR);  // hardware: IBV_WC_LOC_LEN_ERR
    }
    works_anew<Target>();
}

TEST_CASE("no right to write") {
    Here target;
    Link<Here> link(target);
    Buffer readable(far_device(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    Request request = link.request(IBV_WR_RDMA_READ, 0, 64);
    request.address = reinterpret_cast<uint64_t>(readable.at());
    request.key = readable.remote_key();
    CHECK(link.done(request) == IBV_WC_SUCCESS);
    request.opcode = IBV_WR_RDMA_WRITE;
    CHECK(link.done(request) == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a peer is killed in the middle of its transfers: the retries end") {
    constexpr uint64_t kRequests = 16;
    {
        Elsewhere target;
        Link<Elsewhere> link(target);
        link.mine.fill(3);
        uint64_t posted = 0;
        const auto post_one = [&] {
            return post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, kTargetBytes, posted++));
        };
        while (posted < kRequests)
            REQUIRE(post_one() == 0);
        REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
        target.tell({Ask::kDie});
        const double dead = now();
        // Each that is done is followed by another, however long the peer takes to die.
        uint64_t id = 1;
        int status = IBV_WC_SUCCESS;
        while (status == IBV_WC_SUCCESS && now() < dead + kRetriesEnd) {
            REQUIRE(post_one() == 0);
            const auto done = link.near.next(kRetriesEnd);
            REQUIRE(done);
            CHECK(done->wr_id == id++);
            status = done->status;
        }
        CHECK(status == IBV_WC_RETRY_EXC_ERR);
        MESSAGE("figure: a killed peer is told of after " << now() - dead << " s");
        for (; id < posted; ++id)
            CHECK(link.near.next_status() == IBV_WC_WR_FLUSH_ERR);
        CHECK_FALSE(link.near.next(0.1));
    }
    works_anew<Elsewhere>();
}

TEST_CASE("with 7 retries a dead peer is never told of") {
    for (const bool for_ever : {false, true}) {
        Here target;
        Attributes attributes;
        attributes.timeout = 8;  // a millisecond
        attributes.retries = for_ever ? 7 : 6;
        Endpoint near(near_device(), attributes);
        Buffer mine(near_device(), 4096);
        auto far = std::make_unique<Endpoint>(far_device());
        const Parameters there = far->parameters(mine);
        far->connect(near.parameters(mine));
        near.connect(there);
        far.reset();
        Request request;
        request.piece = piece(mine, 0, 64);
        REQUIRE(post(near, request) == 0);
        CHECK(near.next_status(for_ever ? 2 : kRetriesEnd) ==
              (for_ever ? -1 : int(IBV_WC_RETRY_EXC_ERR)));
    }
}

TEST_CASE("a completion outlives its queue pair") {
    Here target;
    Link<Here> link(target);
    link.fill_far(1);
    link.mine.fill(2);
    REQUIRE(post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, 64, 9)) == 0);
    const double end = now() + 10;
    while (link.far_differs(2, 0, 64) != -1 && now() < end) {}
    while (!link.near.next(0))
        REQUIRE(now() < end);
    REQUIRE(post(link.near, link.request(IBV_WR_RDMA_WRITE, 0, 64, 10)) == 0);
    // Its answer may be late, so the next one's completion shows that this one's is in the queue.
    REQUIRE(post(link.near, link.request(IBV_WR_RDMA_READ, 4096, 64, 11)) == 0);
    while (link.mine.differs(1, 4096, 64) != -1 && now() < end) {}
    link.near.destroy_pair();
    const auto late = link.near.next(2);
    REQUIRE(late);
    CHECK(late->wr_id == 10);
}

TEST_SUITE_END();
