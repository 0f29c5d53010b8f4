// SPDX-License-Identifier: Apache-2.0
// Adapters: which are opened, with what ports, and what their events do.
#include "transport/rdma/device.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "fake_rdma_devices.h"
#include "loop/own_loop.h"
#include "transport/rdma/devices.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

using Lines = std::vector<std::string>;

// What was told, a line each.
struct Told : DeviceSink {
    explicit Told(FakeRdmaDevices &of) : fake(of) {}
    void on_port_up(const Port &port) override { tell("up " + port.name); }
    void on_port_down(const Port &port, const Failure &why) override {
        tell("down " + port.name + ": " + why.message.c_str());
    }
    void on_port_changed(const Port &port) override { tell("changed " + port.name); }
    void on_queue_pair_error(const ibv_qp *pair, ibv_event_type event) override {
        tell("pair " + address(pair) + " event " + std::to_string(event));
    }
    void on_last_receive(const ibv_qp *pair) override { tell("last receive " + address(pair)); }
    void on_completion_queue_error(const ibv_cq *queue) override { tell("cq " + address(queue)); }
    void on_shared_queue_error(const ibv_srq *queue) override { tell("srq " + address(queue)); }
    void on_shared_queue_low(const ibv_srq *queue) override { tell("low " + address(queue)); }
    void on_device_fatal(const Failure &why) override {
        tell(std::string("fatal: ") + why.message.c_str());
    }
    void tell(std::string line) {
        CHECK(fake.unacknowledged() == 0);  // else a sink that destroys a queue would wait for ever
        lines.push_back(std::move(line));
    }
    // Of a queue that is gone: nobody may follow it.
    static std::string address(const void *queue) {
        return std::to_string(reinterpret_cast<uintptr_t>(queue));
    }
    Lines take() { return std::exchange(lines, {}); }

    FakeRdmaDevices &fake;
    Lines lines;
};

Devices open_all(FakeRdmaDevices &fake, const char *filter = "") {
    auto parsed = parse_device_filter(filter);
    REQUIRE(parsed);
    auto devices = open_devices(fake.verbs(), *parsed);
    REQUIRE(devices);
    return std::move(*devices);
}

// "a:1" of all that can be used.
Lines usable(const Devices &devices) {
    Lines names;
    for (const auto &device : devices.open)
        for (const Port &port : device->ports())
            if (port.active) names.push_back(port.name);
    return names;
}

Lines left_out(const Devices &devices) {
    Lines lines;
    for (const auto &[name, why] : devices.left_out) {
        CHECK(why.status != XFER_OK);
        lines.push_back(name + ": " + why.message.c_str());
    }
    return lines;
}

// All devices of a fake, with a loop that follows them.
struct World {
    explicit World(std::vector<FakeDevice> of) : fake(std::move(of)), told(fake) {
        auto opened = OwnLoop::open();
        REQUIRE(opened);
        loop = std::move(*opened);
        devices = open_all(fake);
    }
    ~World() {
        EngineLoop::Inside inside(*loop);
        devices.open.clear();
    }
    void follow() {
        EngineLoop::Inside inside(*loop);
        for (const auto &device : devices.open)
            REQUIRE(device->follow(*loop, told) == XFER_OK);
    }
    Lines turn() {
        loop->turn(0);
        return told.take();
    }
    const Port &port(size_t device = 0, size_t number = 1) {
        return devices.open[device]->ports()[number - 1];
    }

    FakeRdmaDevices fake;
    Told told;
    std::unique_ptr<OwnLoop> loop;
    Devices devices;
};

}  // namespace

