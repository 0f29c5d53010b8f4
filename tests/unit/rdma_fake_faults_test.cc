// SPDX-License-Identifier: Apache-2.0
// Fake adapters fail as the test says, and as hardware does: statuses, flushes, links, calls.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "fake_verbs.h"
#include "fake_verbs_ends.h"

using namespace xfer::rdma;

namespace {

const Verbs &verbs = FakeFabric::verbs();

int post_write(FakeLine &line, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 7);
    request.send_flags = flags;
    return line.near.post(request);
}

ibv_qp_state state_of(FakeEnd &end) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    REQUIRE(verbs.query_qp(end.pair, &attributes, IBV_QP_STATE, &init) == 0);
    return attributes.qp_state;
}

std::vector<ibv_wc_status> statuses(const std::vector<ibv_wc> &entries) {
    std::vector<ibv_wc_status> all;
    for (const ibv_wc &entry : entries)
        all.push_back(entry.status);
    return all;
}

using Statuses = std::vector<ibv_wc_status>;
constexpr ibv_wc_status kOk = IBV_WC_SUCCESS, kFlushed = IBV_WC_WR_FLUSH_ERR;

}  // namespace

TEST_CASE("the k-th request fails, all behind it are flushed, unsignaled ones too") {
    for (const unsigned k : {1u, 2u, 3u}) {
        CAPTURE(k);
        FakeLine line;
        line.connect();
        line.fabric.fail_request(k == 2 ? nullptr : line.near.pair, k, IBV_WC_RETRY_EXC_ERR);
        for (int i = 0; i < 4; ++i)
            REQUIRE(post_write(line, i < 2 ? IBV_SEND_SIGNALED : 0) == 0);
        REQUIRE(line.near.receive(50, line.near.piece(100, 8)) == 0);
        CHECK(line.fabric.run() == 5);
        Statuses expected(std::min(k - 1, 2u), kOk);
        expected.push_back(IBV_WC_RETRY_EXC_ERR);
        expected.resize(expected.size() + 4 - k, kFlushed);
        expected.push_back(kFlushed);  // of the receive
        const auto entries = line.near.poll();
        CHECK(statuses(entries) == expected);
        CHECK(entries.back().wr_id == 50);
        CHECK(state_of(line.near) == IBV_QPS_ERR);
        CHECK(line.near.pair->state == IBV_QPS_RTS);  // as it was told last
        CHECK(state_of(line.far) == IBV_QPS_RTS);
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("of a failed completion four fields are valid") {
    FakeLine line;
    line.connect();
    line.near.modify(IBV_QPS_ERR);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    const ibv_wc entry = line.near.poll().at(0);
    CHECK(entry.wr_id == 1);
    CHECK(entry.status == kFlushed);
    CHECK(entry.qp_num == line.near.pair->qp_num);
    CHECK(entry.vendor_err == 0x80 + kFlushed);
    CHECK(entry.byte_len == 0xebebebeb);
    CHECK(entry.wc_flags == 0xebebebeb);
}

TEST_CASE("slots come back by failures, too") {
    FakeLine line({}, {}, {.sends = 4});
    line.connect();
    for (int i = 0; i < 4; ++i)
        REQUIRE(post_write(line, 0) == 0);
    line.near.modify(IBV_QPS_ERR);
    line.fabric.run();
    CHECK(line.near.poll(3).size() == 3);
    for (int i = 0; i < 3; ++i)
        REQUIRE(post_write(line, 0) == 0);
    CHECK(post_write(line, 0) == ENOMEM);
    CHECK(line.fabric.took(Violation::send_full));
    line.drain();
}

TEST_CASE("remote access errors end both queue pairs") {
    struct Row {
        const char *name;
        ibv_wr_opcode opcode;
        void (*spoil)(FakeLine &, ibv_send_wr &);
    };
    static constexpr Row kRows[] = {
        {"unknown key", IBV_WR_RDMA_WRITE,
         [](FakeLine &, ibv_send_wr &request) { request.wr.rdma.rkey += 0x1000; }},
        {"a local key", IBV_WR_RDMA_WRITE,
         [](FakeLine &line, ibv_send_wr &request) {
             request.wr.rdma.rkey = line.far.region->lkey;
         }},
        {"past the end", IBV_WR_RDMA_WRITE,
         [](FakeLine &, ibv_send_wr &request) { request.wr.rdma.remote_addr += 4089; }},
        {"before the start", IBV_WR_RDMA_READ,
         [](FakeLine &, ibv_send_wr &request) { request.wr.rdma.remote_addr -= 1; }},
        {"around the end of addresses", IBV_WR_RDMA_WRITE,
         [](FakeLine &, ibv_send_wr &request) { request.wr.rdma.remote_addr = UINT64_MAX - 3; }},
        {"an atomic past the end", IBV_WR_ATOMIC_FETCH_AND_ADD,
         [](FakeLine &, ibv_send_wr &request) { request.wr.atomic.remote_addr += 4096; }},
    };
    for (const Row &row : kRows) {
        CAPTURE(row.name);
        FakeLine line;
        line.connect();
        ibv_sge local = line.near.piece(0, 8);
        ibv_send_wr request = line.near.request(row.opcode, &local, line.far, 0);
        row.spoil(line, request);
        REQUIRE(line.far.receive(9, line.far.piece(0, 8)) == 0);
        REQUIRE(line.near.post(request) == 0);
        REQUIRE(post_write(line) == 0);
        line.fabric.run();
        CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_REM_ACCESS_ERR, kFlushed});
        CHECK(statuses(line.far.poll()) == Statuses{kFlushed});
        CHECK(state_of(line.near) == IBV_QPS_ERR);
        CHECK(state_of(line.far) == IBV_QPS_ERR);
        const auto events = line.there.take_async();
        REQUIRE(events.size() == 1);
        CHECK(events[0].event_type == IBV_EVENT_QP_ACCESS_ERR);
        CHECK(events[0].element.qp == line.far.pair);
        CHECK(line.here.take_async().empty());
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("region and queue pair of the target both have to permit it") {
    for (const int access :
         {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC})
        for (const bool region_denies : {false, true}) {
            CAPTURE(access);
            CAPTURE(region_denies);
            FakeLine line;
            line.connect();
            ibv_mr *region = verbs.reg_mr(line.far.domain, line.far.bytes.data(), 64,
                                          region_denies ? kAllAccess & ~access : kAllAccess);
            if (!region_denies) {
                ibv_qp_attr attributes{};
                attributes.qp_access_flags = static_cast<unsigned>(kAllAccess & ~access);
                REQUIRE(line.far.modify(attributes, IBV_QP_ACCESS_FLAGS) == 0);
            }
            ibv_sge local = line.near.piece(0, 8);
            const ibv_wr_opcode opcode = access == IBV_ACCESS_REMOTE_WRITE ? IBV_WR_RDMA_WRITE
                                         : access == IBV_ACCESS_REMOTE_READ
                                             ? IBV_WR_RDMA_READ
                                             : IBV_WR_ATOMIC_CMP_AND_SWP;
            ibv_send_wr request = line.near.request(opcode, &local, line.far, 0);
            (access == IBV_ACCESS_REMOTE_ATOMIC ? request.wr.atomic.rkey : request.wr.rdma.rkey) =
                region->rkey;
            REQUIRE(line.near.post(request) == 0);
            line.fabric.run();
            CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_REM_ACCESS_ERR});
            verbs.dereg_mr(region);
        }
}

