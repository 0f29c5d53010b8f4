// SPDX-License-Identifier: Apache-2.0
// Fake adapters: what each operation does, and when its completion comes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "fake_verbs.h"
#include "fake_verbs_ends.h"

using namespace xfer::rdma;

namespace {

uint64_t word_at(const FakeEnd &end, size_t offset) {
    uint64_t word;
    std::memcpy(&word, end.bytes.data() + offset, sizeof word);
    return word;
}

void set_word(FakeEnd &end, size_t offset, uint64_t word) {
    std::memcpy(end.bytes.data() + offset, &word, sizeof word);
}

bool is_readable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
}

// A write of one byte to byte 7 of the other end.
int post_write(FakeLine &line, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 7);
    request.send_flags = flags;
    return line.near.post(request);
}

}  // namespace

TEST_CASE("a write lands when it is executed, and its completion says so") {
    FakeLine line;
    line.connect();
    line.near.bytes[0] = 42;
    REQUIRE(post_write(line) == 0);
    CHECK(line.far.bytes[7] == 0);
    CHECK(line.near.poll().empty());
    CHECK(line.fabric.run() == 1);
    CHECK(line.far.bytes[7] == 42);
    const auto entries = line.near.poll();
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].status == IBV_WC_SUCCESS);
    CHECK(entries[0].opcode == IBV_WC_RDMA_WRITE);
    CHECK(entries[0].wr_id == 1);
    CHECK(entries[0].qp_num == line.near.pair->qp_num);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("ports are addressed by LID on InfiniBand") {
    FakeLine line({}, {.layer = LinkLayer::infiniband});
    line.connect();
    CHECK(line.near.port.address.lid != line.far.port.address.lid);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(line.near.poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a write gathers its pieces in order") {
    FakeLine line;
    line.connect();
    for (size_t i = 0; i < 30; ++i)
        line.near.bytes[i] = static_cast<uint8_t>(i);
    ibv_sge pieces[] = {line.near.piece(20, 5), line.near.piece(0, 0), line.near.piece(3, 2)};
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, pieces, line.far, 100);
    request.num_sge = 3;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    const uint8_t expected[] = {20, 21, 22, 23, 24, 3, 4, 0};
    CHECK(std::memcmp(line.far.bytes.data() + 100, expected, sizeof expected) == 0);
    line.near.poll();
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a read scatters what is there into its pieces") {
    FakeLine line;
    line.connect();
    for (size_t i = 0; i < 10; ++i)
        line.far.bytes[9 + i] = static_cast<uint8_t>(i + 1);
    ibv_sge pieces[] = {line.near.piece(50, 3), line.near.piece(0, 7)};
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_READ, pieces, line.far, 9);
    request.num_sge = 2;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(line.near.bytes[50] == 1);
    CHECK(line.near.bytes[52] == 3);
    CHECK(line.near.bytes[0] == 4);
    CHECK(line.near.bytes[6] == 10);
    const ibv_wc entry = line.near.poll().at(0);
    CHECK(entry.opcode == IBV_WC_RDMA_READ);
    CHECK(entry.byte_len == 10);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("inline bytes are taken when posted, others when executed") {
    FakeLine line;
    line.connect();
    line.near.bytes[0] = 1;
    REQUIRE(post_write(line, IBV_SEND_SIGNALED | IBV_SEND_INLINE) == 0);
    line.near.bytes[0] = 2;
    line.fabric.step();
    CHECK(line.far.bytes[7] == 1);
    REQUIRE(post_write(line) == 0);
    line.near.bytes[0] = 3;
    line.fabric.step();
    CHECK(line.far.bytes[7] == 3);
    CHECK(line.near.poll().size() == 2);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a write of no bytes needs no key") {
    FakeLine line;
    line.connect();
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE, nullptr, line.far, 0);
    request.wr.rdma.rkey = 0;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(line.near.poll().at(0).status == IBV_WC_SUCCESS);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a write with immediate data lands and takes a receive") {
    FakeLine line;
    line.connect();
    line.near.bytes[0] = 5;
    REQUIRE(line.far.receive(77, line.far.piece(200, 8)) == 0);
    ibv_sge local = line.near.piece(0, 1);
    ibv_send_wr request = line.near.request(IBV_WR_RDMA_WRITE_WITH_IMM, &local, line.far, 7);
    request.imm_data = 0xabcd;
    REQUIRE(line.near.post(request) == 0);
    line.fabric.run();
    CHECK(line.far.bytes[7] == 5);
    CHECK(line.far.bytes[200] == 0);
    const ibv_wc entry = line.far.poll().at(0);
    CHECK(entry.wr_id == 77);
    CHECK(entry.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK(entry.wc_flags == IBV_WC_WITH_IMM);
    CHECK(entry.imm_data == 0xabcd);
    CHECK(entry.byte_len == 1);
    CHECK(line.near.poll().at(0).opcode == IBV_WC_RDMA_WRITE);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a send fills the receives in order") {
    FakeLine line;
    line.connect();
    REQUIRE(line.far.receive(1, line.far.piece(0, 8)) == 0);
    REQUIRE(line.far.receive(2, line.far.piece(8, 8)) == 0);
    for (uint8_t i = 1; i <= 2; ++i) {
        line.near.bytes[i] = i;
        ibv_sge local = line.near.piece(i, 1);
        ibv_send_wr request =
            line.near.request(i == 1 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, &local, line.far, 0);
        request.imm_data = 9;
        REQUIRE(line.near.post(request) == 0);
    }
    line.fabric.run();
    CHECK(line.far.bytes[0] == 1);
    CHECK(line.far.bytes[8] == 2);
    const auto entries = line.far.poll();
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].wr_id == 1);
    CHECK(entries[0].wc_flags == 0);
    CHECK(entries[1].opcode == IBV_WC_RECV);
    CHECK(entries[1].imm_data == 9);
    CHECK(line.near.poll().size() == 2);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("atomics add, swap where equal, and bring what was there") {
    FakeLine line;
    line.connect();
    set_word(line.far, 64, 40);
    ibv_sge local = line.near.piece(0, 8);
    ibv_send_wr add = line.near.request(IBV_WR_ATOMIC_FETCH_AND_ADD, &local, line.far, 64);
    add.wr.atomic.compare_add = 2;
    REQUIRE(line.near.post(add) == 0);
    line.fabric.run();
    CHECK(word_at(line.near, 0) == 40);
    CHECK(word_at(line.far, 64) == 42);
    for (const uint64_t expected : {uint64_t{41}, uint64_t{42}}) {
        ibv_send_wr swap = line.near.request(IBV_WR_ATOMIC_CMP_AND_SWP, &local, line.far, 64);
        swap.wr.atomic.compare_add = expected;
        swap.wr.atomic.swap = 7;
        REQUIRE(line.near.post(swap) == 0);
        line.fabric.run();
        CHECK(word_at(line.near, 0) == 42);
        CHECK(word_at(line.far, 64) == (expected == 42 ? 7 : 42));
    }
    const auto entries = line.near.poll();
    REQUIRE(entries.size() == 3);
    CHECK(entries[0].opcode == IBV_WC_FETCH_ADD);
    CHECK(entries[2].opcode == IBV_WC_COMP_SWAP);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("late reads see what follows them, but for a fence") {
    for (const bool fenced : {false, true}) {
        CAPTURE(fenced);
        FakeLine line({.late_reads = true});
        line.connect();
        line.far.bytes[7] = 1, line.near.bytes[0] = 2;
        ibv_sge into = line.near.piece(100, 1);
        REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_READ, &into, line.far, 7)) == 0);
        REQUIRE(post_write(line, IBV_SEND_SIGNALED | (fenced ? IBV_SEND_FENCE : 0)) == 0);
        line.fabric.run();
        CHECK(line.near.bytes[100] == (fenced ? 1 : 2));
        const auto entries = line.near.poll();
        REQUIRE(entries.size() == 2);
        CHECK(entries[0].opcode == IBV_WC_RDMA_READ);
        CHECK(line.fabric.report() == "");
    }
}