TEST_CASE("a port is as its device says, on Ethernet and on InfiniBand") {
    FakePort second = infiniband_port(17);
    second.mtu = IBV_MTU_1024, second.width = 4, second.speed = 64;
    second.message_bytes = 1 << 23;
    second.pkeys = {0, 0x7fff, 0x1234, 0x8001, 0xffff};
    FakeDevice mixed{.name = "mlx5_0", .ports = {FakePort(), second}};
    mixed.attributes.max_qp = 1000, mixed.attributes.max_qp_wr = 32768;
    mixed.attributes.max_sge = 30, mixed.attributes.max_sge_rd = 8;
    mixed.attributes.max_cqe = 4194303;
    mixed.attributes.max_mr_size = UINT64_MAX;
    mixed.attributes.max_qp_rd_atom = 16, mixed.attributes.max_qp_init_rd_atom = 300;
    mixed.attributes.atomic_cap = IBV_ATOMIC_GLOB;
    mixed.numa_node = 1;
    FakeDevice plain{.name = "rxe0"};
    plain.attributes.atomic_cap = IBV_ATOMIC_HCA;
    plain.attributes.max_sge = -1;
    FakeRdmaDevices fake({mixed, plain});
    const Devices devices = open_all(fake);
    CHECK(left_out(devices) == Lines{});
    REQUIRE(usable(devices) == Lines{"mlx5_0:1", "mlx5_0:2", "rxe0:1"});

    const Port &ethernet = devices.open[0]->ports()[0], &infiniband = devices.open[0]->ports()[1];
    CHECK(ethernet.context != nullptr);
    CHECK(ethernet.domain->context == ethernet.context);
    CHECK(ethernet.number == 1);
    CHECK(ethernet.address.layer == LinkLayer::ethernet);
    CHECK(ethernet.address.lid == 0);
    CHECK(ethernet.address.mtu == IBV_MTU_4096);
    CHECK(ethernet.gid_index == 3);
    CHECK(ethernet.address.gid.raw[15] == 1);
    CHECK(ethernet.pkey_index == 0);
    CHECK(ethernet.bits_per_second == 100'000'000'000);
    CHECK(ethernet.numa_node == 1);
    CHECK(ethernet.limits.queue_pairs == 1000);
    CHECK(ethernet.limits.send_requests == 32768);
    CHECK(ethernet.limits.send_pieces == 30);
    CHECK(ethernet.limits.read_pieces == 8);
    CHECK(ethernet.message_bytes == 1 << 30);
    CHECK(ethernet.limits.completions == 4194303);
    CHECK(ethernet.limits.region_bytes == UINT64_MAX);
    CHECK(ethernet.limits.reads_in == 16);
    CHECK(ethernet.limits.reads_out == 255);
    CHECK(ethernet.limits.atomics_with_cpu);

    CHECK(infiniband.domain == ethernet.domain);
    CHECK(infiniband.number == 2);
    CHECK(infiniband.address.layer == LinkLayer::infiniband);
    CHECK(infiniband.address.lid == 17);
    CHECK(infiniband.address.mtu == IBV_MTU_1024);
    CHECK(infiniband.gid_index == 0);
    CHECK(infiniband.address.gid.raw[0] == 0xfe);
    CHECK(infiniband.pkey_index == 3);  // the first full membership
    CHECK(infiniband.bits_per_second == 400'000'000'000);
    CHECK(infiniband.message_bytes == 1 << 23);

    const Port &other = devices.open[1]->ports()[0];
    CHECK(other.numa_node == -1);
    CHECK_FALSE(other.limits.atomics_with_cpu);
    CHECK(other.limits.send_pieces == 0);
    CHECK(other.domain != ethernet.domain);
}

TEST_CASE("a read scatters to one place at least, and to no more than any request") {
    const struct {
        int of_requests, of_reads;
        uint32_t expected;
    } rows[] = {{30, 0, 1}, {30, -1, 1}, {30, 1, 1}, {30, 30, 30}, {30, 31, 30}, {4, 32, 4}};
    for (const auto &row : rows) {
        CAPTURE(row.of_reads);
        FakeDevice device{.name = "a"};
        device.attributes.max_sge = row.of_requests;
        device.attributes.max_sge_rd = row.of_reads;
        FakeRdmaDevices fake({device});
        CHECK(open_all(fake).open[0]->ports()[0].limits.read_pieces == row.expected);
    }
}

TEST_CASE("where a driver does not say how long a request may be, it is what the standard says") {
    FakePort port;
    port.message_bytes = 0;
    FakeRdmaDevices fake({{.name = "a", .ports = {port}}});
    CHECK(open_all(fake).open[0]->ports()[0].message_bytes == uint64_t{1} << 31);
}

TEST_CASE("on-demand paging is used where writes and reads of a connection have it") {
    constexpr uint32_t kBoth = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    const struct {
        uint64_t general;
        uint32_t connection;
        bool has;
    } rows[] = {
        {0, 0, false},
        {0, kBoth, false},
        {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE, false},
        {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_READ, false},
        {IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT, kBoth | IBV_ODP_SUPPORT_SEND, true},
    };
    for (const auto &row : rows) {
        CAPTURE(row.connection);
        FakeDevice device{.name = "a"};
        device.on_demand_paging.general_caps = row.general;
        device.on_demand_paging.per_transport_caps.rc_odp_caps = row.connection;
        FakeRdmaDevices fake({device});
        CHECK(open_all(fake).open[0]->ports()[0].limits.on_demand_paging == row.has);
        fake.fail_call(4, EOPNOTSUPP);  // of an older driver
        const Devices devices = open_all(fake);
        CHECK(usable(devices) == Lines{"a:1"});
        CHECK_FALSE(devices.open[0]->ports()[0].limits.on_demand_paging);
    }
}

TEST_CASE("a port that can't be used is told with its reason, and hides no other") {
    const auto with = [](const std::function<void(FakePort &)> &change, FakePort port = {}) {
        change(port);
        return port;
    };
    const struct {
        FakePort port;
        const char *why;  // null: it can be used
    } rows[] = {
        {with([](auto &p) { p.state = IBV_PORT_DOWN; }), "it is DOWN"},
        {with([](auto &p) { p.state = IBV_PORT_INIT; }, infiniband_port(1)),
         "it is INIT: no subnet manager has configured it"},
        {with([](auto &p) { p.state = IBV_PORT_ARMED; }), "it is ARMED"},
        {with([](auto &p) { p.state = static_cast<ibv_port_state>(7); }),
         "it is in no known state"},
        {with([](auto &p) { p.gids = {}; }), "no RoCE GID"},
        {with([](auto &p) { p.gids = {make_gid(0, IBV_GID_TYPE_IB, "fe80::1")}; }), "no RoCE GID"},
        {infiniband_port(0), "it has no LID: no subnet manager has given one"},
        {with([](auto &p) { p.pkeys = {}; }, infiniband_port(1)), "it is in no partition"},
        {with(
             [](auto &p) {
                 p.pkeys = {0, 0};
             },
             infiniband_port(1)),
         "it is in no partition"},
        {with([](auto &p) { p.mtu = static_cast<ibv_mtu>(6); }), "its MTU is unknown: 6"},
        {with([](auto &p) { p.mtu = static_cast<ibv_mtu>(0); }), "its MTU is unknown: 0"},
        {with(
             [](auto &p) {
                 p.pkeys = {0, 0x7fff};
             },
             infiniband_port(1)),
         nullptr},
        {with([](auto &p) { p.gids = {}; }, infiniband_port(1)), nullptr},
        {with([](auto &p) { p.layer = IBV_LINK_LAYER_UNSPECIFIED; }, infiniband_port(1)), nullptr},
        {with([](auto &p) { p.pkeys = {}; }), nullptr},  // RoCE knows no partitions
        {with([](auto &p) { p.speed = 0; }), nullptr},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.why ? row.why : ""));
        FakeRdmaDevices fake({{.name = "a", .ports = {row.port, FakePort()}}, {.name = "b"}});
        const Devices devices = open_all(fake);
        Lines all = {"a:2", "b:1"};
        if (!row.why) all.insert(all.begin(), "a:1");
        CHECK(usable(devices) == all);
        CHECK(left_out(devices) == (row.why ? Lines{std::string("a:1: ") + row.why} : Lines{}));
        CHECK(devices.open[0]->ports().size() == 2);  // it may come
    }
}

