// SPDX-License-Identifier: Apache-2.0
// Ends of a path that are not the usual ones: devices that refuse to give up what they have, queues
// that fail, memory that is not there any more.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "rdma_paths.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kRegion = 7;

// So often from now on.
std::atomic<int> refused{0};  // also by the worker
int refuse_destroy(ibv_qp *pair) {
    return refused-- > 0 ? EBUSY : FakeFabric::verbs().destroy_qp(pair);
}
std::atomic<ibv_mr *> kept{nullptr};
std::atomic<size_t> kept_length{0};
int refuse_deregister(ibv_mr *region) {
    if (region->length == kept_length && refused-- > 0) {
        kept = region;
        return EBUSY;
    }
    return FakeFabric::verbs().dereg_mr(region);
}
ibv_context_ops real;
bool fails = false;
int failing_poll(ibv_cq *queue, int room, ibv_wc *out) {
    return std::exchange(fails, false) ? -1 : real.poll_cq(queue, room, out);
}

FakeAdapterOptions with_sends(uint32_t granted) {
    FakeAdapterOptions options;
    options.granted_sends = granted;
    options.inline_bytes = 0;
    return options;
}

}  // namespace

TEST_CASE("a queue pair that is busy is destroyed later, and the path does not end before") {
    Octets local(4096), remote(4096);
    Paths paths;
    paths.verbs.destroy_qp = refuse_destroy;
    paths.open();
    refused = 2;
    paths.close(*paths.near);
    REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
    CHECK(paths.fabric.live().pairs == 1);  // the far one
    refused = 0;
}

TEST_CASE("a table that stays registered is kept until it does not") {
    Paths paths;
    paths.verbs.dereg_mr = refuse_deregister;
    paths.open();
    for (const Violation told :
         {Violation::leaked, Violation::busy_domain, Violation::busy_context})
        paths.fabric.allow(told);  // by the check
    kept = nullptr;
    kept_length = 2 * kNotificationSpan * sizeof(BegunRecord);
    refused = 2;
    paths.close();
    CHECK(kept);
    CHECK(paths.fabric.live().regions == 0);
    refused = 0;
}

TEST_CASE("a completion queue that has failed serves no path any more, and another one does") {
    Octets local(64), remote(64);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    ibv_context *context = nullptr;
    for (const ibv_qp *pair : paths.fabric.pairs())
        if (std::string(pair->context->device->name) == "fake0") context = pair->context;
    real = context->ops;
    context->ops.poll_cq = failing_poll;
    fails = true;
    paths.fabric.allow(Violation::unpolled);  // it can't be
    TestOp op(Dir::put, kRegion, {{address(local.data()), 0, 8}});
    REQUIRE(paths.post(*paths.near, op));
    REQUIRE(paths.until([&] { return !fails; }));
    paths.skip(1'100);  // nothing of it is told any more
    REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
    CHECK(paths.near->times_done(op) == 1);
    paths.close();
    REQUIRE(paths.begin() == XFER_OK);
    for (int i = 0; i < 200 && !paths.both_ready(); ++i)
        paths.step();
    CHECK(paths.both_ready());
    if (paths.both_ready()) return;
    paths.close(*paths.near), paths.close(*paths.far);
    paths.settle();
    paths.skip(2'000);
}

TEST_CASE("an operation that is over when it is canceled says so, and ends as canceled") {
    Octets local(64), remote(64);
    Paths paths;
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    TestOp op(Dir::put, kRegion, {{address(local.data()), 0, 0}});
    paths.inside([&] {
        REQUIRE(paths.near->post(op));
        if (paths.near->cancel(op)) CHECK(op.canceled);
    });
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    CHECK(paths.near->times_done(op) == 1);
}

TEST_CASE("memory whose region is closed on this side while a put of it is posted in part") {
    Octets local(4096, 3), remote(4096);
    Paths paths({}, with_sends(4), with_sends(4));
    paths.open();
    paths.share(*paths.far, kRegion, remote);
    paths.inside([&] { paths.near->add_region(1, local); });
    paths.warm_up(*paths.near, kRegion, local);
    for (int i = 0; i < 5; ++i)
        paths.own->turn(kNsPerMs);
    paths.stalled = true;
    std::vector<Piece> pieces;
    for (uint64_t i = 0; i < 10; ++i)
        pieces.push_back({address(local.data()) + 16 * i, 16 * i, 8});
    TestOp op(Dir::put, kRegion, pieces);
    REQUIRE(paths.post(*paths.near, op));
    CHECK_FALSE(paths.inside([&] { return paths.near->fabric->remove_region({1}); }));
    paths.stalled = false;
    REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
    // Its memory is there: it is done by another way, or by this one.
    const bool is_well = paths.near->status_of(op) == XFER_OK || !paths.near->declined.empty();
    CHECK(is_well);
    CHECK_FALSE(op.unmapped);
}

TEST_CASE("an end says nothing once it is closed") {
    for (int steps = 0; steps < 12; ++steps) {
        Paths paths;
        REQUIRE(paths.begin() == XFER_OK);
        // Connected, and its probe is carried out but not told.
        REQUIRE(paths.until([&] { return paths.fabric.posts().calls > 0; }));
        for (int i = 0; i < steps; ++i)
            paths.fabric.step();
        paths.close(*paths.near);
        const size_t said = paths.near->signals;
        REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
        if (paths.near->signals != said) FAIL("in step ", steps);
    }
}
