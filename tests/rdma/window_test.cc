// SPDX-License-Identifier: Apache-2.0
// Memory windows of type 2: what they open, to whom, and what ends them.
#include <doctest/doctest.h>

#include <utility>

#include "endpoint.h"
#include "transport/rdma/memory_window.h"

using namespace rdma_test;
using xfer::rdma::MemoryWindow;

TEST_SUITE_BEGIN("window");

namespace {

constexpr size_t kBytes = 64 << 10, kBegin = 8192, kOpen = 16 << 10;
constexpr int kForWindows = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

// Memory that is not registered for peers.
struct Place {
    Place()
        : bytes(far_device(), kBytes),
          region(verbs().reg_mr(far_device().domain, bytes.at(), kBytes, kForWindows)) {
        must(region, "ibv_reg_mr");
    }
    ~Place() {
        if (region) must(!verbs().dereg_mr(region), "ibv_dereg_mr");
    }

    Buffer bytes;
    ibv_mr *region;
};

MemoryWindow make_window() {
    xfer::rdma::Port port;
    port.domain = far_device().domain;
    auto made = MemoryWindow::make(port);
    must(bool(made), "ibv_alloc_mw");
    return std::move(*made);
}

// Two ends, and a window of the far one.
struct Opened {
    explicit Opened(uint32_t access = XFER_READ | XFER_WRITE) {
        near.connect(far.parameters(place.bytes));
        far.connect(near.parameters(mine));
        mine.fill(4);
        ibv_send_wr request = window.bind_request(
            place.region, reinterpret_cast<uint64_t>(place.bytes.at(kBegin)), kOpen, access);
        request.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr *bad = nullptr;
        must(!ibv_post_send(far.pair(), &request, &bad), "a bind is taken");
        must(far.next_status() == IBV_WC_SUCCESS, "and done");
    }
    // Of the place, from `by`.
    int reach(const Endpoint &by, ibv_wr_opcode opcode, size_t offset, size_t length,
              uint32_t key) const {
        Request request;
        request.opcode = opcode;
        request.piece = piece(mine, offset, length);
        request.address = reinterpret_cast<uint64_t>(place.bytes.at(offset));
        request.key = key;
        return post(by, request) ? -1 : by.next_status();
    }
    int write(size_t offset, size_t length) const {
        return reach(near, IBV_WR_RDMA_WRITE, offset, length, window.key());
    }

    Buffer mine{near_device(), kBytes};
    Place place;
    Endpoint near{near_device()}, far{far_device()};
    MemoryWindow window = make_window();  // dies before its queue pair
};

}  // namespace