TEST_CASE("a key of another domain, and an adapter without atomics") {
    FakeLine line({}, {.atomics = IBV_ATOMIC_NONE});
    line.connect();
    ibv_sge local = line.near.piece(0, 8);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0);
    FakeEnd other(line.there);
    SUBCASE("domain") {
        request.wr.rdma.rkey = other.region->rkey;
        request.wr.rdma.remote_addr = other.address(0);
    }
    SUBCASE("atomics") {
        request = line.near.request(IBV_WR_ATOMIC_FETCH_AND_ADD, &local, line.far, 0);
    }
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_REM_ACCESS_ERR});
}

TEST_CASE("a region has the addresses that it was given") {
    FakeLine line;
    line.connect();
    ibv_mr *region =
        verbs.reg_mr_iova2(line.far.domain, line.far.bytes.data() + 8, 8, 0x1000, kAllAccess);
    line.near.bytes[0] = 3;
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0);
    request.wr.rdma.rkey = region->rkey;
    request.wr.rdma.remote_addr = 0x1002;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{kOk});
    CHECK(line.far.bytes[10] == 3);
    verbs.dereg_mr(region);
}

TEST_CASE("a send without a receive: not ready, or it waits for one") {
    for (const uint8_t retries : {uint8_t{2}, uint8_t{7}}) {
        CAPTURE(retries);
        FakeLine line;
        ibv_qp_attr send = line.near.to_send();
        send.rnr_retry = retries;
        line.near.modify(line.near.to_init(), kToInit);
        line.near.modify(line.near.to_receive(line.far), kToReceive);
        line.near.modify(send, kToSend);
        line.far.connect(line.near);
        ibv_sge local = line.near.piece(0, 1);
        for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM})
            REQUIRE(line.near.post(line.near.request(opcode, &local, line.far, 0)) == 0);
        if (retries == 2) {
            line.fabric.run();
            CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_RNR_RETRY_EXC_ERR, kFlushed});
            CHECK(state_of(line.far) == IBV_QPS_RTS);
            continue;
        }
        for (uint64_t i = 0; i < 2; ++i) {
            CHECK(line.fabric.run() == 0);
            REQUIRE(line.far.receive(i, line.far.piece(0, 8)) == 0);
            CHECK(line.fabric.run() == 1);
        }
        CHECK(statuses(line.near.poll()) == Statuses{kOk, kOk});
        CHECK(line.far.poll().size() == 2);
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("who hears no answers does not wait for a receive") {
    FakeLine line;
    ibv_qp_attr send = line.near.to_send();
    send.rnr_retry = 7;
    line.near.modify(line.near.to_init(), kToInit);
    line.near.modify(line.near.to_receive(line.far), kToReceive);
    line.near.modify(send, kToSend);
    line.far.connect(line.near);
    line.fabric.cut(line.here, line.there, FakeCut::answers);
    ibv_sge local = line.near.piece(0, 1);
    REQUIRE(line.near.post(line.near.request(IBV_WR_SEND, &local, line.far, 0)) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});
}

