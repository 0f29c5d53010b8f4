// SPDX-License-Identifier: Apache-2.0
// Queue pairs on adapters that are stricter than any device: what is negotiated, what is posted in
// part, what fails, and that nothing is left of any of it.
#include "transport/rdma/queue_pair.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "rdma_ends.h"

using namespace xfer;
using namespace xfer::rdma;
using How = ChainEnd::How;

namespace {

ibv_qp_attr attributes_of(End &end) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    REQUIRE(end.verbs.query_qp(end.pair->handle(), &attributes, 0, &made) == 0);
    return attributes;
}

FakeAdapterOptions with_sends(uint32_t granted) {
    FakeAdapterOptions options;
    options.granted_sends = granted;
    return options;
}

FakeAdapterOptions infiniband() {
    FakeAdapterOptions options;
    options.layer = LinkLayer::infiniband;
    return options;
}

// A driver that names a request which is not of the list.
ibv_context_ops real;
ibv_send_wr foreign;
int foreign_post(ibv_qp *pair, ibv_send_wr *first, ibv_send_wr **refused) {
    const int error = real.post_send(pair, first, refused);
    if (error) *refused = &foreign;
    return error;
}
// One that finds a completion which nothing was posted for, once.
ibv_wc late;
int late_poll(ibv_cq *queue, int room, ibv_wc *out) {
    if (late.wr_id == 0) return real.poll_cq(queue, room, out);
    out[0] = std::exchange(late, {});
    return 1;
}
void tell_late(Ends &ends, uint64_t wr_id, ibv_wc_status status) {
    ibv_context_ops &ops = ends.near.port.context->ops;
    real = ops;
    ops.poll_cq = late_poll;
    late = {};
    late.wr_id = wr_id;
    late.status = status;
    late.opcode = IBV_WC_RDMA_WRITE;
    late.qp_num = ends.near.pair->parameters().qpn;
    ends.turn();
    CHECK(late.wr_id == 0);
    ops = real;
}

// How often destroying is refused before it is not.
int busy = 0;
int busy_destroy(ibv_qp *pair) {
    return busy-- > 0 ? EBUSY : FakeFabric::verbs().destroy_qp(pair);
}

}  // namespace

// ---- beginning

TEST_CASE("bytes go there and come back") {
    for (const FakeAdapterOptions &options : {FakeAdapterOptions{}, infiniband()}) {
        Ends ends({}, options);
        std::fill(ends.near.bytes.begin(), ends.near.bytes.end(), uint8_t{7});
        CHECK(ends.near.post(ends.far, 10, 1).taken == 10);
        ends.settle();
        CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 10, How::done, 0}});
        for (size_t i = 0; i < 30; ++i)
            CHECK(ends.far.bytes[i] == (i < 20 && i % 2 == 0 ? 7 : 0));
        ends.far.bytes[4] = 9;
        CHECK(ends.near.post(ends.far, 5, 2, Dir::get).taken == 5);
        ends.settle();
        CHECK(ends.near.bytes[4] == 9);
        CHECK(ends.near.ends.size() == 2);
        ends.end();
    }
}