TEST_CASE("the device says that it has windows") {
    ibv_device_attr device{};
    REQUIRE(verbs().query_device(far_device().context, &device) == 0);
    CHECK((device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
    CHECK(device.max_mw > 1000);
}

TEST_CASE("a window opens its range, though the registration is for nobody") {
    const Opened opened;
    CHECK(opened.write(kBegin, kOpen) == IBV_WC_SUCCESS);
    CHECK(opened.place.bytes.differs(4, kBegin, kOpen) == -1);
    CHECK(opened.reach(opened.near, IBV_WR_RDMA_READ, kBegin, kOpen, opened.window.key()) ==
          IBV_WC_SUCCESS);
    SUBCASE("not by the key of the registration") {
        CHECK(opened.reach(opened.near, IBV_WR_RDMA_WRITE, kBegin, 8, opened.place.region->rkey) ==
              IBV_WC_REM_ACCESS_ERR);
    }
}

// What the library takes for the mark of devices that do so.
TEST_CASE("a window opens all that is registered, and the vendor says that it is such a device") {
    const Opened opened;
    CHECK(opened.write(kBegin - 1, 8) == IBV_WC_SUCCESS);
    CHECK(*opened.place.bytes.at(kBegin - 1) != 0);
    CHECK(opened.write(kBegin + kOpen - 7, 8) == IBV_WC_SUCCESS);
    CHECK(*opened.place.bytes.at(kBegin + kOpen) != 0);
    ibv_device_attr device{};
    REQUIRE(verbs().query_device(far_device().context, &device) == 0);
    CHECK(device.vendor_id == 0xffffff);
}

TEST_CASE("a window opens for what it says") {
    const Opened opened(XFER_READ);
    CHECK(opened.write(kBegin, 8) == IBV_WC_REM_ACCESS_ERR);
    CHECK(*opened.place.bytes.at(kBegin) == 0);
}

TEST_CASE("a window is no other queue pair's") {
    const Opened opened;
    Endpoint other(near_device()), target(far_device());
    other.connect(target.parameters(opened.place.bytes));
    target.connect(other.parameters(opened.mine));
    CHECK(opened.reach(other, IBV_WR_RDMA_WRITE, kBegin, 8, opened.window.key()) ==
          IBV_WC_REM_ACCESS_ERR);
    CHECK(*opened.place.bytes.at(kBegin) == 0);
    CHECK(opened.write(kBegin, 8) == IBV_WC_SUCCESS);
}

TEST_CASE("a window that is given back, or invalidated, is dead") {
    Opened opened;
    REQUIRE(opened.write(kBegin, 8) == IBV_WC_SUCCESS);
    SUBCASE("given back") {
        CHECK_FALSE(opened.window.close_patiently());
    }
    SUBCASE("invalidated") {
        ibv_send_wr request{}, *bad = nullptr;
        request.opcode = IBV_WR_LOCAL_INV;
        request.send_flags = IBV_SEND_SIGNALED;
        request.invalidate_rkey = opened.window.key();
        REQUIRE(ibv_post_send(opened.far.pair(), &request, &bad) == 0);
        CHECK(opened.far.next_status() == IBV_WC_SUCCESS);
    }
    CHECK(opened.write(kBegin + 8, 8) == IBV_WC_REM_ACCESS_ERR);
    CHECK(*opened.place.bytes.at(kBegin + 8) == 0);
}

TEST_CASE("a window is given back whatever its queue pair is in, and the registration behind it") {
    Opened opened;
    bool failed = false;
    SUBCASE("ready") {}
    SUBCASE("in error") {
        failed = true;
        opened.far.fail();
    }
    CHECK(verbs().dereg_mr(opened.place.region) != 0);  // under the window
    CHECK_FALSE(opened.window.close_patiently());
    CHECK(verbs().dereg_mr(std::exchange(opened.place.region, nullptr)) == 0);
    CHECK((opened.far.state() == IBV_QPS_ERR) == failed);
}

// With bytes on their way: what was written before the end is there, and nothing follows it.
TEST_CASE("a window that is given back in the middle of a write") {
    for (int round = 0; round < 20; ++round) {
        Opened opened;
        for (int i = 0; i < 8; ++i) {
            Request request;
            request.piece = piece(opened.mine, kBegin, kOpen);
            request.address = reinterpret_cast<uint64_t>(opened.place.bytes.at(kBegin));
            request.key = opened.window.key();
            REQUIRE(post(opened.near, request) == 0);
        }
        if (round % 2) (void)opened.near.next_status();
        CHECK_FALSE(opened.window.close_patiently());
        opened.place.bytes.fill(9);
        while (opened.near.next(0.02)) {}
        CHECK(opened.place.bytes.differs(9, 0, kBytes) == -1);
    }
}

TEST_CASE("a registration that is not for windows takes none") {
    Opened opened;
    MemoryWindow other = make_window();
    Buffer closed(far_device(), 4096);
    ibv_mr *const region =
        verbs().reg_mr(far_device().domain, closed.at(), 4096, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(region);
    ibv_send_wr request =
        other.bind_request(region, reinterpret_cast<uint64_t>(closed.at()), 4096, XFER_READ);
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr *bad = nullptr;
    const int refused = ibv_post_send(opened.far.pair(), &request, &bad);
    CHECK((refused || opened.far.next_status() != IBV_WC_SUCCESS));
    CHECK_FALSE(other.close_patiently());
    CHECK(verbs().dereg_mr(region) == 0);
}

TEST_SUITE_END();