TEST_CASE("a request that waits is counted once") {
    FakeLine line;
    ibv_qp_attr send = line.near.to_send();
    send.rnr_retry = 7;
    line.near.modify(line.near.to_init(), kToInit);
    line.near.modify(line.near.to_receive(line.far), kToReceive);
    line.near.modify(send, kToSend);
    line.far.connect(line.near);
    line.fabric.fail_request(line.near.pair, 2, IBV_WC_RETRY_EXC_ERR);
    ibv_sge local = line.near.piece(0, 1);
    REQUIRE(line.near.post(line.near.request(IBV_WR_SEND, &local, line.far, 0)) == 0);
    REQUIRE(post_write(line) == 0);
    CHECK(line.fabric.run() == 0);
    CHECK(line.fabric.run() == 0);
    REQUIRE(line.far.receive(1, line.far.piece(0, 8)) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{kOk, IBV_WC_RETRY_EXC_ERR});
    line.far.poll();
}

TEST_CASE("a receive whose region is gone ends both") {
    FakeLine line;
    line.connect();
    REQUIRE(line.far.receive(1, line.far.piece(0, 8)) == 0);
    verbs.dereg_mr(std::exchange(line.far.region, nullptr));
    CHECK(line.fabric.took(Violation::busy_region));
    ibv_send_wr request = {};
    request.opcode = IBV_WR_SEND;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_REM_OP_ERR});
    CHECK(statuses(line.far.poll()) == Statuses{IBV_WC_LOC_PROT_ERR});
    CHECK(line.fabric.report() == "");
}

