// SPDX-License-Identifier: Apache-2.0
// Fake adapters as devices: found, opened more than once, and followed by loops, in threads of
// their own.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_verbs_ends.h"
#include "rdma_ends.h"
#include "transport/rdma/devices.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

const Verbs &verbs = FakeFabric::verbs();

void check_only(FakeFabric &fabric, Violation violation) {
    CHECK(fabric.took(violation));
    CHECK(fabric.report() == "");
}

bool is_readable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
}

std::vector<std::unique_ptr<Device>> open_all(const char *filter = "") {
    auto parsed = parse_device_filter(filter);
    REQUIRE(parsed);
    auto devices = open_devices(verbs, *parsed);
    REQUIRE(devices);
    return std::move(devices->open);
}

// By hand, as a device keeps its opening to itself.
struct Opening {
    explicit Opening(unsigned index = 0) {
        ibv_device **list = verbs.get_device_list(nullptr);
        REQUIRE(list);
        context = verbs.open_device(list[index]);
        REQUIRE(context);
        ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
        verbs.free_device_list(list);
    }
    ~Opening() {
        if (context) CHECK(verbs.close_device(context) == 0);
    }
    // The type of the next event, which is acknowledged; or -1.
    int next() const {
        ibv_async_event event{};
        if (verbs.get_async_event(context, &event)) return -1;
        verbs.ack_async_event(&event);
        return event.event_type;
    }
    ibv_context *context = nullptr;
};

ibv_async_event make_event(ibv_event_type type) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    return event;
}

struct Told final : DeviceSink {
    void on_port_up(const Port &port) override { lines.push_back("up " + port.name); }
    void on_port_down(const Port &port, const Failure &) override {
        lines.push_back("down " + port.name);
    }
    void on_port_changed(const Port &port) override { lines.push_back("changed " + port.name); }
    void on_queue_pair_error(const ibv_qp *, ibv_event_type) override { lines.push_back("pair"); }
    void on_last_receive(const ibv_qp *) override { lines.push_back("last receive"); }
    void on_completion_queue_error(const ibv_cq *) override { lines.push_back("queue"); }
    void on_shared_queue_error(const ibv_srq *) override { lines.push_back("shared"); }
    void on_shared_queue_low(const ibv_srq *) override { lines.push_back("low"); }
    void on_device_fatal(const Failure &) override { lines.push_back("fatal"); }
    std::vector<std::string> lines;
};

// What an engine has: a loop on a thread of its own, which follows a device it has opened itself.
struct Side {
    explicit Side(const char *filter) : devices(open_all(filter)) {
        REQUIRE(devices.size() == 1);
        EngineLoop::Inside inside(*loop);
        REQUIRE(devices[0]->follow(*loop, told) == XFER_OK);
        end.emplace(devices[0]->ports()[0], *loop);
        end->on_end = [this] {
            if (end->ends.back().how != ChainEnd::How::done) ++wrong;
            ++ended;
        };
    }
    ~Side() {
        end.reset();
        EngineLoop::Inside inside(*loop);
        devices.clear();
    }
    void start() {
        thread = std::thread([this] { loop->run(); });
    }
    void stop() {
        loop->stop();
        thread.join();
    }
    void post(Side &other, uint64_t cookie) {
        EngineLoop::Inside inside(*loop);
        if (end->post(*other.end, 3, cookie).taken != 3) ++wrong;
    }
    void fail() {
        EngineLoop::Inside inside(*loop);
        end->pair->fail();
        if (!end->pair->is_drained()) ++wrong;
    }

    std::unique_ptr<OwnLoop> loop = make_loop();
    Told told;
    std::vector<std::unique_ptr<Device>> devices;
    std::optional<End> end;
    std::thread thread;
    std::atomic<uint64_t> ended = 0, wrong = 0;
};

}  // namespace

// ---- finding them