TEST_CASE("what is granted counts, not what was asked for") {
    SUBCASE("less") {
        Ends ends({}, with_sends(8));
        CHECK(ends.near.pair->caps().send_requests == 7);  // one is kept
        CHECK(ends.near.pair->caps().granted_requests == 8);
        CHECK(ends.near.post(ends.far, 8, 1).admitted == Admitted::too_large);
        CHECK(ends.near.post(ends.far, 7, 1).taken == 7);
        CHECK(ends.near.post(ends.far, 1, 2).admitted == Admitted::full);
        ends.near.pair->fail();  // with a full queue there is room for the drain
        ends.settle();
        CHECK(ends.near.drained);
        ends.end();
    }
    SUBCASE("more") {
        Ends ends({}, with_sends(64), {.send_requests = 10});
        CHECK(ends.near.pair->caps().send_requests == 10);
        CHECK(ends.near.pair->caps().granted_requests == 64);
        ends.end();
    }
    SUBCASE("nonsense") {
        Ends ends({}, {}, {.send_requests = 0, .send_pieces = 0});
        CHECK(ends.near.pair->caps().send_requests == 1);
        CHECK(ends.near.post(ends.far, 1, 1).taken == 1);
        ends.end();
    }
    SUBCASE("all that there is") {
        FakeAdapterOptions few;
        few.limits.send_requests = 200;
        Ends ends({}, few, {.send_requests = UINT32_MAX, .send_pieces = UINT32_MAX});
        CHECK(ends.near.pair->caps().send_requests == 199);
        ends.end();
    }
    SUBCASE("pieces and inlined bytes") {
        FakeAdapterOptions options;
        options.inline_bytes = 96;
        options.limits.send_pieces = 3;
        Ends ends({}, options);
        CHECK(ends.near.pair->caps().inline_bytes == 96);
        CHECK(ends.near.pair->caps().send_pieces == 3);
        ends.end();
    }
}

TEST_CASE("both ends agree on the smaller MTU, and on the reads that the target serves") {
    FakeFabric fabric;
    auto loop = make_loop();
    FakeAdapterOptions small;
    small.mtu = IBV_MTU_1024;
    small.limits.reads_in = 4;
    small.limits.reads_out = 30;
    End near(fabric.add(), *loop), far(fabric.add(small), *loop);
    REQUIRE(near.create().status == XFER_OK);
    REQUIRE(far.create().status == XFER_OK);
    near.connect(far);
    far.connect(near);
    CHECK(attributes_of(near).path_mtu == IBV_MTU_1024);
    CHECK(attributes_of(far).path_mtu == IBV_MTU_1024);
    CHECK(attributes_of(near).max_rd_atomic == 4);
    CHECK(attributes_of(near).max_dest_rd_atomic == 16);
    CHECK(attributes_of(far).max_rd_atomic == 16);
    CHECK(attributes_of(far).max_dest_rd_atomic == 4);
    CHECK(near.pair->caps().reads_out == 4);
    CHECK(near.pair->caps().mtu == IBV_MTU_1024);
    CHECK(fabric.report() == "");
}

TEST_CASE("nobody is tried for ever") {
    Ends ends({}, {}, {.ack_timeout = 0, .retries = 7, .rnr_retries = 7});
    CHECK(attributes_of(ends.near).timeout == 1);
    CHECK(attributes_of(ends.near).retry_cnt == 6);
    CHECK(attributes_of(ends.near).rnr_retry == 6);
    ends.end();
}

TEST_CASE("packet numbers begin at random, and each end takes the other's") {
    Ends ends;
    CHECK(attributes_of(ends.near).sq_psn == ends.near.pair->parameters().psn);
    CHECK(attributes_of(ends.near).rq_psn == ends.far.pair->parameters().psn);
    std::set<uint32_t> seen;
    for (int i = 0; i < 16; ++i) {
        ends.end(ends.near);
        ends.near.drained = false;
        REQUIRE(ends.near.create().status == XFER_OK);
        const uint32_t psn = ends.near.pair->parameters().psn;
        CHECK(psn <= kPsnMask);
        seen.insert(psn);
    }
    CHECK(seen.size() > 8);
    ends.end();
}