TEST_CASE("adapters of two kinds of link do not meet") {
    FakeFabric fabric;
    FakeAdapter &ethernet = fabric.add(),
                &infiniband = fabric.add({.layer = LinkLayer::infiniband});
    FakeEnd near(ethernet), far(infiniband);
    REQUIRE(near.connect(far) == 0);
    far.modify(far.to_init(), kToInit);
    ibv_qp_attr receive = far.to_receive(near);
    receive.ah_attr.dlid = 1;
    receive.ah_attr.is_global = 1;
    receive.ah_attr.grh.dgid = near.port.address.gid;
    receive.ah_attr.grh.hop_limit = 1;
    REQUIRE(far.modify(receive, kToReceive) == 0);
    ibv_sge local = near.piece(0, 1);
    REQUIRE(near.post(near.request(IBV_WR_RDMA_WRITE, &local, far, 0)) == 0);
    fabric.run();
    CHECK(statuses(near.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});
    CHECK(fabric.report() == "");
}

TEST_CASE("a send that is longer than its receive ends both") {
    FakeLine line;
    line.connect();
    REQUIRE(line.far.receive(1, line.far.piece(0, 7)) == 0);
    ibv_sge local = line.near.piece(0, 8);
    REQUIRE(line.near.post(line.near.request(IBV_WR_SEND, &local, line.far, 0)) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_REM_INV_REQ_ERR});
    CHECK(statuses(line.far.poll()) == Statuses{IBV_WC_LOC_LEN_ERR});
    CHECK(state_of(line.far) == IBV_QPS_ERR);
}

TEST_CASE("a link that is cut loses requests, or their answers") {
    for (const FakeCut cut : {FakeCut::requests, FakeCut::answers})
        for (const ibv_wr_opcode opcode :
             {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
            CAPTURE(opcode);
            FakeLine line;
            line.connect();
            const bool landed = cut == FakeCut::answers;
            line.fabric.cut(line.there, line.here, cut);
            line.near.bytes[0] = 1, line.far.bytes[0] = 2;
            ibv_sge local = line.near.piece(0, 8);
            ibv_send_wr request = line.near.request(opcode, &local, line.far, 0);
            if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) request.wr.atomic.compare_add = 5;
            REQUIRE(line.near.post(request) == 0);
            line.fabric.run();
            CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});
            CHECK(line.near.bytes[0] == 1);
            const int written = opcode == IBV_WR_RDMA_WRITE  ? 1
                                : opcode == IBV_WR_RDMA_READ ? 2
                                                             : 7;
            CHECK(line.far.bytes[0] == (landed ? written : 2));
            CHECK(state_of(line.far) == IBV_QPS_RTS);
            CHECK(line.fabric.report() == "");
        }
}

TEST_CASE("a link that is whole again serves new queue pairs, and others all the time") {
    FakeLine line;
    line.connect();
    FakeAdapter &third = line.fabric.add();
    FakeEnd elsewhere(third), near(line.here);
    near.connect(elsewhere), elsewhere.connect(near);
    line.fabric.cut(line.here, line.there);
    ibv_sge local = near.piece(0, 1);
    REQUIRE(near.post(near.request(IBV_WR_RDMA_WRITE, &local, elsewhere, 0)) == 0);
    line.fabric.run();
    CHECK(statuses(near.poll()) == Statuses{kOk});
    line.fabric.mend(line.there, line.here);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{kOk});
}

TEST_CASE("a queue pair that is gone, or in error, answers nothing") {
    FakeLine line;
    line.connect();
    SUBCASE("gone") {
        verbs.destroy_qp(std::exchange(line.far.pair, nullptr));
    }
    SUBCASE("in error") {
        line.far.modify(IBV_QPS_ERR);
    }
    SUBCASE("reset") {
        line.far.modify(IBV_QPS_RESET);
    }
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});
    CHECK(line.far.bytes[7] == 0);
}

TEST_CASE("a number that was used again is not reached by the connection before") {
    FakeLine line(FakePersonality::reuses_numbers());
    line.connect();
    const uint32_t number = line.far.pair->qp_num;
    verbs.destroy_qp(std::exchange(line.far.pair, nullptr));
    FakeEnd near(line.here), far(line.there);
    REQUIRE(far.pair->qp_num == number);
    near.psn = line.near.psn + 77;
    near.connect(far), far.connect(near);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});
    CHECK(line.fabric.report() == "");
}