TEST_CASE("devices and ports are filtered, and what the filter names in vain is told") {
    const char *const kOut = "not among those that may be used";
    const struct {
        const char *filter;
        Lines usable, left_out;
        int opened;
    } rows[] = {
        {"", {"a:1", "a:2", "b:1"}, {}, 2},
        {"none", {}, {std::string("a: ") + kOut, std::string("b: ") + kOut}, 0},
        {"b", {"b:1"}, {std::string("a: ") + kOut}, 1},
        {"a:2,b", {"a:2", "b:1"}, {std::string("a:1: ") + kOut}, 2},
        {"^a:2", {"a:1", "b:1"}, {std::string("a:2: ") + kOut}, 2},
        {"^a", {"b:1"}, {std::string("a: ") + kOut}, 1},
        {"^a:1,a:2", {"b:1"}, {std::string("a:1: ") + kOut, std::string("a:2: ") + kOut}, 2},
        {"a,b,c", {"a:1", "a:2", "b:1"}, {"c: no such device"}, 2},
        {"^c:1", {"a:1", "a:2", "b:1"}, {"c:1: no such device"}, 2},
        {"a,b:2", {"a:1", "a:2"}, {std::string("b:1: ") + kOut, "b:2: no such port"}, 2},
        {"a:1:5,b", {"a:1", "b:1"}, {std::string("a:2: ") + kOut}, 2},
        {"a:1:6,b", {"b:1"}, {"a:1: no RoCE GID at index 6", std::string("a:2: ") + kOut}, 2},
    };
    FakeDevice a{.name = "a", .ports = {FakePort(), infiniband_port(3)}};
    a.ports[0].gids.push_back(make_gid(5, IBV_GID_TYPE_ROCE_V1, "fe80::1"));
    for (const auto &row : rows) {
        CAPTURE(std::string(row.filter));
        FakeRdmaDevices fake({a, {.name = "b"}});
        const Devices devices = open_all(fake, row.filter);
        CHECK(usable(devices) == row.usable);
        CHECK(left_out(devices) == row.left_out);
        CHECK(fake.opened() == row.opened);
        for (const auto &device : devices.open)
            CHECK(device->ports().size() > 0);
        if (std::string_view(row.filter) == "a:1:5,b")
            CHECK(devices.open[0]->ports()[0].gid_index == 5);
    }
}