TEST_CASE("a route is by GID on Ethernet, by LID on InfiniBand, and by both to another subnet") {
    const auto route_to = [](End &near, const QueuePairParameters &peer) {
        REQUIRE(near.create({.traffic_class = 106}).status == XFER_OK);
        REQUIRE(near.pair->connect(peer).status == XFER_OK);
        return attributes_of(near).ah_attr;
    };
    FakeFabric fabric;
    auto loop = make_loop();
    End ethernet(fabric.add(), *loop);
    QueuePairParameters peer{.reads_in = 1, .qpn = 5, .gid = fabric.add().port().address.gid};
    const ibv_ah_attr by_gid = route_to(ethernet, peer);
    CHECK(by_gid.is_global);
    CHECK(std::memcmp(by_gid.grh.dgid.raw, peer.gid.raw, 16) == 0);
    CHECK(by_gid.grh.sgid_index == ethernet.port.gid_index);
    CHECK(by_gid.grh.hop_limit > 1);
    CHECK(by_gid.grh.traffic_class == 106);

    End by_lid(fabric.add(infiniband()), *loop);
    peer = {.layer = LinkLayer::infiniband, .reads_in = 1, .lid = 77, .qpn = 5};
    const ibv_ah_attr local = route_to(by_lid, peer);
    CHECK_FALSE(local.is_global);
    CHECK(local.dlid == 77);

    QueuePairParameters beside = peer;
    beside.gid = by_lid.port.address.gid;
    beside.gid.raw[15] ^= 1;
    CHECK_FALSE(route_to(by_lid, beside).is_global);

    beside.gid.raw[7] ^= 1;
    const ibv_ah_attr routed = route_to(by_lid, beside);
    CHECK(routed.is_global == 1);
    CHECK(routed.dlid == 77);
    CHECK(routed.grh.hop_limit > 1);
    CHECK(std::memcmp(routed.grh.dgid.raw, beside.gid.raw, 16) == 0);
    CHECK(fabric.report() == "");
}

TEST_CASE("InfiniBand and Ethernet do not meet") {
    FakeFabric fabric;
    auto loop = make_loop();
    End near(fabric.add(), *loop), far(fabric.add(infiniband()), *loop);
    REQUIRE(near.create().status == XFER_OK);
    REQUIRE(far.create().status == XFER_OK);
    CHECK(near.pair->connect(far.pair->parameters()).status == XFER_EUNREACHABLE);
    CHECK(near.post(far, 1, 1).admitted == Admitted::degraded);
    CHECK(fabric.report() == "");
}

TEST_CASE("a queue pair that can't be made leaves nothing, whatever fails") {
    FakeFabric fabric;
    auto loop = make_loop();
    End end(fabric.add(with_sends(1)), *loop);
    const FakeCounts before = fabric.live();
    const auto check = [&](const Failure &failure, Status status) {
        CHECK(failure.status == status);
        CHECK_FALSE(failure.message.empty());
        CHECK(fabric.live() == before);
        CHECK(end.queue->reserve(end.queue->entries()));
        end.queue->release(end.queue->entries());
    };
    SUBCASE("the queue pair") {
        fabric.fail_call(FakeCall::create_qp, 1, ENOMEM);
        check(end.create(), XFER_ENOMEM);
    }
    SUBCASE("a queue of one request") {
        check(end.create(), XFER_EUNSUPPORTED);
    }
    SUBCASE("the others") {
        End other(fabric.add(), *loop);
        const FakeCounts all = fabric.live();
        REQUIRE(other.queue->reserve(200));
        CHECK(other.create({.send_requests = 56}).status == XFER_ENOMEM);  // and the drain
        CHECK(fabric.live() == all);
        other.queue->release(200);
        fabric.fail_modify(IBV_QPS_INIT, 1, EPERM);
        const Failure failure = other.create();
        CHECK(failure.status == XFER_EACCESS);
        CHECK(failure.origin == XFER_ORIGIN_VERBS);
        CHECK(failure.native == EPERM);
        CHECK(fabric.live() == all);
        CHECK(other.queue->reserve(other.queue->entries()));
        other.queue->release(other.queue->entries());
    }
    CHECK(fabric.report() == "");
}

TEST_CASE("where fewer bytes can be inlined than asked for, a queue pair is made all the same") {
    FakeFabric fabric;
    auto loop = make_loop();
    End end(fabric.add(), *loop);
    fabric.fail_call(FakeCall::create_qp, 1, EINVAL);
    REQUIRE(end.create({.inline_bytes = 200}).status == XFER_OK);
    CHECK(end.pair->caps().inline_bytes == 100);
    CHECK(fabric.report() == "");
}

