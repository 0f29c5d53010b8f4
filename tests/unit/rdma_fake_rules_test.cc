// SPDX-License-Identifier: Apache-2.0
// Fake adapters see it when a rule of verbs is broken: each one, once.
#include <doctest/doctest.h>

#include <cerrno>
#include <utility>

#include "fake_verbs.h"
#include "fake_verbs_ends.h"

using namespace xfer::rdma;

namespace {

const Verbs &verbs = FakeFabric::verbs();

// It was broken, and no other.
void check_only(FakeFabric &fabric, Violation violation) {
    CHECK(fabric.took(violation));
    CHECK(fabric.report() == "");
}

int post_write(FakeLine &line) {
    ibv_sge local = line.near.piece(0, 1);
    return line.near.post(line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 7));
}

// The only completion of the near end once all is executed.
ibv_wc_status outcome(FakeLine &line) {
    line.fabric.run();
    const auto entries = line.near.poll();
    REQUIRE(entries.size() == 1);
    return entries[0].status;
}

}  // namespace

TEST_CASE("domains, queues and channels end after what is in them") {
    FakeLine line({}, {}, {}, true);
    CHECK(verbs.dealloc_pd(line.near.domain) == EBUSY);
    check_only(line.fabric, Violation::busy_domain);
    CHECK(verbs.destroy_cq(line.near.queue) == EBUSY);
    check_only(line.fabric, Violation::busy_queue);
    CHECK(verbs.destroy_comp_channel(line.near.channel) == EBUSY);
    check_only(line.fabric, Violation::busy_channel);
    verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
    CHECK(verbs.dealloc_pd(line.near.domain) == EBUSY);  // the region is left
    check_only(line.fabric, Violation::busy_domain);
}

TEST_CASE("what is destroyed is not used") {
    FakeLine line;
    ibv_qp *pair = std::exchange(line.near.pair, nullptr);
    verbs.destroy_qp(pair);
    CHECK(verbs.destroy_qp(pair) == EINVAL);
    check_only(line.fabric, Violation::use_after_destroy);
    ibv_mr *region = std::exchange(line.near.region, nullptr);
    verbs.dereg_mr(region);
    CHECK(verbs.dereg_mr(region) == EINVAL);
    check_only(line.fabric, Violation::use_after_destroy);
    ibv_cq *queue = std::exchange(line.near.queue, nullptr);
    verbs.destroy_cq(queue);
    ibv_wc entry;
    CHECK(ibv_poll_cq(queue, 1, &entry) == -1);
    check_only(line.fabric, Violation::use_after_destroy);
}

TEST_CASE("a queue pair ends when its requests have") {
    FakeLine line;
    line.connect();
    REQUIRE(post_write(line) == 0);
    SUBCASE("not flushed") {
        line.near.modify(IBV_QPS_ERR);
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        check_only(line.fabric, Violation::busy_pair);
    }
    SUBCASE("flushed and not polled") {
        line.near.modify(IBV_QPS_ERR);
        line.fabric.run();
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        check_only(line.fabric, Violation::unpolled);
    }
    SUBCASE("flushed and polled") {
        line.near.modify(IBV_QPS_ERR);
        CHECK(outcome(line) == IBV_WC_WR_FLUSH_ERR);
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        CHECK(line.fabric.report() == "");
    }
    SUBCASE("reset") {
        line.near.modify(IBV_QPS_RESET);
        check_only(line.fabric, Violation::busy_pair);
    }
    SUBCASE("reset and not polled") {
        line.fabric.run();
        line.near.modify(IBV_QPS_RESET);
        check_only(line.fabric, Violation::unpolled);
        CHECK(line.near.poll().empty());
    }
    SUBCASE("receives too") {
        REQUIRE(line.far.receive(1, line.far.piece(0, 8)) == 0);
        verbs.destroy_qp(std::exchange(line.far.pair, nullptr));
        check_only(line.fabric, Violation::busy_pair);
        CHECK(outcome(line) == IBV_WC_RETRY_EXC_ERR);
    }
}