TEST_CASE("an InfiniBand port whose GID is wanted and absent is not used") {
    FakeRdmaDevices fake({{.name = "a", .ports = {infiniband_port(3)}}});
    CHECK(left_out(open_all(fake, "a:1:1")) == Lines{"a:1: no InfiniBand GID at index 1"});
    CHECK(usable(open_all(fake, "a:1:0")) == Lines{"a:1"});
}

TEST_CASE("a transport without reliable connections is not opened") {
    FakeRdmaDevices fake({{.name = "efa_0", .transport = IBV_TRANSPORT_UNSPECIFIED},
                          {.name = "erdma_0", .transport = IBV_TRANSPORT_IWARP}});
    const Devices devices = open_all(fake);
    CHECK(usable(devices) == Lines{"erdma_0:1"});
    CHECK(left_out(devices) == Lines{"efa_0: its transport has no reliable connections"});
    CHECK(fake.opened() == 1);
}

TEST_CASE("no device at all is an ordinary result") {
    FakeRdmaDevices fake({});
    const Devices devices = open_all(fake);
    CHECK(devices.open.empty());
    CHECK(devices.left_out.empty());
}

TEST_CASE("any call that fails is told with its errno, leaves nothing open, and hides no other") {
    FakeRdmaDevices fake({{.name = "a", .ports = {FakePort(), infiniband_port(5)}},
                          {.name = "b", .ports = {infiniband_port(6)}}});
    fake.fail_call(0, 0);
    usable(open_all(fake));
    const int calls = fake.calls();
    CHECK(calls == 1 + 4 + 17 + 18 + 4 + 18);  // list; device, port with GIDs and key
    for (int k = 1; k <= calls; ++k) {
        CAPTURE(k);
        fake.fail_call(k, EIO);
        auto devices = open_devices(fake.verbs(), {});
        CHECK(bool(devices) == (k > 1));
        const Failure *why = devices ? nullptr : &devices.error();
        if (devices) {
            const Lines all = usable(*devices);
            const Lines of_a = {"a:1", "a:2"}, of_b = {"b:1"};
            CHECK((std::includes(all.begin(), all.end(), of_a.begin(), of_a.end()) ||
                   std::includes(all.begin(), all.end(), of_b.begin(), of_b.end())));
            CHECK(devices->left_out.size() == 3 - (all.size() + (all == of_b)));
            if (!devices->left_out.empty()) why = &devices->left_out[0].why;
        }
        if (!why) continue;  // of an entry of a GID table that has better ones
        CHECK(why->status == XFER_EIO);
        CHECK(why->origin == XFER_ORIGIN_VERBS);
        CHECK(why->native == EIO);
    }
    fake.fail_call(0, 0);
    CHECK(usable(open_all(fake)) == Lines{"a:1", "a:2", "b:1"});
}