TEST_CASE("of late reads no more are under way than there are credits") {
    FakeLine line({.late_reads = true});
    line.connect();  // with four
    line.far.bytes[7] = 1, line.near.bytes[0] = 2;
    for (uint32_t i = 0; i < 4; ++i) {
        ibv_sge into = line.near.piece(100 + i, 1);
        REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_READ, &into, line.far, 7)) == 0);
    }
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(line.near.bytes[100] == 1);
    for (size_t i = 1; i < 4; ++i)
        CHECK(line.near.bytes[100 + i] == 2);
    CHECK(line.near.poll().size() == 5);
}

TEST_CASE("a pair of queues takes turns with others, or steps alone") {
    FakeLine line;
    line.connect();
    REQUIRE(post_write(line) == 0);
    CHECK_FALSE(line.fabric.step(line.far.pair));
    CHECK(line.fabric.step(line.near.pair));
    CHECK_FALSE(line.fabric.step(line.near.pair));
    CHECK_FALSE(line.fabric.step());
    line.near.poll();
}

TEST_CASE("who has much to do does not keep others from their turn") {
    FakeLine line;
    line.connect();
    for (int i = 0; i < 4; ++i) {
        REQUIRE(post_write(line) == 0);
        ibv_sge local = line.far.piece(0, 1);
        REQUIRE(line.far.post(line.far.request(IBV_WR_RDMA_WRITE, &local, line.near, 9)) == 0);
    }
    for (int i = 0; i < 4; ++i) {
        CHECK(line.fabric.step());
        CHECK(line.fabric.step());
        CHECK(line.near.poll().size() == 1);
        CHECK(line.far.poll().size() == 1);
    }
    CHECK_FALSE(line.fabric.step());
}