TEST_CASE("one that is not connected yet takes nothing") {
    FakeFabric fabric;
    auto loop = make_loop();
    End near(fabric.add(), *loop), far(fabric.add(), *loop);
    REQUIRE(near.create().status == XFER_OK);
    const Posted posted = near.post(far, 1, 1);
    CHECK(posted.admitted == Admitted::degraded);
    CHECK(posted.why.status == XFER_OK);
    CHECK(fabric.posts().calls == 0);
    CHECK(fabric.report() == "");
}

TEST_CASE("one that can't be connected is destroyed, and takes nothing") {
    for (const ibv_qp_state to : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        FakeFabric fabric;
        auto loop = make_loop();
        End near(fabric.add(), *loop), far(fabric.add(), *loop);
        REQUIRE(near.create().status == XFER_OK);
        REQUIRE(far.create().status == XFER_OK);
        fabric.fail_modify(to, 1, EIO);
        const Failure failure = near.pair->connect(far.pair->parameters());
        CHECK(failure.status == XFER_EIO);
        CHECK(failure.origin == XFER_ORIGIN_VERBS);
        CHECK(near.post(far, 1, 1).admitted == Admitted::degraded);
        near.pair->fail();
        CHECK(near.drained);
        CHECK(near.pair->destroy().status == XFER_OK);
        CHECK(fabric.report() == "");
    }
}

// ---- what is posted in part

TEST_CASE("a post list that is taken in part is accounted for, at every place") {
    for (const bool mute : {false, true})
        for (unsigned requests = 1; requests <= 6; ++requests)
            for (unsigned taken = 0; taken <= requests; ++taken)
                for (uint64_t others = 0; others < 3; ++others) {
                    CAPTURE(mute);
                    CAPTURE(requests);
                    CAPTURE(taken);
                    CAPTURE(others);
                    FakePersonality personality;
                    personality.null_bad_wr = mute;
                    Ends ends(personality);
                    for (uint64_t i = 0; i < others; ++i)
                        REQUIRE(ends.near.post(ends.far, 2, i).taken == 2);
                    ends.fabric.fail_post(1, taken, EIO);
                    const Posted posted = ends.near.post(ends.far, requests, 7);
                    const unsigned counted = mute ? requests : taken;
                    CHECK(posted.admitted == Admitted::granted);
                    CHECK(posted.taken == counted);
                    CHECK(posted.why.status == (counted ? XFER_EDEGRADED : XFER_EIO));
                    CHECK(posted.why.native == EIO);
                    CHECK(ends.near.pair->ledger().outstanding() == 2 * others + counted);
                    CHECK(ends.near.post(ends.far, 1, 8).admitted ==
                          (counted ? Admitted::degraded : Admitted::granted));
                    ends.end();
                    // Each once, and the last may have been there to tell of the orphans.
                    const uint64_t expected = others + 1;
                    CHECK(ends.near.ends.size() == expected);
                    CHECK(ends.near.errors.empty());
                    CHECK(ends.near.queue->stale() == 0);
                }
}

TEST_CASE("a list of several chains is accounted for, chain by chain, at every place") {
    for (const bool mute : {false, true})
        for (unsigned taken = 0; taken <= 9; ++taken)
            for (const uint64_t others : {uint64_t{0}, uint64_t{2}}) {
                CAPTURE(mute);
                CAPTURE(taken);
                CAPTURE(others);
                FakePersonality personality;
                personality.null_bad_wr = mute;
                Ends ends(personality);
                for (uint64_t i = 0; i < others; ++i)
                    REQUIRE(ends.near.post(ends.far, 2, i).taken == 2);
                ends.near.list.clear();
                const std::vector<unsigned> sizes{2, 1, 4, 2};
                for (unsigned size : sizes)
                    ends.near.add(ends.far, size, 10 + ends.near.list.chains().size());
                ends.fabric.fail_post(1, taken, EIO);
                const Posted posted = ends.near.pair->post(ends.near.list);
                const unsigned counted = mute ? 9 : taken;
                CHECK(posted.taken == counted);
                CHECK(posted.why.status == (counted ? XFER_EDEGRADED : XFER_EIO));
                CHECK(ends.near.pair->ledger().outstanding() == 2 * others + counted);
                CHECK(ends.near.pair->ledger().degraded() == (counted > 0));
                ends.end();
                std::vector<ChainEnd> ended(ends.near.ends.begin() + static_cast<long>(others),
                                            ends.near.ends.end());
                unsigned left = counted;
                for (size_t i = 0; left > 0; ++i) {
                    REQUIRE(i < ended.size());
                    CHECK(ended[i].cookie == 10 + i);
                    CHECK(ended[i].requests == std::min(left, sizes[i]));
                    left -= ended[i].requests;
                    if (i + 1 < ended.size()) CHECK(ended[i].requests == sizes[i]);
                }
                CHECK(ends.near.queue->stale() == 0);
            }
}