TEST_CASE("each adapter is found by its name, and its port is as the adapter says") {
    FakeFabric fabric;
    FakeAdapterOptions infiniband{.name = "ib", .layer = LinkLayer::infiniband};
    infiniband.mtu = IBV_MTU_1024;
    infiniband.atomics = IBV_ATOMIC_GLOB;
    infiniband.message_bytes = 1 << 20;
    infiniband.limits = {10, 20, 5, 3, 40, 1 << 20, 7, 8, false, true};
    FakeAdapter *const adapters[] = {&fabric.add(), &fabric.add(infiniband), &fabric.add()};
    const auto devices = open_all();
    REQUIRE(devices.size() == 3);
    const char *const names[] = {"fake0", "ib", "fake2"};
    for (size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        CHECK(devices[i]->name() == names[i]);
        REQUIRE(devices[i]->ports().size() == 1);
        const Port &port = devices[i]->ports()[0], expected = adapters[i]->port();
        CHECK(port.active);
        CHECK(port.context != expected.context);
        CHECK(port.name == expected.name);
        CHECK(port.number == expected.number);
        CHECK(port.gid_index == expected.gid_index);
        CHECK(port.pkey_index == expected.pkey_index);
        CHECK(port.address.layer == expected.address.layer);
        CHECK(port.address.lid == expected.address.lid);
        CHECK(port.address.mtu == expected.address.mtu);
        CHECK(std::memcmp(&port.address.gid, &expected.address.gid, sizeof(ibv_gid)) == 0);
        CHECK(port.bits_per_second == expected.bits_per_second);
        CHECK(port.message_bytes == expected.message_bytes);
        CHECK(port.limits == expected.limits);
    }
    CHECK(devices[1]->ports()[0].limits.atomics_with_cpu);
    CHECK(fabric.report() == "");
}

TEST_CASE("two engines of a process open theirs by a filter") {
    FakeFabric fabric;
    fabric.add(), fabric.add();
    const auto first = open_all("fake0"), second = open_all("fake1");
    REQUIRE(first.size() == 1);
    REQUIRE(second.size() == 1);
    CHECK(first[0]->name() == "fake0");
    CHECK(second[0]->name() == "fake1");
    CHECK(fabric.live().contexts == 2);
}

TEST_CASE("where none or several fabrics live, there are no devices") {
    CHECK(verbs.get_device_list(nullptr) == nullptr);
    CHECK(errno == ENOSYS);
    FakeFabric one;
    {
        FakeFabric other;
        const auto devices = open_devices(verbs, {});
        REQUIRE_FALSE(devices);
        CHECK(devices.error().native == ENOSYS);
    }
    CHECK(open_all().empty());
}

TEST_CASE("what fails at the opening is told, and leaves nothing") {
    FakeFabric fabric;
    fabric.add(), fabric.add();
    fabric.fail_call(FakeCall::get_device_list, 1, EMFILE);
    CHECK(open_devices(verbs, {}).error().native == EMFILE);
    for (const FakeCall call : {FakeCall::open_device, FakeCall::query_device, FakeCall::alloc_pd,
                                FakeCall::query_port}) {
        CAPTURE(static_cast<int>(call));
        fabric.fail_call(call, 1, EIO);
        {
            auto devices = open_devices(verbs, {});
            REQUIRE(devices);
            REQUIRE(devices->left_out.size() == 1);
            CHECK(devices->left_out[0].why.native == EIO);
        }
        CHECK(fabric.live() == FakeCounts{});
    }
    CHECK(fabric.report() == "");
}

TEST_CASE("a list of devices is freed once, and its devices are opened before") {
    FakeFabric fabric;
    fabric.add();
    int count = 0;
    ibv_device **const list = verbs.get_device_list(&count);
    CHECK(count == 1);
    CHECK(list[1] == nullptr);
    CHECK(std::string(verbs.get_device_name(list[0])) == "fake0");
    CHECK(fabric.live().lists == 1);
    ibv_device *const device = list[0];
    verbs.free_device_list(list);
    CHECK(fabric.live().lists == 0);
    verbs.free_device_list(list);
    check_only(fabric, Violation::device_list);
    ibv_context *const context = verbs.open_device(device);
    check_only(fabric, Violation::device_list);
    CHECK(verbs.close_device(context) == 0);
}

TEST_CASE("of a device there are one port, one GID and one partition") {
    FakeFabric fabric;
    fabric.add();
    const Opening opening;
    ibv_port_attr port{};
    ibv_gid_entry gid{};
    __be16 key = 0;
    CHECK(verbs.query_port(opening.context, 2, &port) == EINVAL);
    CHECK(verbs.query_gid_ex(opening.context, 1, 1, &gid, 0, sizeof gid) == ENODATA);
    CHECK(verbs.query_gid_ex(opening.context, 2, 0, &gid, 0, sizeof gid) == EINVAL);
    CHECK(verbs.query_gid_ex(opening.context, 1, 0, &gid, 1, sizeof gid) == EINVAL);
    CHECK(verbs.query_gid_ex(opening.context, 1, 0, &gid, 0, 4) == EINVAL);
    CHECK(verbs.query_pkey(opening.context, 1, 1, &key) == -1);
    CHECK(errno == EINVAL);
    CHECK(verbs.query_pkey(opening.context, 1, 0, &key) == 0);
    CHECK(key == 0xffff);
}

