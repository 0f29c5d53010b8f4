// SPDX-License-Identifier: Apache-2.0
// Fake adapters: memory windows of type 2, and what a descriptor of a dma-buf stands for.
#include <doctest/doctest.h>

#include <cerrno>
#include <utility>

#include "fake_verbs.h"
#include "fake_verbs_ends.h"

using namespace xfer::rdma;

namespace {

const Verbs &verbs = FakeFabric::verbs();

void check_only(FakeFabric &fabric, Violation violation) {
    CHECK(fabric.took(violation));
    CHECK(fabric.report() == "");
}

// A window of the far end to bytes 64 to 127 of its memory.
struct WindowLine : FakeLine {
    WindowLine()
        : region(verbs.reg_mr(far.domain, far.bytes.data(), 256,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)),
          window(ibv_alloc_mw(far.domain, IBV_MW_TYPE_2)) {
        connect();
        near.bytes[0] = 5;
    }
    ~WindowLine() {
        drain();
        ibv_dealloc_mw(window);
        if (region) verbs.dereg_mr(region);
    }
    ibv_send_wr to_bind() {
        ibv_send_wr request = far.request(IBV_WR_BIND_MW, nullptr, near, 0);
        request.bind_mw.mw = window;
        request.bind_mw.rkey = key = ibv_inc_rkey(key ? key : window->rkey);
        request.bind_mw.bind_info = {region, far.address(64), 64, IBV_ACCESS_REMOTE_WRITE};
        return request;
    }
    ibv_wc_status outcome(FakeEnd &end, const ibv_send_wr &request) {
        REQUIRE(end.post(request) == 0);
        fabric.run();
        return end.poll().at(0).status;
    }
    ibv_wc_status bind() { return outcome(far, to_bind()); }
    ibv_wc_status invalidate() {
        ibv_send_wr request = far.request(IBV_WR_LOCAL_INV, nullptr, near, 0);
        request.invalidate_rkey = key;
        return outcome(far, request);
    }
    ibv_wc_status reach(ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE, uint32_t at = 64) {
        ibv_sge local = near.piece(0, 8);
        ibv_send_wr request = near.request(opcode, &local, far, at);
        request.wr.rdma.rkey = key;
        return outcome(near, request);
    }

    ibv_mr *region;
    ibv_mw *const window;
    uint32_t key = 0;
};

}  // namespace

TEST_CASE("a window opens its part of a region, and no more") {
    WindowLine line;
    REQUIRE(line.bind() == IBV_WC_SUCCESS);
    uint32_t at = 64;
    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
    bool open = false;
    SUBCASE("its start") {
        open = true;
    }
    SUBCASE("its end") {
        at = 120, open = true;
    }
    SUBCASE("past its end") {
        at = 121;
    }
    SUBCASE("before its start") {
        at = 63;
    }
    SUBCASE("what it does not permit") {
        opcode = IBV_WR_RDMA_READ;
    }
    CHECK(line.reach(opcode, at) == (open ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR));
    CHECK(line.far.bytes[at] == (open ? 5 : 0));
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a window is open between bind and invalidate, under its key of then") {
    WindowLine line;
    SUBCASE("before") {
        line.key = line.window->rkey;
        CHECK(line.reach() == IBV_WC_REM_ACCESS_ERR);
    }
    SUBCASE("after") {
        line.bind();
        REQUIRE(line.invalidate() == IBV_WC_SUCCESS);
        CHECK(line.reach() == IBV_WC_REM_ACCESS_ERR);
    }
    SUBCASE("by the key before") {
        line.bind();
        line.invalidate();
        const uint32_t before = line.key;
        REQUIRE(line.bind() == IBV_WC_SUCCESS);
        line.key = before;
        CHECK(line.reach() == IBV_WC_REM_ACCESS_ERR);
    }
    SUBCASE("by another queue pair") {
        line.bind();
        FakeEnd near(line.here), far(line.there);
        verbs.destroy_qp(far.pair);
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = far.queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {1, 1, 1, 1, 0};
        far.pair = verbs.create_qp(line.far.domain, &attributes);
        near.connect(far), far.connect(near);
        ibv_sge local = near.piece(0, 8);
        ibv_send_wr request = near.request(IBV_WR_RDMA_WRITE, &local, line.far, 64);
        request.wr.rdma.rkey = line.key;
        CHECK(line.outcome(near, request) == IBV_WC_REM_ACCESS_ERR);
        verbs.destroy_qp(std::exchange(far.pair, nullptr));
    }
    SUBCASE("when its queue pair was destroyed") {
        line.bind();
        line.drain();
        verbs.destroy_qp(std::exchange(line.far.pair, nullptr));
        CHECK(line.fabric.took(Violation::busy_pair));
        CHECK(verbs.dereg_mr(std::exchange(line.region, nullptr)) == 0);
    }
    CHECK(line.fabric.report() == "");
}