TEST_CASE("a list has a completion for each run of its chains, and they end in order") {
    const auto signaled = [](const std::vector<unsigned> &sizes, uint32_t slots) {
        Ends ends({}, {}, {.send_requests = slots});
        ends.near.list.clear();
        for (unsigned size : sizes)
            ends.near.add(ends.far, size, ends.near.list.chains().size());
        const FakePosts before = ends.fabric.posts();
        CHECK(ends.near.pair->post(ends.near.list).why.status == XFER_OK);
        CHECK(ends.fabric.posts().calls == before.calls + 1);
        ends.settle();
        REQUIRE(ends.near.ends.size() == sizes.size());
        for (uint32_t i = 0; i < sizes.size(); ++i)
            CHECK(ends.near.ends[i] == ChainEnd{i, sizes[i], How::done, 0});
        CHECK(ends.near.pair->ledger().outstanding() == 0);
        const uint64_t count = ends.fabric.posts().signaled - before.signaled;
        ends.end();
        return count;
    };
    CHECK(signaled({5}, 128) == 1);
    CHECK(signaled(std::vector<unsigned>(16, 1), 128) == 1);
    CHECK(signaled(std::vector<unsigned>(17, 1), 128) == 2);
    CHECK(signaled({10, 6, 1}, 128) == 2);
    CHECK(signaled({10, 7}, 128) == 2);
    CHECK(signaled({20, 20, 1}, 128) == 3);
    CHECK(signaled({1, 20, 1, 1}, 128) == 3);
    CHECK(signaled(std::vector<unsigned>(16, 1), 16) == 4);  // a quarter of the slots
    CHECK(signaled({1, 1, 1}, 3) == 3);
}

TEST_CASE("leak 1: a reservation that fails loses nothing of what was posted before") {
    Ends ends({}, {}, {.send_requests = 25});
    CHECK(ends.near.post(ends.far, 10, 1).taken == 10);
    CHECK(ends.near.post(ends.far, 10, 2).taken == 10);
    const Posted third = ends.near.post(ends.far, 10, 3);
    CHECK(third.admitted == Admitted::full);
    CHECK(third.taken == 0);
    ends.settle();
    CHECK(ends.near.ends.size() == 2);
    CHECK(ends.near.pair->ledger().outstanding() == 0);
    CHECK(ends.near.post(ends.far, 25, 3).taken == 25);
    ends.end();
}

TEST_CASE(
    "leak 2: nothing taken of a list leaves what is before it, and the queue pair, as it was") {
    Ends ends;
    CHECK(ends.near.post(ends.far, 10, 1).taken == 10);
    ends.fabric.fail_post(1, 0, ENOMEM);
    const Posted posted = ends.near.post(ends.far, 10, 2);
    CHECK(posted.taken == 0);
    CHECK(posted.why.status == XFER_EAGAIN);
    ends.settle();
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 10, How::done, 0}});
    ends.fabric.fail_post(1, 0, ENOMEM);
    CHECK(ends.near.post(ends.far, 10, 2).why.status == XFER_EIO);  // nothing will help
    CHECK(ends.near.post(ends.far, 10, 2).taken == 10);
    ends.end();
}