// ---- openings

TEST_CASE("each opening has its own objects, which are used together") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    Opening first, second;
    CHECK(first.context != second.context);
    CHECK(fabric.live().contexts == 2);
    ibv_pd *const domain = verbs.alloc_pd(first.context);
    ibv_comp_channel *const channel = verbs.create_comp_channel(second.context);
    CHECK(verbs.create_cq(first.context, 8, nullptr, channel, 0) == nullptr);
    CHECK(errno == EINVAL);
    check_only(fabric, Violation::context);
    ibv_cq *const own = verbs.create_cq(first.context, 8, nullptr, nullptr, 0);
    ibv_cq *const others = verbs.create_cq(second.context, 8, nullptr, channel, 0);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {1, 1, 1, 1, 0};
    for (const auto &[send, receive] : {std::pair(own, others), std::pair(others, own)}) {
        attributes.send_cq = send, attributes.recv_cq = receive;
        CHECK(verbs.create_qp(domain, &attributes) == nullptr);
        CHECK(errno == EINVAL);
        check_only(fabric, Violation::context);
    }
    attributes.send_cq = attributes.recv_cq = own;
    ibv_qp *const pair = verbs.create_qp(domain, &attributes);
    REQUIRE(pair);
    CHECK(pair->context == first.context);
    CHECK(fabric.live().pairs == 1);  // of the adapter
    CHECK(adapter.port().limits.queue_pairs > 1);
    verbs.destroy_qp(pair);
    verbs.destroy_cq(own), verbs.destroy_cq(others);
    verbs.destroy_comp_channel(channel);
    verbs.dealloc_pd(domain);
    CHECK(fabric.report() == "");
}

TEST_CASE("queue pairs of several openings of an adapter reach each other's adapters") {
    FakeFabric fabric;
    fabric.add(), fabric.add();
    fabric.run_on_post(true);
    const auto one = open_all("fake0"), again = open_all("fake0"), other = open_all("fake1");
    auto loop = make_loop();
    End near(one[0]->ports()[0], *loop), beside(again[0]->ports()[0], *loop);
    End far(other[0]->ports()[0], *loop), farther(other[0]->ports()[0], *loop);
    for (const auto &[here, there] : {std::pair(&near, &far), std::pair(&beside, &farther)}) {
        REQUIRE(here->create().status == XFER_OK);
        REQUIRE(there->create().status == XFER_OK);
        here->connect(*there), there->connect(*here);
        here->bytes[0] = 42;
        CHECK(here->post(*there, 1, 1).taken == 1);
        CHECK(there->bytes[0] == 42);
    }
    CHECK(near.pair->parameters().qpn != beside.pair->parameters().qpn);
    for (int i = 0; i < 4; ++i)
        loop->turn(0);
    CHECK(near.ends.size() == 1);
    CHECK(beside.ends.size() == 1);
    CHECK(fabric.report() == "");
}

TEST_CASE("an opening is closed once, and after what was made in it") {
    FakeFabric fabric;
    fabric.add();
    Opening opening;
    ibv_context *const context = opening.context;
    const auto check_busy = [&] {
        CHECK(verbs.close_device(context) == EBUSY);
        check_only(fabric, Violation::busy_context);
    };
    ibv_pd *const domain = verbs.alloc_pd(context);
    check_busy();
    verbs.dealloc_pd(domain);
    ibv_comp_channel *const channel = verbs.create_comp_channel(context);
    check_busy();
    verbs.destroy_comp_channel(channel);
    ibv_cq *const queue = verbs.create_cq(context, 8, nullptr, nullptr, 0);
    check_busy();
    verbs.destroy_cq(queue);
    CHECK(verbs.close_device(std::exchange(opening.context, nullptr)) == 0);

    const auto check_gone = [&](bool refused) {
        CHECK(refused);
        check_only(fabric, Violation::use_after_destroy);
    };
    ibv_device_attr device{};
    ibv_device_attr_ex extended{};
    ibv_port_attr port{};
    ibv_gid_entry gid{};
    ibv_async_event event{};
    __be16 key = 0;
    check_gone(verbs.close_device(context) == EINVAL);
    check_gone(verbs.alloc_pd(context) == nullptr);
    check_gone(verbs.create_comp_channel(context) == nullptr);
    check_gone(verbs.create_cq(context, 8, nullptr, nullptr, 0) == nullptr);
    check_gone(verbs.query_device(context, &device) != 0);
    check_gone(verbs.query_device_ex(context, &extended) != 0);
    check_gone(verbs.query_port(context, 1, &port) != 0);
    check_gone(verbs.query_gid_ex(context, 1, 0, &gid, 0, sizeof gid) != 0);
    check_gone(verbs.query_pkey(context, 1, 0, &key) != 0);
    check_gone(verbs.get_async_event(context, &event) != 0);
}