TEST_CASE("what is posted can be executed at once") {
    FakeLine line;
    line.connect();
    line.fabric.run_on_post(true);
    REQUIRE(post_write(line) == 0);
    CHECK(line.near.poll().size() == 1);
}

TEST_CASE("in SQD sends wait, and go on in RTS") {
    FakeLine line;
    line.connect();
    REQUIRE(line.near.modify(IBV_QPS_SQD) == 0);
    REQUIRE(post_write(line) == 0);
    CHECK(line.fabric.run() == 0);
    REQUIRE(line.near.modify(IBV_QPS_RTS) == 0);
    CHECK(line.fabric.run() == 1);
    line.near.poll();
    CHECK(line.fabric.report() == "");
}

TEST_CASE("in SQD what the other end asks for is served") {
    FakeLine line;
    line.connect();
    REQUIRE(line.far.modify(IBV_QPS_SQD) == 0);
    line.near.bytes[0] = 42;
    REQUIRE(post_write(line) == 0);
    CHECK(line.fabric.run() == 1);
    CHECK(line.far.bytes[7] == 42);
    const auto entries = line.near.poll();
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].status == IBV_WC_SUCCESS);
}

TEST_CASE("slots come back with a polled completion that lies behind them, and only then") {
    FakeLine line({}, {}, {.sends = 4});
    line.connect();
    for (int i = 0; i < 3; ++i)
        REQUIRE(post_write(line, 0) == 0);
    REQUIRE(post_write(line, IBV_SEND_SIGNALED) == 0);
    line.fabric.run();
    CHECK(post_write(line) == ENOMEM);
    CHECK(line.near.poll().size() == 1);
    for (int i = 0; i < 4; ++i)
        REQUIRE(post_write(line, 0) == 0);
    line.fabric.run();
    CHECK(line.near.poll().empty());
    CHECK(post_write(line) == ENOMEM);  // none of the four will ever come back
    CHECK(line.fabric.took(Violation::send_full));
    CHECK(line.fabric.report() == "");
}