TEST_CASE("leak 4: orphans that succeed in silence do not keep a path degraded for ever") {
    Ends ends;
    ends.fabric.fail_post(1, 3, ENOMEM);
    CHECK(ends.near.post(ends.far, 5, 1).taken == 3);
    ends.settle();
    CHECK(ends.near.ends.empty());  // nothing tells of them
    CHECK(ends.near.pair->ledger().outstanding() == 3);
    CHECK(ends.near.post(ends.far, 1, 2).admitted == Admitted::degraded);
    ends.end(ends.near);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 3, How::unknown, 0}});
    // Another takes its place, and serves.
    ends.end(ends.far);
    ends.near.drained = ends.far.drained = false;
    REQUIRE(ends.near.create().status == XFER_OK);
    REQUIRE(ends.far.create().status == XFER_OK);
    ends.near.connect(ends.far);
    ends.far.connect(ends.near);
    CHECK(ends.near.post(ends.far, 5, 3).taken == 5);
    ends.settle();
    CHECK(ends.near.ends.back() == ChainEnd{3, 5, How::done, 0});
    ends.end();
}

TEST_CASE("leak 5: what has ended touches no memory any more, and is told no more") {
    Ends ends;
    CHECK(ends.near.post(ends.far, 5, 1).taken == 5);
    ends.fabric.step();
    ends.near.pair->fail();
    CHECK(ends.near.ends.empty());  // not before the adapter is done with it
    ends.settle();
    CHECK(ends.near.drained);
    CHECK(ends.near.ends.size() == 1);
    CHECK(ends.fabric.pairs().size() == 2);
    CHECK_FALSE(ends.fabric.step(ends.near.pair->handle()));
    ends.end();
    CHECK(ends.near.ends.size() == 1);
}

TEST_CASE("leak 6: a driver that names no request, or another's, is not believed") {
    SUBCASE("none") {
        FakePersonality personality;
        personality.null_bad_wr = true;
        Ends ends(personality);
        ends.fabric.fail_post(1, 2, EINVAL);
        CHECK(ends.near.post(ends.far, 5, 1).taken == 5);
        ends.end();
        CHECK(ends.near.ends.size() == 1);
    }
    SUBCASE("another's") {
        Ends ends;
        ibv_context_ops &ops = ends.near.port.context->ops;
        real = ops;
        ops.post_send = foreign_post;
        ends.fabric.fail_post(1, 2, EINVAL);
        CHECK(ends.near.post(ends.far, 5, 1).taken == 5);
        ops = real;
        ends.end();
        CHECK(ends.near.ends.size() == 1);
    }
}

TEST_CASE("leak 8: flushed requests that were not signaled are known as what they are") {
    Ends ends;
    CHECK(ends.near.post(ends.far, 5, 1).taken == 5);
    CHECK(ends.near.post(ends.far, 2, 2).taken == 2);
    ends.fabric.fail_request(ends.near.pair->handle(), 2, IBV_WC_REM_ACCESS_ERR);
    ends.settle();
    REQUIRE(ends.near.errors.size() == 1);
    CHECK(ends.near.errors[0].status == XFER_ESTALE);
    CHECK(ends.near.errors[0].native == IBV_WC_REM_ACCESS_ERR);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 5, How::failed, IBV_WC_REM_ACCESS_ERR},
                                                  {2, 2, How::failed, IBV_WC_WR_FLUSH_ERR}});
    CHECK(ends.near.queue->stale() == 0);
    CHECK(ends.near.pair->ledger().outstanding() == 0);
    CHECK(ends.near.post(ends.far, 1, 3).admitted == Admitted::degraded);
    ends.end();
}

TEST_CASE("a peer that does not answer is told as lost") {
    Ends ends;
    ends.fabric.fail_request(ends.near.pair->handle(), 1, IBV_WC_RETRY_EXC_ERR);
    CHECK(ends.near.post(ends.far, 1, 1).taken == 1);
    ends.settle();
    REQUIRE(ends.near.errors.size() == 1);
    CHECK(ends.near.errors[0].status == XFER_EPEERLOST);
    CHECK(ends.near.errors[0].origin == XFER_ORIGIN_VERBS);
    ends.end();
}