TEST_CASE("completions of a queue pair that was destroyed are gone, or stay under its number") {
    for (const bool stay : {false, true}) {
        CAPTURE(stay);
        FakeLine line({.reuse_numbers = true, .late_completions = stay});
        line.connect();
        FakeEnd shared(line.here);
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = shared.queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {4, 4, 1, 1, 0};
        verbs.destroy_qp(line.near.pair);
        line.near.pair = verbs.create_qp(line.near.domain, &attributes);
        line.near.connect(line.far);
        const uint32_t number = line.near.pair->qp_num;
        line.fabric.hold_completions(true);
        REQUIRE(post_write(line) == 0);
        REQUIRE(post_write(line) == 0);
        line.fabric.run();
        line.fabric.release_send(line.near.pair);
        verbs.destroy_qp(line.near.pair);
        CHECK(line.fabric.took(Violation::unpolled));
        line.near.pair = verbs.create_qp(line.near.domain, &attributes);
        CHECK(line.near.pair->qp_num == number);
        const auto entries = shared.poll();
        REQUIRE(entries.size() == (stay ? 2 : 0));
        if (stay) CHECK(entries[1].qp_num == number);
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("completions that stay give no slots back to the life after them") {
    FakeLine line({.late_completions = true}, {}, {.sends = 4});
    line.connect();
    for (int i = 0; i < 4; ++i)
        REQUIRE(post_write(line) == 0);
    line.fabric.run();
    REQUIRE(line.near.modify(IBV_QPS_RESET) == 0);
    CHECK(line.fabric.took(Violation::unpolled));
    REQUIRE(line.far.modify(IBV_QPS_RESET) == 0);
    line.connect();
    for (int i = 0; i < 4; ++i)
        REQUIRE(post_write(line) == 0);
    CHECK(line.near.poll().size() == 4);
    CHECK(post_write(line) == ENOMEM);
    CHECK(line.fabric.took(Violation::send_full));
    line.fabric.run();
    CHECK(line.near.poll().size() == 4);
    CHECK(post_write(line) == 0);
    line.drain();
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a post takes k of n, for every k") {
    for (const bool silent : {false, true})
        for (unsigned k = 0; k <= 5; ++k) {
            CAPTURE(silent);
            CAPTURE(k);
            FakeLine line({.null_bad_wr = silent});
            line.connect();
            ibv_sge local = line.near.piece(0, 1);
            ibv_send_wr chain[5], *bad = chain;
            for (size_t i = 0; i < 5; ++i) {
                chain[i] = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0);
                chain[i].next = i < 4 ? &chain[i + 1] : nullptr;
            }
            line.fabric.fail_post(2, k, EIO);
            CHECK(post_write(line) == 0);
            CHECK(ibv_post_send(line.near.pair, chain, &bad) == EIO);
            CHECK(bad == (silent || k == 5 ? nullptr : &chain[k]));
            CHECK(line.fabric.run() == 1 + k);
            CHECK(line.near.poll().size() == 1 + k);
            CHECK(post_write(line) == 0);
            const FakePosts posts = line.fabric.posts();
            CHECK(posts.calls == 3);
            CHECK(posts.requests == 2 + k);
            CHECK(posts.signaled == 2 + k);
            CHECK(line.fabric.report() == "");
            line.drain();
        }
}

TEST_CASE("each call fails the k-th time, and leaves nothing") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    ibv_context *context = adapter.context();
    FakeEnd end(adapter, {}, true);
    const FakeCounts before = fabric.live();
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = end.queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {1, 1, 1, 1, 0};
    ibv_qp_attr state{};
    const auto check = [&](FakeCall call, auto create, auto destroy) {
        fabric.fail_call(call, 2, ENOSPC);
        auto *first = create();
        REQUIRE(first != nullptr);
        errno = 0;
        CHECK(create() == nullptr);
        CHECK(errno == ENOSPC);
        auto *third = create();
        REQUIRE(third != nullptr);
        CHECK(destroy(first) == 0);
        CHECK(destroy(third) == 0);
        CHECK(fabric.live() == before);
    };
    check(
        FakeCall::alloc_pd, [&] { return verbs.alloc_pd(context); }, verbs.dealloc_pd);
    check(
        FakeCall::reg_mr, [&] { return verbs.reg_mr(end.domain, end.bytes.data(), 8, 0); },
        verbs.dereg_mr);
    check(
        FakeCall::create_comp_channel, [&] { return verbs.create_comp_channel(context); },
        verbs.destroy_comp_channel);
    check(
        FakeCall::create_cq, [&] { return verbs.create_cq(context, 1, nullptr, end.channel, 0); },
        verbs.destroy_cq);
    check(
        FakeCall::create_qp, [&] { return verbs.create_qp(end.domain, &attributes); },
        verbs.destroy_qp);
    const auto check_once = [&](FakeCall call, auto again) {
        fabric.fail_call(call, 1, EIO);
        CHECK(again() == EIO);
        CHECK(again() == 0);
    };
    end.modify(end.to_init(), kToInit);
    check_once(FakeCall::query_qp,
               [&] { return verbs.query_qp(end.pair, &state, IBV_QP_STATE, &attributes); });
    check_once(FakeCall::req_notify_cq, [&] { return ibv_req_notify_cq(end.queue, 0); });
    check_once(FakeCall::post_recv, [&] { return end.receive(1, end.piece(0, 8)); });
    CHECK(fabric.report() == "");
}