// ---- events

TEST_CASE("a device that is followed tells what a test raises, to each opening") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    fabric.add();
    auto loop = make_loop();
    Told first, second, other;
    std::vector<std::vector<std::unique_ptr<Device>>> opened;
    for (const char *filter : {"fake0", "fake0", "fake1"})
        opened.push_back(open_all(filter));
    {
        EngineLoop::Inside inside(*loop);
        REQUIRE(opened[0][0]->follow(*loop, first) == XFER_OK);
        REQUIRE(opened[1][0]->follow(*loop, second) == XFER_OK);
        REQUIRE(opened[2][0]->follow(*loop, other) == XFER_OK);
    }
    adapter.raise_async(make_event(IBV_EVENT_PORT_ERR));
    loop->turn(0);
    CHECK_FALSE(opened[0][0]->ports()[0].active);
    adapter.raise_async(make_event(IBV_EVENT_PORT_ACTIVE));
    adapter.raise_async(make_event(IBV_EVENT_DEVICE_FATAL));
    loop->turn(0);
    const std::vector<std::string> expected = {"down fake0:1", "up fake0:1", "down fake0:1",
                                               "fatal"};
    CHECK(first.lines == expected);
    CHECK(second.lines == expected);
    CHECK(other.lines.empty());
    CHECK(adapter.take_async().size() == 3);
    EngineLoop::Inside inside(*loop);
    opened.clear();
    CHECK(fabric.report() == "");
}

TEST_CASE("what a queue tells comes to the opening that has it") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    fabric.add();
    auto loop = make_loop();
    Told first, second;
    const auto one = open_all("fake0"), again = open_all("fake0"), other = open_all("fake1");
    {
        EngineLoop::Inside inside(*loop);
        REQUIRE(one[0]->follow(*loop, first) == XFER_OK);
        REQUIRE(again[0]->follow(*loop, second) == XFER_OK);
    }
    End near(one[0]->ports()[0], *loop), far(other[0]->ports()[0], *loop);
    REQUIRE(near.create().status == XFER_OK);
    REQUIRE(far.create().status == XFER_OK);
    near.connect(far), far.connect(near);
    // The target's adapter tells of an access that it refuses.
    verbs.dereg_mr(std::exchange(
        near.region, verbs.reg_mr(near.port.domain, near.bytes.data(), 1, IBV_ACCESS_LOCAL_WRITE)));
    CHECK(far.post(near, 1, 1).taken == 1);
    fabric.run();
    for (int i = 0; i < 4; ++i)
        loop->turn(0);
    CHECK(first.lines == std::vector<std::string>{"pair"});
    CHECK(second.lines.empty());
    CHECK(adapter.take_async().size() == 1);
    CHECK(fabric.report() == "");
    EngineLoop::Inside inside(*loop);
    near.pair.reset();
    far.pair.reset();
}

TEST_CASE("events of a queue go with it, and one that was taken is acknowledged before") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    const Opening opening;
    ibv_pd *const domain = verbs.alloc_pd(opening.context);
    ibv_cq *const queue = verbs.create_cq(opening.context, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {1, 1, 1, 1, 0};
    ibv_qp *pair = verbs.create_qp(domain, &attributes);
    ibv_async_event of_pair = make_event(IBV_EVENT_QP_FATAL), of_queue = of_pair;
    of_pair.element.qp = pair;
    of_queue.event_type = IBV_EVENT_CQ_ERR;
    of_queue.element.cq = queue;

    adapter.raise_async(of_pair);
    adapter.raise_async(of_queue);
    verbs.destroy_qp(pair);
    CHECK(opening.next() == IBV_EVENT_CQ_ERR);
    CHECK_FALSE(is_readable(opening.context->async_fd));
    CHECK(opening.next() == -1);
    CHECK(errno == EAGAIN);
    CHECK(fabric.report() == "");

    pair = verbs.create_qp(domain, &attributes);
    of_pair.element.qp = pair;
    ibv_async_event taken{};
    adapter.raise_async(of_pair);
    REQUIRE(verbs.get_async_event(opening.context, &taken) == 0);
    verbs.destroy_qp(pair);
    check_only(fabric, Violation::unacked);
    verbs.ack_async_event(&taken);
    adapter.raise_async(of_queue);
    REQUIRE(verbs.get_async_event(opening.context, &taken) == 0);
    verbs.destroy_cq(queue);
    check_only(fabric, Violation::unacked);
    verbs.ack_async_event(&taken);
    verbs.ack_async_event(&taken);
    check_only(fabric, Violation::event_acks);
    verbs.dealloc_pd(domain);
}