// ---- ending

TEST_CASE("a completion of a queue pair that is gone is not taken for one of its successor") {
    Ends ends(FakePersonality::reuses_numbers());
    const uint32_t qpn = ends.near.pair->parameters().qpn;
    REQUIRE(ends.near.post(ends.far, 4, 1).taken == 4);
    const uint64_t old = ends.near.list.requests()[3].wr_id;
    ends.end(ends.near);
    ends.end(ends.far);
    ends.near.drained = ends.far.drained = false;
    REQUIRE(ends.near.create().status == XFER_OK);
    REQUIRE(ends.far.create().status == XFER_OK);
    ends.near.connect(ends.far);
    ends.far.connect(ends.near);
    REQUIRE(ends.near.pair->parameters().qpn == qpn);
    REQUIRE(ends.near.post(ends.far, 4, 2).taken == 4);
    CHECK(ends.near.list.requests()[3].wr_id != old);
    const size_t before = ends.near.ends.size();
    tell_late(ends, old, IBV_WC_SUCCESS);
    CHECK(ends.near.ends.size() == before);
    CHECK(ends.near.queue->stale() == 1);
    CHECK(ends.near.pair->ledger().outstanding() == 4);
    ends.end();
}

TEST_CASE("what is told of a request that is over changes nothing") {
    Ends ends;
    REQUIRE(ends.near.post(ends.far, 2, 1).taken == 2);
    const uint64_t over = ends.near.list.requests()[1].wr_id;
    ends.settle();
    REQUIRE(ends.near.post(ends.far, 2, 2).taken == 2);
    for (const ibv_wc_status status : {IBV_WC_SUCCESS, IBV_WC_RETRY_EXC_ERR})
        tell_late(ends, over, status);
    CHECK(ends.near.ends.size() == 1);
    CHECK(ends.near.errors.empty());
    CHECK(ends.near.post(ends.far, 2, 3).taken == 2);
    ends.end();
}

TEST_CASE("of a completion that is no success, nothing but the status is believed") {
    Ends ends;
    REQUIRE(ends.near.post(ends.far, 2, 1).taken == 2);
    tell_late(ends, ends.near.list.requests()[1].wr_id, IBV_WC_RETRY_EXC_ERR);
    CHECK(ends.near.errors.size() == 1);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 2, How::failed, IBV_WC_RETRY_EXC_ERR}});
    ends.end();
}

TEST_CASE("it is drained when its last request is, not before") {
    Ends ends;
    REQUIRE(ends.near.post(ends.far, 1, 1).taken == 1);
    ends.near.pair->fail();
    REQUIRE(ends.fabric.step(ends.near.pair->handle()));
    ends.turn();
    CHECK(ends.near.ends.size() == 1);
    CHECK_FALSE(ends.near.drained);
    REQUIRE(ends.fabric.step(ends.near.pair->handle()));
    ends.turn();
    CHECK(ends.near.drained);
    ends.end();
}

TEST_CASE("a queue pair that is in use elsewhere is destroyed at a later try") {
    Verbs table = FakeFabric::verbs();
    table.destroy_qp = busy_destroy;
    FakeFabric fabric;
    auto loop = make_loop();
    End end(fabric.add(), *loop, table);
    REQUIRE(end.create().status == XFER_OK);
    busy = 2;
    for (int i = 0; i < 2; ++i) {
        const Failure failure = end.pair->destroy();
        CHECK(failure.status == XFER_EBUSY);
        CHECK(failure.origin == XFER_ORIGIN_VERBS);
        CHECK(end.pair->handle() != nullptr);
    }
    CHECK(end.pair->destroy().status == XFER_OK);
    CHECK(end.pair->handle() == nullptr);
    CHECK(end.pair->destroy().status == XFER_OK);  // it is
    CHECK(fabric.live().pairs == 0);
    CHECK(fabric.report() == "");
}