TEST_CASE("receives of a queue pair that never came to RTR do not keep it") {
    FakeLine line;
    line.near.modify(line.near.to_init(), kToInit);
    REQUIRE(line.near.receive(1, line.near.piece(0, 8)) == 0);
    verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a region outlives requests until it is known that they are over") {
    FakeLine line;
    line.connect();
    REQUIRE(post_write(line) == 0);
    const auto deregister = [](FakeEnd &end) {
        return verbs.dereg_mr(std::exchange(end.region, nullptr));
    };
    SUBCASE("posted") {
        CHECK(deregister(line.near) == 0);
        check_only(line.fabric, Violation::busy_region);
        CHECK(outcome(line) == IBV_WC_LOC_PROT_ERR);
    }
    SUBCASE("executed, not polled") {
        line.fabric.run();
        CHECK(deregister(line.near) == 0);
        check_only(line.fabric, Violation::busy_region);
        line.near.poll();
    }
    SUBCASE("polled") {
        CHECK(outcome(line) == IBV_WC_SUCCESS);
        CHECK(deregister(line.near) == 0);
        CHECK(line.fabric.report() == "");
    }
    SUBCASE("of the target: it may go") {
        CHECK(deregister(line.far) == 0);
        CHECK(outcome(line) == IBV_WC_REM_ACCESS_ERR);
        CHECK(line.fabric.report() == "");
    }
    SUBCASE("under a receive") {
        CHECK(outcome(line) == IBV_WC_SUCCESS);
        REQUIRE(line.far.receive(1, line.far.piece(0, 8)) == 0);
        CHECK(deregister(line.far) == 0);
        check_only(line.fabric, Violation::busy_region);
        line.drain();
    }
}