TEST_CASE("a queue pair where all is signaled needs no flags") {
    FakeLine line;
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = line.near.queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    attributes.cap = {4, 4, 1, 1, 0};
    FakeFabric::verbs().destroy_qp(line.near.pair);
    line.near.pair = FakeFabric::verbs().create_qp(line.near.domain, &attributes);
    line.connect();
    REQUIRE(post_write(line, 0) == 0);
    line.fabric.run();
    CHECK(line.near.poll().size() == 1);
}

TEST_CASE("held completions come in any order of queue pairs, each in its own order") {
    FakeLine line;
    line.connect();
    line.fabric.hold_completions(true);
    REQUIRE(post_write(line) == 0);
    REQUIRE(post_write(line) == 0);
    ibv_sge local = line.far.piece(0, 1);
    REQUIRE(line.far.post(line.far.request(IBV_WR_RDMA_WRITE, &local, line.near, 0)) == 0);
    line.fabric.run();
    CHECK(line.near.poll().empty());
    CHECK(line.fabric.held(line.near.pair) == 2);
    REQUIRE(line.fabric.release_send(line.far.pair));
    CHECK(line.far.poll().size() == 1);
    REQUIRE(line.fabric.release_send(line.near.pair));
    CHECK(line.near.poll().at(0).wr_id == 1);
    CHECK_FALSE(line.fabric.release_receive(line.near.pair));
    line.fabric.hold_completions(false);
    CHECK(line.near.poll().at(0).wr_id == 2);
}

TEST_CASE("an event comes for the next completion after arming, once") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    const int fd = line.near.channel->fd;
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    REQUIRE(ibv_req_notify_cq(line.near.queue, 0) == 0);
    CHECK_FALSE(is_readable(fd));  // one was there before
    REQUIRE(post_write(line) == 0);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    REQUIRE(is_readable(fd));
    ibv_cq *queue = nullptr;
    void *user = nullptr;
    REQUIRE(FakeFabric::verbs().get_cq_event(line.near.channel, &queue, &user) == 0);
    CHECK(queue == line.near.queue);
    CHECK(user == &line.near);
    CHECK_FALSE(is_readable(fd));
    FakeFabric::verbs().ack_cq_events(queue, 1);
    CHECK(line.near.poll().size() == 3);
    CHECK(line.fabric.report() == "");
}

TEST_CASE(
    "armed for solicited ones: a plain send fires nothing, a solicited one and a failure do") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    const auto fired = [&] {
        if (!is_readable(line.far.channel->fd)) return false;
        ibv_cq *queue = nullptr;
        void *user = nullptr;
        FakeFabric::verbs().get_cq_event(line.far.channel, &queue, &user);
        FakeFabric::verbs().ack_cq_events(queue, 1);
        return true;
    };
    const auto send = [&](unsigned flags) {
        ibv_sge local = line.near.piece(0, 1);
        ibv_send_wr request = line.near.request(IBV_WR_SEND, &local, line.far, 0);
        request.send_flags |= flags;
        REQUIRE(line.near.post(request) == 0);
        line.fabric.run();
    };
    for (uint64_t i = 0; i < 3; ++i)
        REQUIRE(line.far.receive(i, line.far.piece(0, 8)) == 0);
    REQUIRE(ibv_req_notify_cq(line.far.queue, 1) == 0);
    send(0);
    CHECK_FALSE(fired());
    send(IBV_SEND_SOLICITED);
    CHECK(fired());
    REQUIRE(ibv_req_notify_cq(line.far.queue, 1) == 0);
    line.far.modify(IBV_QPS_ERR);
    line.fabric.run();
    CHECK(fired());
    line.far.poll(), line.near.poll();
    CHECK(line.fabric.report() == "");
}