TEST_CASE("to take an async event waits for one, unless it may not") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    const Opening opening;
    CHECK(opening.next() == -1);
    CHECK(errno == EAGAIN);
    ::fcntl(opening.context->async_fd, F_SETFL, 0);
    std::atomic<int> got = 0;
    std::thread waiter([&] { got = opening.next() + 1; });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(got == 0);
    adapter.raise_async(make_event(IBV_EVENT_GID_CHANGE));
    waiter.join();
    CHECK(got == IBV_EVENT_GID_CHANGE + 1);
}

// ---- engines on it

TEST_CASE("what is executed by the post itself wakes who sleeps on the completion channel") {
    FakeLine line({}, {}, {}, true);
    line.connect();
    line.fabric.run_on_post(true);
    ibv_sge local = line.near.piece(0, 1);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(ibv_req_notify_cq(line.near.queue, 0) == 0);
        CHECK_FALSE(is_readable(line.near.channel->fd));
        REQUIRE(line.near.post(line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0)) == 0);
        CHECK(is_readable(line.near.channel->fd));
        ibv_cq *queue = nullptr;
        void *user = nullptr;
        REQUIRE(verbs.get_cq_event(line.near.channel, &queue, &user) == 0);
        verbs.ack_cq_events(queue, 1);
        CHECK(line.near.poll().size() == 1);
    }
}

TEST_CASE("nobody has to run what waits for a state, or for this to be switched on") {
    FakeLine line;
    line.connect();
    ibv_sge local = line.near.piece(0, 1);
    const auto post = [&] {
        return line.near.post(line.near.request(IBV_WR_RDMA_WRITE, &local, line.far, 0));
    };
    REQUIRE(post() == 0);
    line.fabric.run_on_post(true);
    CHECK(line.near.poll().size() == 1);
    REQUIRE(line.near.modify(IBV_QPS_SQD) == 0);
    REQUIRE(post() == 0);
    CHECK(line.near.poll().empty());
    REQUIRE(line.near.modify(IBV_QPS_RTS) == 0);
    CHECK(line.near.poll().size() == 1);
    REQUIRE(line.near.modify(IBV_QPS_SQD) == 0);
    REQUIRE(post() == 0);
    REQUIRE(line.near.modify(IBV_QPS_ERR) == 0);
    const auto flushed = line.near.poll();
    REQUIRE(flushed.size() == 1);
    CHECK(flushed[0].status == IBV_WC_WR_FLUSH_ERR);
    CHECK(line.fabric.report() == "");
}

TEST_CASE("two engines, each with a loop on its thread, write to each other") {
    FakeFabric fabric;
    FakeAdapter &adapter = fabric.add();
    fabric.add();
    fabric.run_on_post(true);
    constexpr uint64_t kChains = 1'000;
    {
        Side near("fake0"), far("fake1");
        REQUIRE(near.end->create().status == XFER_OK);
        REQUIRE(far.end->create().status == XFER_OK);
        near.end->connect(*far.end), far.end->connect(*near.end);
        near.end->bytes[4] = 7;
        near.start(), far.start();
        // From other threads than the loops', which are asleep: each is woken by its completions.
        const auto drive = [](Side &from, Side &to) {
            for (uint64_t i = 0; i < kChains; ++i) {
                from.post(to, i);
                while (from.ended <= i)
                    std::this_thread::yield();
            }
        };
        std::thread one([&] { drive(near, far); });
        std::thread other([&] { drive(far, near); });
        for (int i = 0; i < 50; ++i) {
            adapter.raise_async(make_event(IBV_EVENT_PORT_ERR));
            adapter.raise_async(make_event(IBV_EVENT_PORT_ACTIVE));
            std::this_thread::yield();
        }
        one.join(), other.join();
        near.fail(), far.fail();
        near.stop(), far.stop();
        CHECK(near.ended == kChains);
        CHECK(far.ended == kChains);
        CHECK(near.wrong == 0);
        CHECK(far.wrong == 0);
        CHECK(far.end->bytes[4] == near.end->bytes[4]);
        CHECK(far.told.lines.empty());
        for (size_t i = 0; i < near.told.lines.size(); ++i)
            CHECK(near.told.lines[i] == (i % 2 ? "up fake0:1" : "down fake0:1"));
    }
    CHECK(fabric.live() == FakeCounts{});
    CHECK(fabric.report() == "");
}