TEST_CASE("each step of a queue pair can fail, and can be made again") {
    for (const ibv_qp_state step : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        FakeLine line;
        line.fabric.fail_modify(step, 1, EIO);
        CHECK(line.near.connect(line.far) == EIO);
        CHECK(state_of(line.near) == step - 1);
        CHECK(line.near.modify(IBV_QPS_RESET) == 0);
        CHECK(line.near.connect(line.far) == 0);
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("a queue pair that was in RTS and RESET completes nothing on an eRDMA adapter") {
    for (const bool final : {false, true}) {
        CAPTURE(final);
        FakeLine line(final ? FakePersonality::erdma() : FakePersonality::strict());
        line.connect();
        REQUIRE(line.near.modify(IBV_QPS_RESET) == 0);
        REQUIRE(line.far.modify(IBV_QPS_RESET) == 0);
        line.connect();
        REQUIRE(post_write(line) == 0);
        CHECK(line.fabric.run() == (final ? 0 : 1));
        CHECK(line.near.poll().size() == (final ? 0 : 1));
        if (!final) continue;
        FakeEnd fresh(line.here);
        REQUIRE(line.far.modify(IBV_QPS_RESET) == 0);
        fresh.connect(line.far), line.far.connect(fresh);
        ibv_sge local = fresh.piece(0, 1);
        REQUIRE(fresh.post(fresh.request(IBV_WR_RDMA_WRITE, &local, line.far, 7)) == 0);
        line.fabric.run();
        CHECK(statuses(fresh.poll()) == Statuses{IBV_WC_RETRY_EXC_ERR});  // nor does it answer
        line.near.modify(IBV_QPS_ERR);
        CHECK(line.fabric.run() == 0);
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        CHECK(line.fabric.took(Violation::busy_pair));
    }
}

TEST_CASE("a queue pair that was RESET before RTS is as new on an eRDMA adapter") {
    FakeLine line(FakePersonality::erdma());
    line.near.modify(line.near.to_init(), kToInit);
    line.near.modify(IBV_QPS_RESET);
    line.connect();
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{kOk});
}

TEST_CASE("reads that are late have happened before a failure behind them") {
    FakeLine line({.late_reads = true});
    line.connect();
    line.far.bytes[3] = 9;
    ibv_sge into = line.near.piece(100, 1);
    REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_READ, &into, line.far, 3)) == 0);
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr bad = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0);
    bad.wr.rdma.rkey = 0;
    REQUIRE(line.near.post(bad) == 0);
    line.fabric.run();
    CHECK(statuses(line.near.poll()) == Statuses{kOk, IBV_WC_REM_ACCESS_ERR});
    CHECK(line.near.bytes[100] == 9);
    CHECK(state_of(line.far) == IBV_QPS_ERR);
}

