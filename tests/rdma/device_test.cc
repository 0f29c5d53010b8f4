// SPDX-License-Identifier: Apache-2.0
// What the device and its queues say of themselves, and how they tell of what happens.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "link.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("device");

namespace {

bool readable(int fd, int milliseconds) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, milliseconds) == 1;
}

// The async events up to `last`, or those that came.
std::vector<ibv_event_type> events_until(const Device &device, ibv_event_type last) {
    std::vector<ibv_event_type> seen;
    ibv_async_event event;
    while (readable(device.context->async_fd, 10'000) &&
           verbs().get_async_event(device.context, &event) == 0) {
        seen.push_back(event.event_type);
        verbs().ack_async_event(&event);
        if (seen.back() == last) break;
    }
    return seen;
}

bool told(const std::vector<ibv_event_type> &seen, ibv_event_type of) {
    return std::find(seen.begin(), seen.end(), of) != seen.end();
}

// The NIC below a device: d0, v1, v2.
std::string nic(const Device &device) {
    const std::string name = verbs().get_device_name(device.context->device);
    return (name == "rxe0" ? "d" : "v") + name.substr(3);
}

ibv_port_state port_state(const Device &device) {
    ibv_port_attr port{};
    REQUIRE(verbs().query_port(device.context, 1, &port) == 0);
    return port.state;
}

}  // namespace

TEST_CASE("the port is active, Ethernet, with an MTU of 4096 and a GID of RoCE v2") {
    const Device &device = near_device();
    CHECK(device.port.state == IBV_PORT_ACTIVE);
    CHECK(device.port.link_layer == IBV_LINK_LAYER_ETHERNET);
    CHECK(device.port.active_mtu == IBV_MTU_4096);
    CHECK(device.port.gid_tbl_len > 1);
    uint16_t key = 0;
    CHECK(verbs().query_pkey(device.context, 1, 0, &key) == 0);
    CHECK(key == 0xffff);
    // Of RoCE v1 it has none.
    ibv_gid_entry entry;
    for (uint32_t i = 0; i < uint32_t(device.port.gid_tbl_len); ++i)
        if (verbs().query_gid_ex(device.context, 1, i, &entry, 0, sizeof entry) == 0)
            CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
}

