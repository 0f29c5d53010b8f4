// SPDX-License-Identifier: Apache-2.0
// What a queue pair moves, compared byte for byte: with the far end in the same process, and in
// another one.
#include <doctest/doctest.h>

#include "link.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("operations");

namespace {

// Around the MTU (4096), a page, and what one packet of any kind holds.
constexpr size_t kLengths[] = {1, 63, 4095, 4096, 4097, 65536, (size_t(1) << 20) + 3};
constexpr size_t kOdd = 4099;  // an offset that is aligned to nothing

}  // namespace

TEST_CASE_TEMPLATE("a WRITE", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    uint32_t seed = 1;
    for (const size_t length : kLengths) {
        CAPTURE(length);
        link.fill_far(seed);
        link.mine.fill(seed + 1);
        REQUIRE(link.done(link.request(IBV_WR_RDMA_WRITE, kOdd, length)) == IBV_WC_SUCCESS);
        CHECK(link.far_differs(seed + 1, kOdd, length) == -1);
        CHECK(link.far_differs(seed, 0, kOdd) == -1);  // nothing before it, nothing behind
        CHECK(link.far_differs(seed, kOdd + length, 8192) == -1);
        seed += 2;
    }
}

TEST_CASE_TEMPLATE("a READ", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    uint32_t seed = 1;
    for (const size_t length : kLengths) {
        CAPTURE(length);
        link.fill_far(seed);
        link.mine.fill(seed + 1);
        REQUIRE(link.done(link.request(IBV_WR_RDMA_READ, kOdd, length)) == IBV_WC_SUCCESS);
        CHECK(link.mine.differs(seed, kOdd, length) == -1);
        CHECK(link.mine.differs(seed + 1, 0, kOdd) == -1);
        CHECK(link.mine.differs(seed + 1, kOdd + length, 8192) == -1);
        seed += 2;
    }
}

TEST_CASE_TEMPLATE("SENDs, in their order, with what travels beside them", Target, Here,
                   Elsewhere) {
    Target target;
    Link<Target> link(target);
    link.fill_far(1);
    link.mine.fill(2);
    link.far_receives(8);
    for (uint64_t id = 0; id < 8; ++id) {
        Request request = link.request(IBV_WR_SEND_WITH_IMM, size_t(id) * 4096, 100 + size_t(id));
        request.immediate = uint32_t(1000 + id);
        REQUIRE(post(link.near, request) == 0);
    }
    for (uint64_t id = 0; id < 8; ++id) {
        CAPTURE(id);
        CHECK(link.near.next_status() == IBV_WC_SUCCESS);
        const Answer taken = link.far_next();
        CHECK(taken.value == IBV_WC_SUCCESS);
        CHECK(taken.id == id);
        CHECK(taken.bytes == 100 + id);
        CHECK(taken.immediate == 1000 + id);
        CHECK(link.far_differs(2, id * 4096, 100 + id) == -1);
        CHECK(link.far_differs(1, id * 4096 + 100 + id, 1000) == -1);
    }
}

TEST_CASE_TEMPLATE("a WRITE with immediate takes a receive, and its bytes are there before it",
                   Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    link.fill_far(1);
    link.mine.fill(2);
    link.far_receives(1);
    Request request = link.request(IBV_WR_RDMA_WRITE_WITH_IMM, kOdd, 100'000);
    request.immediate = 77;
    REQUIRE(post(link.near, request) == 0);
    const Answer taken = link.far_next();
    CHECK(taken.value == IBV_WC_SUCCESS);
    CHECK(taken.immediate == 77);
    CHECK(taken.bytes == 100'000);
    CHECK(link.far_differs(2, kOdd, 100'000) == -1);
    CHECK(link.near.next_status() == IBV_WC_SUCCESS);
}

TEST_CASE_TEMPLATE("atomics", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    auto *const word = reinterpret_cast<uint64_t *>(link.mine.at());
    *word = 40;
    REQUIRE(link.done(link.request(IBV_WR_RDMA_WRITE, 0, 8)) == IBV_WC_SUCCESS);

    Request add = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
    add.compare_add = 2;
    REQUIRE(link.done(add) == IBV_WC_SUCCESS);
    CHECK(*word == 40);
    Request swap = link.request(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8);
    swap.compare_add = 42;
    swap.swap = 99;
    REQUIRE(link.done(swap) == IBV_WC_SUCCESS);
    CHECK(*word == 42);
    REQUIRE(link.done(swap) == IBV_WC_SUCCESS);  // compares unequal now, and changes nothing
    CHECK(*word == 99);
    REQUIRE(link.done(link.request(IBV_WR_RDMA_READ, 0, 8)) == IBV_WC_SUCCESS);
    CHECK(*word == 99);
}

TEST_CASE_TEMPLATE("pieces of one request lie one behind the other", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    link.fill_far(1);
    link.mine.fill(2);
    // As the pattern goes, but for the order in which they are named: 0, 1, 2, 3 of four places.
    ibv_sge pieces[4];
    for (size_t i = 0; i < 4; ++i)
        pieces[i] = piece(link.mine, kOdd + i * 1001, 1001);
    Request request = link.request(IBV_WR_RDMA_WRITE, kOdd, 1);
    ibv_send_wr wr = work(request), *bad = nullptr;
    wr.sg_list = pieces;
    wr.num_sge = 4;
    REQUIRE(ibv_post_send(link.near.pair(), &wr, &bad) == 0);
    REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
    CHECK(link.far_differs(2, kOdd, 4004) == -1);
    CHECK(link.far_differs(1, kOdd + 4004, 1000) == -1);
}

TEST_CASE_TEMPLATE("64 requests under way complete in their order", Target, Here, Elsewhere) {
    Target target;
    Link<Target> link(target);
    link.fill_far(1);
    link.mine.fill(2);
    for (uint64_t id = 0; id < 64; ++id) {
        const auto opcode = id % 4 == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
        REQUIRE(post(link.near, link.request(opcode, size_t(id) * 16384, 16384, id)) == 0);
    }
    for (uint64_t id = 0; id < 64; ++id) {
        const auto done = link.near.next();
        REQUIRE(done);
        CHECK(done->status == IBV_WC_SUCCESS);
        CHECK(done->wr_id == id);
        CHECK(done->opcode == (id % 4 == 3 ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE));
    }
    for (uint64_t id = 0; id < 64; ++id) {
        CAPTURE(id);
        if (id % 4 == 3)
            CHECK(link.mine.differs(1, id * 16384, 16384) == -1);
        else
            CHECK(link.far_differs(2, id * 16384, 16384) == -1);
    }
}

TEST_SUITE_END();