TEST_CASE("where an adapter flushes nothing, the owner destroys, and all ends") {
    Ends ends;
    CHECK(ends.near.post(ends.far, 3, 1).taken == 3);
    ends.fabric.fail_modify(IBV_QPS_ERR, 1, EIO);
    ends.near.pair->fail();
    ends.turn();
    CHECK_FALSE(ends.near.drained);
    CHECK(ends.near.ends.empty());
    ends.fabric.allow(Violation::busy_pair);
    CHECK(ends.near.pair->destroy().status == XFER_OK);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 3, How::unknown, 0}});
    CHECK(ends.near.pair->ledger().outstanding() == 0);
    CHECK_FALSE(ends.near.drained);
    ends.near.pair.reset();
    ends.end();
}

TEST_CASE("where there is no room for the drain, what was posted tells by itself") {
    Ends ends;
    CHECK(ends.near.post(ends.far, 3, 1).taken == 3);
    ends.fabric.fail_post(1, 0, ENOMEM);
    ends.near.pair->fail();
    ends.settle();
    CHECK(ends.near.drained);
    CHECK(ends.near.ends == std::vector<ChainEnd>{{1, 3, How::failed, IBV_WC_WR_FLUSH_ERR}});
    ends.end();
}

TEST_CASE("a chain may be followed by others, and the end begun, where its end is told") {
    Ends ends({}, {}, {.send_requests = 10});
    uint64_t next = 1;
    ends.near.on_end = [&] {
        CHECK(ends.near.ends.back().cookie == ends.near.ends.size());
        if (next < 20)
            CHECK(ends.near.post(ends.far, 5, ++next).taken == 5);
        else
            ends.near.pair->fail();
    };
    CHECK(ends.near.post(ends.far, 5, next).taken == 5);
    CHECK(ends.near.post(ends.far, 5, ++next).taken == 5);
    ends.settle();
    CHECK(ends.near.drained);
    CHECK(ends.near.ends.size() == 20);
    ends.end();
}

// ---- whatever happens

TEST_CASE("in any life, each chain ends once, and no slot or object is left") {
    uint64_t chains = 0, orphans = 0, errors = 0;
    for (uint32_t seed = 0; seed < 400; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        FakePersonality personality;
        personality.null_bad_wr = random() % 4 == 0;
        personality.reuse_numbers = random() % 2 == 0;
        personality.late_reads = random() % 2 == 0;
        const uint32_t slots = 1 + random() % 25;
        Ends ends(personality, {}, {.send_requests = slots});
        uint64_t begun = 0;
        for (int step = 0; step < 150; ++step) {
            const unsigned choice = random() % 16;
            if (choice < 6) {
                const auto size = static_cast<uint32_t>(1 + random() % slots);
                const bool refused = random() % 30 == 0;
                if (refused) ends.fabric.fail_post(1, random() % (size + 1), ENOMEM);
                const Dir dir = random() % 2 ? Dir::put : Dir::get;
                const Posted posted = ends.near.post(ends.far, size, begun, dir);
                begun += posted.taken > 0;
                orphans += posted.taken > 0 && posted.why.status != XFER_OK;
                ends.fabric.fail_post(0, 0, 0);  // where nothing was granted
            } else if (choice < 10) {
                ends.fabric.step();
            } else if (choice < 12) {
                ends.loop->turn(0);
            } else if (choice == 12) {
                ends.fabric.hold_completions(random() % 2 == 0);
            } else if (choice == 13 && random() % 30 == 0) {
                ends.fabric.fail_request(ends.near.pair->handle(), 1 + random() % 3,
                                         IBV_WC_REM_OP_ERR);
            } else if (choice == 14 && random() % 30 == 0) {
                ends.near.pair->fail();
            }
        }
        ends.fabric.hold_completions(false);
        ends.end();
        CHECK(ends.near.ends.size() == begun);
        for (uint64_t i = 0; i < begun; ++i)
            CHECK(ends.near.ends[i].cookie == i);
        CHECK(ends.near.queue->stale() == 0);
        chains += begun;
        errors += ends.near.errors.size();
    }
    CHECK(chains > 2'000);
    CHECK(orphans > 30);
    CHECK(errors > 30);
}