TEST_CASE("its limits") {
    ibv_device_attr limits{};
    REQUIRE(verbs().query_device(near_device().context, &limits) == 0);
    CHECK(limits.atomic_cap == IBV_ATOMIC_HCA);  // not against the processor's
    CHECK(limits.max_sge == 32);
    CHECK(limits.max_qp_rd_atom == 128);
    CHECK(limits.max_cqe == 32767);
    CHECK(limits.max_qp_wr >= 65536);
    CHECK(limits.max_mr >= 65536);
    CHECK((limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
}

TEST_CASE("a queue is at least as large as asked for") {
    for (const int entries : {1, 10, 100, 32767}) {
        ibv_cq *const queue =
            verbs().create_cq(near_device().context, entries, nullptr, nullptr, 0);
        REQUIRE(queue);
        CHECK(queue->cqe >= entries);
        CHECK(verbs().destroy_cq(queue) == 0);
    }
    errno = 0;
    CHECK_FALSE(verbs().create_cq(near_device().context, 32768, nullptr, nullptr, 0));
    CHECK(errno == EINVAL);
    for (const uint32_t depth : {1u, 16u, 100u, 1000u}) {
        Attributes attributes;
        attributes.sends = depth;
        const Endpoint endpoint(near_device(), attributes);
        CHECK(endpoint.granted().max_send_wr >= depth);
        CHECK(endpoint.granted().max_inline_data >= 64);
        CHECK(endpoint.granted().max_send_sge >= 4);
    }
}

TEST_CASE("inline: the buffer is the caller's again at once, and longer ones are refused") {
    Here target;
    Link<Here> link(target);
    link.mine.fill(1);
    Request request = link.request(IBV_WR_RDMA_WRITE, 0, 64);
    request.flags |= IBV_SEND_INLINE;
    request.piece.lkey = 0;  // no key is needed
    REQUIRE(post(link.near, request) == 0);
    std::memset(link.mine.at(), 0, 64);
    REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
    CHECK(link.far_differs(1, 0, 64) == -1);
    request.piece.length = link.near.granted().max_inline_data + 1;
    CHECK(post(link.near, request) == EINVAL);
}

TEST_CASE("unsignaled requests give their slots back by themselves, as on no real device") {
    Here target;
    Link<Here> link(target);
    Request request = link.request(IBV_WR_RDMA_WRITE, 0, 8);
    request.flags = 0;
    const uint32_t many = 10 * link.near.granted().max_send_wr;
    const double end = now() + 30;
    for (uint32_t i = 0; i < many; ++i)
        while (post(link.near, request) == ENOMEM)
            REQUIRE(now() < end);
    request.flags = IBV_SEND_SIGNALED;
    request.id = 5;
    while (post(link.near, request) == ENOMEM)
        REQUIRE(now() < end);
    const auto done = link.near.next();
    REQUIRE(done);
    CHECK(done->wr_id == 5);
    CHECK_FALSE(link.near.next(0.1));
}

TEST_CASE("a completion channel: one event for each arming, none for what is there already") {
    ibv_comp_channel *const channel = verbs().create_comp_channel(near_device().context);
    REQUIRE(channel);
    {
        Here target;
        Attributes attributes;
        attributes.channel = channel;
        Link<Here> link(target, attributes);
        const Request request = link.request(IBV_WR_RDMA_WRITE, 0, 64);
        const auto event_comes = [&](int milliseconds) {
            ibv_cq *queue = nullptr;
            void *user = nullptr;
            if (!readable(channel->fd, milliseconds)) return false;
            REQUIRE(verbs().get_cq_event(channel, &queue, &user) == 0);
            CHECK(queue == link.near.queue());
            verbs().ack_cq_events(queue, 1);
            return true;
        };
        REQUIRE(link.done(request) == IBV_WC_SUCCESS);
        CHECK_FALSE(event_comes(100));  // not armed

        REQUIRE(ibv_req_notify_cq(link.near.queue(), 0) == 0);
        REQUIRE(post(link.near, request) == 0);
        REQUIRE(post(link.near, request) == 0);
        CHECK(event_comes(10'000));
        REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
        REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
        CHECK_FALSE(event_comes(100));

        // Why who arms must poll again behind it.
        REQUIRE(post(link.near, request) == 0);
        REQUIRE(post(link.near, link.request(IBV_WR_RDMA_READ, 0, 8)) == 0);
        REQUIRE(link.near.next_status() == IBV_WC_SUCCESS);
        ::usleep(200'000);
        REQUIRE(ibv_req_notify_cq(link.near.queue(), 0) == 0);
        CHECK_FALSE(event_comes(200));
        CHECK(link.near.next_status(1) == IBV_WC_SUCCESS);
    }
    CHECK(verbs().destroy_comp_channel(channel) == 0);
}

TEST_CASE("a port that goes down and comes back, and a GID that comes, are told") {
    const Device &device = near_device();
    const auto ip = [&](const std::string &words) {
        const std::string command = "ip " + words + " dev " + nic(device);
        REQUIRE(std::system(command.c_str()) == 0);
    };
    ip("link set down");
    CHECK(told(events_until(device, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR));
    CHECK(port_state(device) == IBV_PORT_DOWN);
    ip("link set up");
    CHECK(told(events_until(device, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_PORT_ACTIVE));
    CHECK(port_state(device) == IBV_PORT_ACTIVE);
    while (readable(device.context->async_fd, 300)) {  // the GIDs of its IPv6 addresses
        ibv_async_event event;
        REQUIRE(verbs().get_async_event(device.context, &event) == 0);
        verbs().ack_async_event(&event);
    }
    ip("addr add 10.9.7.7/24");
    CHECK(told(events_until(device, IBV_EVENT_GID_CHANGE), IBV_EVENT_GID_CHANGE));
    ip("addr del 10.9.7.7/24");
    CHECK(told(events_until(device, IBV_EVENT_GID_CHANGE), IBV_EVENT_GID_CHANGE));
}

TEST_SUITE_END();