TEST_CASE("a device is not closed under what is left in its domain") {
    FakeRdmaDevices fake({{.name = "a"}});
    Devices devices = open_all(fake);
    fake.device(0).domain_in_use = true;
    devices.open.clear();  // the fake would tell
}

TEST_CASE("the child of a fork closes nothing of its parent's") {
    FakeRdmaDevices fake({{.name = "a"}});
    Devices devices = open_all(fake);
    const pid_t child = ::fork();
    if (child == 0) {
        devices.open[0]->ports()[0].domain->context = nullptr;  // giving it back ends the child
        devices.open.clear();
        ::_exit(0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a port goes down, comes back, and is told once each time") {
    World world({{.name = "a", .ports = {FakePort(), FakePort()}}});
    world.follow();
    CHECK(world.turn() == Lines{});
    for (int i = 0; i < 2; ++i) {
        world.fake.raise(0, IBV_EVENT_PORT_ERR, 2);
        world.fake.port(0, 2).state = IBV_PORT_DOWN;
        CHECK(world.turn() == Lines{"down a:2: it went down"});
        CHECK(world.port(0, 1).active);
        CHECK_FALSE(world.port(0, 2).active);
        world.fake.raise(0, IBV_EVENT_PORT_ERR, 2);
        CHECK(world.turn() == Lines{});
        world.fake.raise(0, IBV_EVENT_PORT_ACTIVE, 2);  // before it is
        CHECK(world.turn() == Lines{});
        world.fake.port(0, 2).state = IBV_PORT_ACTIVE;
        world.fake.raise(0, IBV_EVENT_PORT_ACTIVE, 2);
        CHECK(world.turn() == Lines{"up a:2"});
        CHECK(world.port(0, 2).active);
    }
    // It is up again before anybody has looked.
    world.fake.raise(0, IBV_EVENT_PORT_ERR, 1);
    world.fake.raise(0, IBV_EVENT_PORT_ACTIVE, 1);
    CHECK(world.turn() == Lines{"down a:1: it went down", "up a:1"});
    world.fake.raise(0, IBV_EVENT_PORT_ACTIVE, 3);  // nonsense
    world.fake.raise(0, IBV_EVENT_PORT_ERR, 0);
    CHECK(world.turn() == Lines{});
}

TEST_CASE("a port that was down at first comes in, with what it has by then") {
    FakePort port;
    port.state = IBV_PORT_DOWN;
    port.gids = {};
    World world({{.name = "a", .ports = {port}}});
    CHECK(left_out(world.devices) == Lines{"a:1: it is DOWN"});
    // Before anybody follows.
    world.fake.port(0).state = IBV_PORT_ACTIVE;
    world.fake.raise(0, IBV_EVENT_PORT_ACTIVE);
    world.follow();
    CHECK(world.turn() == Lines{});  // there is no GID yet
    world.fake.port(0).gids = {make_gid(1, IBV_GID_TYPE_ROCE_V2, "fe80::1")};
    world.fake.port(0).mtu = IBV_MTU_1024;
    world.fake.raise(0, IBV_EVENT_GID_CHANGE);
    CHECK(world.turn() == Lines{"up a:1"});
    CHECK(world.port().gid_index == 1);
    CHECK(world.port().address.mtu == IBV_MTU_1024);
}

TEST_CASE("the address of a port changes: by any event, and only if it did") {
    const struct {
        const char *name;
        std::function<void(FakePort &)> change;
        std::function<bool(const Port &)> changed;
    } rows[] = {
        {"LID", [](auto &p) { p.lid = 8; }, [](auto &p) { return p.address.lid == 8; }},
        {"MTU", [](auto &p) { p.mtu = IBV_MTU_1024; },
         [](auto &p) { return p.address.mtu == IBV_MTU_1024; }},
        {"GID", [](auto &p) { p.gids = {make_gid(0, IBV_GID_TYPE_IB, "fec0::9")}; },
         [](auto &p) { return p.address.gid.raw[15] == 9; }},
        {"index of the GID",
         [](auto &p) { p.gids = {make_gid(2, IBV_GID_TYPE_IB, "fe80::1:2:3:4")}; },
         [](auto &p) { return p.gid_index == 2; }},
        {"partition",
         [](auto &p) {
             p.pkeys = {1, 0x8001};
         },
         [](auto &p) { return p.pkey_index == 1; }},
        {"layer", [](auto &p) { p = FakePort(); },
         [](auto &p) { return p.address.layer == LinkLayer::ethernet; }},
    };
    const ibv_event_type events[] = {IBV_EVENT_PORT_ACTIVE,       IBV_EVENT_LID_CHANGE,
                                     IBV_EVENT_PKEY_CHANGE,       IBV_EVENT_GID_CHANGE,
                                     IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_SM_CHANGE};
    for (const auto &row : rows)
        for (const ibv_event_type event : events) {
            CAPTURE(std::string(row.name));
            CAPTURE(event);
            World world({{.name = "a", .ports = {infiniband_port(7)}}});
            world.follow();
            world.fake.raise(0, event);
            CHECK(world.turn() == Lines{});
            row.change(world.fake.port(0));
            world.fake.raise(0, event);
            world.fake.raise(0, event);
            CHECK(world.turn() == Lines{"changed a:1"});
            CHECK(row.changed(world.port()));
            world.fake.port(0).speed = 64;  // no queue pair knows it
            world.fake.raise(0, event);
            CHECK(world.turn() == Lines{});
            CHECK(world.port().bits_per_second == 200'000'000'000);
        }
}

TEST_CASE("a port that loses its address, or can't be asked, is down until the next event") {
    World world({{.name = "a", .ports = {FakePort()}}});
    world.follow();
    const auto gids = std::exchange(world.fake.port(0).gids, {});
    world.fake.raise(0, IBV_EVENT_GID_CHANGE);
    CHECK(world.turn() == Lines{"down a:1: no RoCE GID"});
    world.fake.port(0).gids = gids;
    world.fake.raise(0, IBV_EVENT_GID_CHANGE);
    CHECK(world.turn() == Lines{"up a:1"});
    world.fake.raise(0, IBV_EVENT_SM_CHANGE);
    world.fake.fail_call(2, EIO);  // the first gets the event
    CHECK(world.turn() == Lines{"down a:1: it can't be queried: Input/output error"});
    world.fake.raise(0, IBV_EVENT_SM_CHANGE);
    CHECK(world.turn() == Lines{"up a:1"});
}

TEST_CASE("events of queues name them, and nobody follows the name") {
    World world({{.name = "a"}, {.name = "b"}});
    world.follow();
    // Where nothing is mapped.
    const uintptr_t gone = 16;
    const auto raise = [&](ibv_event_type type) {
        ibv_async_event event{};
        event.event_type = type;
        static_assert(sizeof event.element == sizeof gone);
        event.element.qp = reinterpret_cast<ibv_qp *>(gone);
        world.fake.raise(1, event);
        return world.turn();
    };
    CHECK(raise(IBV_EVENT_QP_FATAL) == Lines{"pair 16 event 1"});
    CHECK(raise(IBV_EVENT_QP_REQ_ERR) == Lines{"pair 16 event 2"});
    CHECK(raise(IBV_EVENT_QP_ACCESS_ERR) == Lines{"pair 16 event 3"});
    CHECK(raise(IBV_EVENT_QP_LAST_WQE_REACHED) == Lines{"last receive 16"});
    CHECK(raise(IBV_EVENT_CQ_ERR) == Lines{"cq 16"});
    CHECK(raise(IBV_EVENT_SRQ_ERR) == Lines{"srq 16"});
    CHECK(raise(IBV_EVENT_SRQ_LIMIT_REACHED) == Lines{"low 16"});
    for (const ibv_event_type other :
         {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR,
          IBV_EVENT_WQ_FATAL, static_cast<ibv_event_type>(31)})
        CHECK(raise(other) == Lines{});
    CHECK(world.fake.unacknowledged() == 0);
}

TEST_CASE("a device that fails takes its ports down for good") {
    World world({{.name = "a", .ports = {FakePort(), FakePort()}}, {.name = "b"}});
    world.follow();
    world.fake.raise(0, IBV_EVENT_DEVICE_FATAL);
    world.fake.raise(0, IBV_EVENT_DEVICE_FATAL);
    world.fake.raise(0, IBV_EVENT_PORT_ACTIVE);
    CHECK(world.turn() == Lines{"down a:1: the device has failed",
                                "down a:2: the device has failed", "fatal: the device has failed"});
    CHECK(world.devices.open[0]->fatal());
    CHECK_FALSE(world.devices.open[1]->fatal());
    CHECK(world.port(1).active);
    // Its queues are still destroyed, which waits for their events.
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    world.fake.raise(0, event);
    CHECK(world.turn() == Lines{"cq 0"});
}

TEST_CASE("a device whose events can't be read has failed, and keeps no loop busy") {
    World world({{.name = "a"}});
    world.follow();
    world.fake.raise(0, IBV_EVENT_PORT_ERR);
    world.fake.fail_call(1, ENODEV);
    CHECK(world.turn() == Lines{"down a:1: its events can't be read: No such device",
                                "fatal: its events can't be read: No such device"});
    const int calls = world.fake.calls();
    CHECK(world.turn() == Lines{});
    CHECK(world.fake.calls() == calls);
}

TEST_CASE("a signal while events are read loses none") {
    World world({{.name = "a"}});
    world.follow();
    world.fake.raise(0, IBV_EVENT_PORT_ERR);
    world.fake.fail_call(1, EINTR);
    CHECK(world.turn() == Lines{});
    CHECK(world.turn() == Lines{"down a:1: it went down"});
}

TEST_CASE("a storm of events leaves the loop its turns") {
    World world({{.name = "a"}});
    world.follow();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    for (int i = 0; i < 200; ++i)
        world.fake.raise(0, event);
    size_t told = 0;
    int turns = 0;
    while (told < 200) {
        const size_t now = world.turn().size();
        REQUIRE(now > 0);
        CHECK(now <= 64);
        told += now;
        ++turns;
    }
    CHECK(told == 200);
    CHECK(turns >= 4);
}