TEST_CASE("states follow each other, with what each needs") {
    FakeLine line;
    FakeEnd &end = line.near;
    const auto modify = [&end](ibv_qp_attr attributes, int mask) {
        return end.modify(attributes, mask);
    };
    const ibv_qp_attr init = end.to_init(), receive = end.to_receive(line.far),
                      send = end.to_send();
    // Each attribute left out is missed, in each of the three steps.
    const auto check_each_needed = [&](const ibv_qp_attr &attributes, int mask) {
        for (int bit = 1; bit <= mask; bit <<= 1)
            if ((mask & bit) && bit != IBV_QP_STATE) {
                CHECK(modify(attributes, mask & ~bit) == EINVAL);
                check_only(line.fabric, Violation::attributes);
            }
        CHECK(modify(attributes, mask | IBV_QP_QKEY) == EINVAL);
        check_only(line.fabric, Violation::attributes);
        CHECK(modify(attributes, mask) == 0);
    };
    CHECK(modify(receive, kToReceive) == EINVAL);
    check_only(line.fabric, Violation::transition);
    check_each_needed(init, kToInit);
    CHECK(modify(send, kToSend) == EINVAL);
    check_only(line.fabric, Violation::transition);
    check_each_needed(receive, kToReceive);
    CHECK(modify(init, kToInit) == EINVAL);
    check_only(line.fabric, Violation::transition);
    check_each_needed(send, kToSend);
    CHECK(modify(receive, kToReceive) == EINVAL);
    check_only(line.fabric, Violation::transition);
    ibv_qp_attr again{};
    again.qp_state = IBV_QPS_RTS;
    again.cur_qp_state = IBV_QPS_SQD;
    CHECK(modify(again, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
    check_only(line.fabric, Violation::transition);
    CHECK(end.modify(IBV_QPS_SQD) == 0);
    CHECK(end.modify(IBV_QPS_RTS) == 0);
    CHECK(end.modify(IBV_QPS_ERR) == 0);
    CHECK(end.modify(IBV_QPS_RTS) == EINVAL);
    check_only(line.fabric, Violation::transition);
    CHECK(end.modify(IBV_QPS_RESET) == 0);
    CHECK(modify(init, kToInit) == 0);
}

TEST_CASE("values that no queue pair can have") {
    struct Row {
        const char *name;
        Violation violation;
        void (*spoil)(ibv_qp_attr &);
        LinkLayer layer = LinkLayer::ethernet;
    };
    static constexpr Row kInit[] = {
        {"port", Violation::address, [](ibv_qp_attr &to) { to.port_num = 2; }},
        {"pkey", Violation::address, [](ibv_qp_attr &to) { to.pkey_index = 1; }},
        {"access", Violation::access_flags,
         [](ibv_qp_attr &to) { to.qp_access_flags = IBV_ACCESS_MW_BIND; }},
    };
    static constexpr Row kReceive[] = {
        {"mtu", Violation::mtu, [](ibv_qp_attr &to) { to.path_mtu = IBV_MTU_4096; }},
        {"no mtu", Violation::mtu, [](ibv_qp_attr &to) { to.path_mtu = ibv_mtu{}; }},
        {"number", Violation::attributes, [](ibv_qp_attr &to) { to.dest_qp_num = 1 << 24; }},
        {"psn", Violation::attributes, [](ibv_qp_attr &to) { to.rq_psn = 1 << 24; }},
        {"reads", Violation::reads, [](ibv_qp_attr &to) { to.max_dest_rd_atomic = 17; }},
        {"timer", Violation::attributes, [](ibv_qp_attr &to) { to.min_rnr_timer = 32; }},
        {"route", Violation::address, [](ibv_qp_attr &to) { to.ah_attr.port_num = 0; }},
        {"gid", Violation::address, [](ibv_qp_attr &to) { to.ah_attr.is_global = 0; }},
        {"index", Violation::address, [](ibv_qp_attr &to) { to.ah_attr.grh.sgid_index = 1; }},
        {"hops", Violation::address, [](ibv_qp_attr &to) { to.ah_attr.grh.hop_limit = 0; }},
        {"lid", Violation::address, [](ibv_qp_attr &to) { to.ah_attr.dlid = 0; },
         LinkLayer::infiniband},
    };
    static constexpr Row kSend[] = {
        {"psn", Violation::attributes, [](ibv_qp_attr &to) { to.sq_psn = 1 << 24; }},
        {"reads", Violation::reads, [](ibv_qp_attr &to) { to.max_rd_atomic = 17; }},
        {"timeout", Violation::attributes, [](ibv_qp_attr &to) { to.timeout = 32; }},
        {"retries", Violation::attributes, [](ibv_qp_attr &to) { to.retry_cnt = 8; }},
        {"rnr retries", Violation::attributes, [](ibv_qp_attr &to) { to.rnr_retry = 8; }},
    };
    const auto check = [](const Row &row, FakeEnd &end, ibv_qp_attr attributes, int mask,
                          FakeFabric &fabric) {
        CAPTURE(row.name);
        row.spoil(attributes);
        CHECK(end.modify(attributes, mask) == EINVAL);
        check_only(fabric, row.violation);
    };
    for (const LinkLayer layer : {LinkLayer::ethernet, LinkLayer::infiniband}) {
        FakeLine line({}, {.layer = layer, .mtu = IBV_MTU_1024});
        FakeEnd &end = line.near;
        for (const Row &row : kInit)
            check(row, end, end.to_init(), kToInit, line.fabric);
        end.modify(end.to_init(), kToInit);
        for (const Row &row : kReceive)
            if (row.layer == layer)
                check(row, end, end.to_receive(line.far), kToReceive, line.fabric);
        end.modify(end.to_receive(line.far), kToReceive);
        for (const Row &row : kSend)
            check(row, end, end.to_send(), kToSend, line.fabric);
        CHECK(end.modify(end.to_send(), kToSend) == 0);
    }
}

TEST_CASE("a dead peer has to be noticed") {
    for (const bool retries : {false, true}) {
        FakeLine line;
        line.connect();
        FakeEnd other(line.here);
        other.modify(other.to_init(), kToInit);
        other.modify(other.to_receive(line.far), kToReceive);
        ibv_qp_attr attributes = other.to_send();
        (retries ? attributes.retry_cnt : attributes.timeout) = retries ? 7 : 0;
        CHECK(other.modify(attributes, kToSend) == 0);
        check_only(line.fabric, Violation::endless);
        ibv_sge local = other.piece(0, 1);
        REQUIRE(other.post(other.request(IBV_WR_RDMA_WRITE, &local, line.far, 0)) == 0);
        CHECK(line.fabric.run() == 0);  // it belongs to another, and tries for ever
        other.modify(IBV_QPS_ERR);
        CHECK(line.fabric.run() == 1);
        other.poll();
    }
}

TEST_CASE("nothing is posted before its state") {
    FakeLine line;
    ibv_send_wr write = line.near.request(IBV_WR_RDMA_WRITE, nullptr, line.far, 0), *bad = nullptr;
    CHECK(line.near.receive(1, line.near.piece(0, 8)) == EINVAL);
    check_only(line.fabric, Violation::post_state);
    const auto check_refused = [&] {
        CHECK(ibv_post_send(line.near.pair, &write, &bad) == EINVAL);
        CHECK(bad == &write);
        check_only(line.fabric, Violation::post_state);
    };
    check_refused();
    line.near.modify(line.near.to_init(), kToInit);
    check_refused();
    line.near.modify(line.near.to_receive(line.far), kToReceive);
    check_refused();
    line.near.modify(line.near.to_send(), kToSend);
    CHECK(ibv_post_send(line.near.pair, &write, &bad) == 0);
    line.near.modify(IBV_QPS_ERR);
    CHECK(ibv_post_send(line.near.pair, &write, &bad) == 0);  // and is flushed
    line.fabric.run();
    const auto entries = line.near.poll();
    REQUIRE(entries.size() == 2);
    CHECK(entries[1].status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("two ends have one MTU, and each other's numbers") {
    FakeLine line;
    line.connect();
    FakeEnd third(line.here);
    third.psn = line.near.psn;
    const auto write = [&](Violation violation) {
        ibv_sge local = third.piece(0, 1);
        REQUIRE(third.post(third.request(IBV_WR_RDMA_WRITE, &local, line.far, 0)) == 0);
        line.fabric.run();
        CHECK(third.poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
        check_only(line.fabric, violation);
    };
    SUBCASE("numbers") {
        third.connect(line.far);
        write(Violation::crossed);
    }
    SUBCASE("mtu") {
        FakeEnd fourth(line.there);
        third.modify(third.to_init(), kToInit);
        ibv_qp_attr small = third.to_receive(fourth);
        small.path_mtu = IBV_MTU_1024;
        third.modify(small, kToReceive);
        third.modify(third.to_send(), kToSend);
        fourth.connect(third);
        write(Violation::mtu);
    }
}

TEST_CASE("sequence numbers that differ: nothing arrives, ever") {
    FakeLine line;
    line.connect();
    FakeEnd near(line.here), far(line.there);
    near.connect(far);
    near.psn += 1;  // as far is told
    far.connect(near);
    ibv_sge local = near.piece(0, 1);
    near.bytes[0] = 1;
    REQUIRE(near.post(near.request(IBV_WR_RDMA_WRITE, &local, far, 0)) == 0);
    line.fabric.run();
    CHECK(near.poll().at(0).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(far.bytes[0] == 0);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("sequence numbers go on by packets, and wrap") {
    FakeLine line({}, {.mtu = IBV_MTU_256});
    line.near.psn = 0xfffffe, line.far.psn = 3;
    line.near.connect(line.far), line.far.connect(line.near);
    ibv_sge local = line.near.piece(0, 1000);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0)) == 0);
        CHECK(outcome(line) == IBV_WC_SUCCESS);
    }
    CHECK(line.fabric.report() == "");
}

TEST_CASE("pieces lie in a region of the domain that permits what is done") {
    FakeLine line;
    line.connect();
    FakeEnd other(line.here);
    ibv_mr *read_only = verbs.reg_mr(line.near.domain, line.near.bytes.data(), 64, 0);
    const ibv_sge good = line.near.piece(0, 8);
    struct Row {
        const char *name;
        ibv_sge piece;
        ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
    };
    for (const Row &row : {
             Row{"unknown key", {good.addr, 8, 0x77}},
             Row{"remote key", {good.addr, 8, line.near.region->rkey}},
             Row{"past the end", {good.addr + 4090, 8, good.lkey}},
             Row{"before the start", {good.addr - 1, 8, good.lkey}},
             Row{"another domain", other.piece(0, 8)},
             Row{"a read into what is not written",
                 {good.addr, 8, read_only->lkey},
                 IBV_WR_RDMA_READ},
         }) {
        CAPTURE(row.name);
        FakeEnd near(line.here);
        // The keys above are of the domain of line.near.
        std::swap(near.domain, line.near.domain), std::swap(near.region, line.near.region);
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = near.queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {1, 1, 1, 1, 0};
        verbs.destroy_qp(near.pair);
        near.pair = verbs.create_qp(near.domain, &attributes);
        FakeEnd far(line.there);
        near.connect(far), far.connect(near);
        ibv_sge local = row.piece;
        CHECK(near.post(near.request(row.opcode, &local, far, 0)) == 0);
        check_only(line.fabric, Violation::lkey);
        line.fabric.run();
        CHECK(near.poll().at(0).status == IBV_WC_LOC_PROT_ERR);
        std::swap(near.domain, line.near.domain), std::swap(near.region, line.near.region);
    }
    CHECK(line.near.receive(1, {good.addr, 8, read_only->lkey}) == 0);
    check_only(line.fabric, Violation::lkey);
    line.drain();
    verbs.dereg_mr(read_only);
}

TEST_CASE("no more than granted: pieces, inline bytes, requests, receives") {
    FakeLine line({}, {.inline_bytes = 12}, {.sends = 4, .receives = 2});
    line.connect();
    ibv_sge pieces[5];
    for (ibv_sge &piece : pieces)
        piece = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, pieces, line.far, 0);
    SUBCASE("pieces") {
        request.num_sge = 5;
        CHECK(line.near.post(request) == EINVAL);
        check_only(line.fabric, Violation::pieces);
        ibv_recv_wr receive{1, nullptr, pieces, 5}, *bad = nullptr;
        CHECK(ibv_post_recv(line.near.pair, &receive, &bad) == EINVAL);
        CHECK(bad == &receive);
        check_only(line.fabric, Violation::pieces);
    }
    SUBCASE("pieces of a read") {
        FakeAdapterOptions options;
        options.limits.read_pieces = 2;
        FakeLine narrow({}, options);
        narrow.connect();
        ibv_sge two[] = {narrow.near.piece(0, 1), narrow.near.piece(4, 1), narrow.near.piece(8, 1)};
        ibv_send_wr read = narrow.near.request(IBV_WR_RDMA_READ, two, narrow.far, 0);
        read.num_sge = 2;
        CHECK(narrow.near.post(read) == 0);
        read.num_sge = 3;
        CHECK(narrow.near.post(read) == EINVAL);
        check_only(narrow.fabric, Violation::pieces);
        read.opcode = IBV_WR_RDMA_WRITE;
        CHECK(narrow.near.post(read) == 0);
        narrow.drain();
    }
    SUBCASE("inline") {
        pieces[0].length = 12;
        request.send_flags |= IBV_SEND_INLINE;
        CHECK(line.near.post(request) == 0);
        pieces[0].length = 13;
        CHECK(line.near.post(request) == EINVAL);
        check_only(line.fabric, Violation::inline_length);
    }
    SUBCASE("requests: those before are posted") {
        ibv_send_wr chain[6], *bad = nullptr;
        for (size_t i = 0; i < 6; ++i) {
            chain[i] = line.near.request(IBV_WR_RDMA_WRITE, pieces, line.far, 0);
            chain[i].next = i < 5 ? &chain[i + 1] : nullptr;
        }
        CHECK(ibv_post_send(line.near.pair, chain, &bad) == ENOMEM);
        CHECK(bad == &chain[4]);
        check_only(line.fabric, Violation::send_full);
        CHECK(line.fabric.run() == 4);
        CHECK(line.near.poll().size() == 4);
        CHECK(ibv_post_send(line.near.pair, bad, &bad) == 0);
        CHECK(line.fabric.run() == 2);
    }
    SUBCASE("receives") {
        CHECK(line.near.receive(1, pieces[0]) == 0);
        CHECK(line.near.receive(2, pieces[0]) == 0);
        CHECK(line.near.receive(3, pieces[0]) == ENOMEM);
        check_only(line.fabric, Violation::receive_full);
    }
    line.drain();
}

TEST_CASE("requests that verbs do not have") {
    FakeLine line({}, {.message_bytes = 2048});
    line.connect();
    ibv_sge local = line.near.piece(0, 8);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_READ, &local, line.far, 0);
    SUBCASE("an opcode") {
        request.opcode = IBV_WR_TSO;
    }
    SUBCASE("a flag") {
        request.send_flags |= IBV_SEND_IP_CSUM;
    }
    SUBCASE("an inline read") {
        request.send_flags |= IBV_SEND_INLINE;
    }
    SUBCASE("too long") {
        local.length = 2049;
    }
    CHECK(line.near.post(request) == EINVAL);
    check_only(line.fabric, Violation::request);
}

TEST_CASE("atomics are aligned, and 8 bytes") {
    FakeLine line;
    line.connect();
    ibv_sge local = line.near.piece(0, 8);
    uint32_t at = 8;
    SUBCASE("place") {
        at = 12;
    }
    SUBCASE("length") {
        local.length = 4;
    }
    CHECK(line.near.post(line.near.request(IBV_WR_ATOMIC_FETCH_AND_ADD, &local, line.far, at)) ==
          0);
    check_only(line.fabric, Violation::misaligned_atomic);
    CHECK(outcome(line) == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("reads need credits at both ends") {
    FakeLine line;
    FakeEnd &near = line.near, &far = line.far;
    const auto connect = [&](uint8_t initiator, uint8_t target) {
        ibv_qp_attr send = near.to_send(), receive = far.to_receive(near);
        send.max_rd_atomic = initiator;
        receive.max_dest_rd_atomic = target;
        near.modify(near.to_init(), kToInit), far.modify(far.to_init(), kToInit);
        near.modify(near.to_receive(far), kToReceive), far.modify(receive, kToReceive);
        near.modify(send, kToSend), far.modify(far.to_send(), kToSend);
    };
    ibv_sge local = near.piece(0, 8);
    SUBCASE("none as initiator") {
        connect(0, 4);
        CHECK(near.post(near.request(IBV_WR_RDMA_READ, &local, far, 0)) == 0);
        check_only(line.fabric, Violation::reads);
        CHECK(outcome(line) == IBV_WC_LOC_QP_OP_ERR);
    }
    SUBCASE("more than the target takes") {
        connect(4, 3);
        CHECK(near.post(near.request(IBV_WR_RDMA_READ, &local, far, 0)) == 0);
        CHECK(outcome(line) == IBV_WC_REM_INV_REQ_ERR);
        check_only(line.fabric, Violation::reads);
    }
}

TEST_CASE("a completion queue that overruns fails, and its queue pairs with it") {
    FakeLine line({}, {}, {.sends = 16, .receives = 16, .completions = 2});
    line.connect();
    for (int i = 0; i < 3; ++i)
        REQUIRE(post_write(line) == 0);
    CHECK(line.fabric.run() == 3);
    check_only(line.fabric, Violation::overrun);
    const auto events = line.here.take_async();
    REQUIRE(events.size() == 2);
    CHECK(events[0].event_type == IBV_EVENT_CQ_ERR);
    CHECK(events[0].element.cq == line.near.queue);
    CHECK(events[1].event_type == IBV_EVENT_QP_FATAL);
    CHECK(events[1].element.qp == line.near.pair);
    CHECK(line.near.poll().size() == 2);
    ibv_wc entry;
    CHECK(ibv_poll_cq(line.near.queue, 1, &entry) == -1);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();  // flushed, where nobody sees it
    CHECK(ibv_poll_cq(line.near.queue, 1, &entry) == -1);
}

TEST_CASE("events are acknowledged, and no more than there were") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    ibv_req_notify_cq(line.near.queue, 0);
    REQUIRE(post_write(line) == 0);
    CHECK(outcome(line) == IBV_WC_SUCCESS);
    ibv_cq *queue = nullptr;
    void *user = nullptr;
    REQUIRE(verbs.get_cq_event(line.near.channel, &queue, &user) == 0);
    SUBCASE("not at all") {
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        verbs.destroy_cq(std::exchange(line.near.queue, nullptr));
        check_only(line.fabric, Violation::unacked);
    }
    SUBCASE("twice") {
        verbs.ack_cq_events(queue, 2);
        CHECK(line.fabric.took(Violation::event_acks));
        verbs.destroy_qp(std::exchange(line.near.pair, nullptr));
        verbs.destroy_cq(std::exchange(line.near.queue, nullptr));
        check_only(line.fabric, Violation::unacked);
    }
}

TEST_CASE("notifications need a channel") {
    FakeLine line;
    CHECK(ibv_req_notify_cq(line.near.queue, 0) == EINVAL);
    check_only(line.fabric, Violation::notify);
}

TEST_CASE("no more is created than the adapter has") {
    FakeLine line;
    const DeviceLimits &limits = line.near.port.limits;
    CHECK(verbs.create_cq(line.near.port.context, static_cast<int>(limits.completions) + 1, nullptr,
                          nullptr, 0) == nullptr);
    check_only(line.fabric, Violation::capacity);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = line.near.queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {1, 1, 1, 1, 0};
    SUBCASE("sends") {
        attributes.cap.max_send_wr = limits.send_requests + 1;
    }
    SUBCASE("no sends") {
        attributes.cap.max_send_wr = 0;
    }
    SUBCASE("receives") {
        attributes.cap.max_recv_wr = limits.send_requests + 1;
    }
    SUBCASE("pieces") {
        attributes.cap.max_send_sge = limits.send_pieces + 1;
    }
    SUBCASE("pieces of receives") {
        attributes.cap.max_recv_sge = limits.send_pieces + 1;
    }
    SUBCASE("type") {
        attributes.qp_type = IBV_QPT_UD;
    }
    CHECK(verbs.create_qp(line.near.domain, &attributes) == nullptr);
    CHECK(errno == EINVAL);
    check_only(line.fabric, Violation::capacity);
}

TEST_CASE("queue pairs run out") {
    FakeFabric fabric;
    FakeAdapterOptions options;
    options.limits.queue_pairs = 2;
    FakeAdapter &adapter = fabric.add(options);
    const FakeEnd first(adapter), second(adapter), third(adapter);
    CHECK(second.pair != nullptr);
    CHECK(third.pair == nullptr);
    CHECK(fabric.report() == "");
}

TEST_CASE("a region that is written remotely is written locally") {
    FakeLine line;
    CHECK(verbs.reg_mr(line.near.domain, line.near.bytes.data(), 1, IBV_ACCESS_REMOTE_WRITE) ==
          nullptr);
    CHECK(errno == EINVAL);
    check_only(line.fabric, Violation::access_flags);
}

TEST_CASE("what the adapter cannot register is refused, and breaks no rule") {
    FakeLine line({}, {.limits = {.region_bytes = 100}});
    const auto refused = [&](size_t length, unsigned access) {
        errno = 0;
        CHECK(verbs.reg_mr_iova2(line.near.domain, line.near.bytes.data(), length, 0, access) ==
              nullptr);
        return errno;
    };
    CHECK(refused(0, 0) == EINVAL);
    CHECK(refused(101, 0) == EINVAL);
    CHECK(refused(1, IBV_ACCESS_ON_DEMAND) == EOPNOTSUPP);
    CHECK(line.fabric.took(Violation::capacity));  // the ends need more than such an adapter has
    CHECK(line.fabric.report() == "");
}

TEST_CASE("what was allowed is not kept") {
    FakeLine line;
    line.fabric.allow(Violation::notify);
    ibv_req_notify_cq(line.near.queue, 0);
    CHECK(line.fabric.report() == "");
    line.near.receive(1, line.near.piece(0, 8));
    CHECK(line.fabric.report() == "post_state: a receive in RESET\n");
    CHECK_FALSE(line.fabric.took(Violation::notify));
    CHECK(line.fabric.took(Violation::post_state));
}