TEST_CASE("armed for all stays so when it is armed for solicited ones, too") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    REQUIRE(ibv_req_notify_cq(line.near.queue, 0) == 0);
    REQUIRE(ibv_req_notify_cq(line.near.queue, 1) == 0);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    CHECK(is_readable(line.near.channel->fd));
    line.near.poll();
}

TEST_CASE("to take an event waits for one, unless it may not") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    ibv_cq *queue = nullptr;
    void *user = nullptr;
    const int fd = line.near.channel->fd;
    REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(FakeFabric::verbs().get_cq_event(line.near.channel, &queue, &user) == -1);
    CHECK(errno == EAGAIN);
    REQUIRE(::fcntl(fd, F_SETFL, 0) == 0);
    REQUIRE(ibv_req_notify_cq(line.near.queue, 0) == 0);
    std::thread waiter([&] {
        FakeFabric::verbs().get_cq_event(line.near.channel, &queue, &user);
        FakeFabric::verbs().ack_cq_events(queue, 1);
    });
    CHECK(post_write(line) == 0);
    line.fabric.run();
    waiter.join();
    CHECK(queue == line.near.queue);
    line.near.poll();
    CHECK(line.fabric.report() == "");
}

TEST_CASE("events of a completion queue go with it") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    REQUIRE(ibv_req_notify_cq(line.near.queue, 0) == 0);
    REQUIRE(post_write(line) == 0);
    line.fabric.run();
    line.near.poll();
    REQUIRE(is_readable(line.near.channel->fd));
    FakeFabric::verbs().destroy_qp(std::exchange(line.near.pair, nullptr));
    CHECK(FakeFabric::verbs().destroy_cq(std::exchange(line.near.queue, nullptr)) == 0);
    CHECK_FALSE(is_readable(line.near.channel->fd));
}

TEST_CASE("granted is what the adapter grants") {
    FakeLine line({}, {.inline_bytes = 12, .granted_sends = 3, .granted_receives = 5});
    CHECK(line.near.granted.max_inline_data == 12);
    CHECK(line.near.granted.max_send_wr == 3);
    CHECK(line.near.granted.max_recv_wr == 5);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    REQUIRE(FakeFabric::verbs().query_qp(line.near.pair, &attributes, IBV_QP_STATE, &init) == 0);
    CHECK(attributes.qp_state == IBV_QPS_RESET);
    CHECK(init.cap.max_send_wr == 3);
    CHECK(init.cap.max_recv_wr == 5);
}

TEST_CASE("numbers come back at once, or not soon") {
    for (const bool reuse : {false, true}) {
        CAPTURE(reuse);
        FakeFabric fabric({.reuse_numbers = reuse});
        FakeAdapter &adapter = fabric.add();
        uint32_t number = 0, rkey = 0;
        {
            const FakeEnd first(adapter);
            number = first.pair->qp_num, rkey = first.region->rkey;
            CHECK(first.region->rkey != first.region->lkey);
        }
        const FakeEnd second(adapter);
        CHECK((second.pair->qp_num == number) == reuse);
        CHECK((second.region->rkey == rkey) == reuse);
    }
}

TEST_CASE("threads share a fabric") {
    FakeFabric fabric;
    FakeAdapter &here = fabric.add(), &there = fabric.add();
    fabric.run_on_post(true);
    std::vector<std::thread> threads;
    std::atomic<int> done = 0;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            FakeEnd near(here), far(there);
            near.connect(far), far.connect(near);
            ibv_sge local = near.piece(0, 8);
            for (int k = 0; k < 500; ++k) {
                near.bytes[0] = static_cast<uint8_t>(k);
                near.post(near.request(IBV_WR_RDMA_WRITE, &local, far, 0));
                done += near.poll().size() == 1 && far.bytes[0] == near.bytes[0];
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(done == 2000);
    CHECK(fabric.report() == "");
}