TEST_CASE("writes of a queue pair that was told to stop land late, while the other end lives") {
    enum class Ends : uint8_t { nothing, pair, key, link };
    for (const Ends ends : {Ends::nothing, Ends::pair, Ends::key, Ends::link}) {
        CAPTURE(static_cast<int>(ends));
        FakeLine line({.late_writes = true});
        line.connect();
        line.near.bytes[0] = 9;
        REQUIRE(post_write(line) == 0);
        line.near.modify(IBV_QPS_ERR);
        line.fabric.run();
        CHECK(statuses(line.near.poll()) == Statuses{kFlushed});
        CHECK(line.fabric.late_writes() == 1);
        CHECK(line.far.bytes[7] == 0);
        line.near.bytes[0] = 1;  // it is the program's again
        if (ends == Ends::pair) line.far.modify(IBV_QPS_ERR);
        if (ends == Ends::key) {
            REQUIRE(verbs.dereg_mr(line.far.region) == 0);
            line.far.region = nullptr;
        }
        if (ends == Ends::link) line.fabric.cut(line.here, line.there);
        line.fabric.land();
        line.fabric.land();
        CHECK(line.far.bytes[7] == (ends == Ends::nothing ? 9 : 0));
        CHECK(line.fabric.landed() == (ends == Ends::nothing ? 1 : 0));
    }
}

TEST_CASE("nothing lands late behind a request that failed, or one that is no write") {
    for (const bool fails : {true, false}) {
        FakeLine line({.late_writes = true});
        line.connect();
        line.near.bytes[0] = 9;
        if (fails) line.fabric.fail_request(line.near.pair, 1, IBV_WC_RETRY_EXC_ERR);
        ibv_sge into = line.near.piece(100, 1);
        REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_READ, &into, line.far, 3)) == 0);
        REQUIRE(post_write(line) == 0);
        if (!fails) line.near.modify(IBV_QPS_ERR);
        line.fabric.run();
        line.near.poll();
        line.fabric.land();
        CHECK(line.fabric.late_writes() == 0);
        CHECK(line.far.bytes[7] == 0);
    }
}

TEST_CASE("events of the device are kept for the test") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_PORT_ERR;
    adapter.raise_async(event);
    const auto events = adapter.take_async();
    REQUIRE(events.size() == 1);
    CHECK(events[0].event_type == IBV_EVENT_PORT_ERR);
    CHECK(adapter.take_async().empty());
}

// In a child, as the end of such a fabric ends the program.
TEST_CASE("what is left alive, or was broken unseen, ends the program") {
    const auto killed_by = [](auto leave) {
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child == 0) {
            std::signal(SIGABRT, SIG_DFL);
            if (!std::freopen("/dev/null", "w", stderr)) ::_exit(2);
            {
                FakeFabric fabric;
                leave(fabric.add());
            }
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    };
    CHECK(killed_by([](FakeAdapter &adapter) { verbs.alloc_pd(adapter.context()); }) == SIGABRT);
    CHECK(killed_by([](FakeAdapter &) { verbs.get_device_list(nullptr); }) == SIGABRT);
    CHECK(killed_by([](FakeAdapter &adapter) {
              ibv_device **list = verbs.get_device_list(nullptr);
              ibv_context *context = verbs.open_device(list[0]);
              verbs.free_device_list(list);
              ibv_async_event event{};
              event.event_type = IBV_EVENT_PORT_ERR;
              adapter.raise_async(event);
              verbs.get_async_event(context, &event);
              verbs.close_device(context);
          }) == SIGABRT);
    CHECK(killed_by([](FakeAdapter &adapter) {
              FakeEnd end(adapter);
              ibv_req_notify_cq(end.queue, 0);
          }) == SIGABRT);
    CHECK(killed_by([](FakeAdapter &adapter) { const FakeEnd end(adapter); }) == 0);
}