TEST_CASE("what may not be bound") {
    WindowLine line;
    ibv_send_wr request = line.to_bind();
    SUBCASE("past the region") {
        request.bind_mw.bind_info.length = 193;
    }
    SUBCASE("nothing") {
        request.bind_mw.bind_info.length = 0;
    }
    SUBCASE("a region that is not for windows") {
        request.bind_mw.bind_info.mr = line.far.region;
    }
    SUBCASE("a key of another") {
        request.bind_mw.rkey += 0x100;
    }
    CHECK(line.far.post(request) == EINVAL);
    check_only(line.fabric, Violation::window);
}

TEST_CASE("bound twice, or invalidated and not bound: the queue pair fails") {
    WindowLine line;
    SUBCASE("bound") {
        line.bind();
        CHECK(line.bind() == IBV_WC_MW_BIND_ERR);
    }
    SUBCASE("invalidated") {
        CHECK(line.invalidate() == IBV_WC_MW_BIND_ERR);
    }
    check_only(line.fabric, Violation::window);
}

TEST_CASE("a region outlives its windows, and a domain too") {
    WindowLine line;
    line.bind();
    CHECK(verbs.dereg_mr(line.region) == EBUSY);
    check_only(line.fabric, Violation::busy_region);
    CHECK(line.fabric.live().windows == 1);
    line.invalidate();
    ibv_pd *domain = verbs.alloc_pd(line.there.context());
    ibv_mw *window = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
    CHECK(verbs.dealloc_pd(domain) == EBUSY);
    check_only(line.fabric, Violation::busy_domain);
    ibv_dealloc_mw(window);
    CHECK(verbs.dealloc_pd(domain) == 0);
}

TEST_CASE("windows that are not there") {
    FakeFabric fabric;
    FakeAdapter &without = fabric.add({.windows = false}), &with = fabric.add();
    const FakeEnd first(without), second(with);
    CHECK(ibv_alloc_mw(first.domain, IBV_MW_TYPE_2) == nullptr);
    CHECK(errno == EOPNOTSUPP);
    CHECK(ibv_alloc_mw(second.domain, IBV_MW_TYPE_1) == nullptr);
    CHECK(errno == EINVAL);
    fabric.fail_call(FakeCall::alloc_mw, 1, ENOMEM);
    CHECK(ibv_alloc_mw(second.domain, IBV_MW_TYPE_2) == nullptr);
    CHECK(errno == ENOMEM);
    CHECK(fabric.live().windows == 0);
}

TEST_CASE("a dma-buf is registered by its descriptor") {
    FakeLine line;
    line.connect();
    const auto refused = [&](uint64_t offset, size_t length, int fd) {
        CHECK(verbs.reg_dmabuf_mr(line.far.domain, offset, length, 0, fd, kAllAccess) == nullptr);
        return errno;
    };
    CHECK(refused(0, 8, 77) == EOPNOTSUPP);
    line.there.offer_dmabuf(77, line.far.bytes.data(), 64);
    CHECK(refused(0, 8, 78) == EBADF);
    CHECK(refused(60, 5, 77) == EINVAL);
    ibv_mr *region = verbs.reg_dmabuf_mr(line.far.domain, 32, 32, 0x5000, 77, kAllAccess);
    REQUIRE(region != nullptr);
    line.near.bytes[0] = 6;
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0);
    request.wr.rdma.remote_addr = 0x5001;
    request.wr.rdma.rkey = region->rkey;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(line.near.poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(line.far.bytes[33] == 6);
    CHECK(verbs.dereg_mr(region) == 0);
}
