// SPDX-License-Identifier: Apache-2.0
#include "fake_rdma_devices.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace xfer::rdma {

namespace {

ibv_device handle_of(const FakeDevice &device, const std::string &sysfs) {
    ibv_device handle{};
    handle.transport_type = device.transport;
    std::strncpy(handle.name, device.name.c_str(), sizeof handle.name - 1);
    std::strncpy(handle.ibdev_path, (sysfs + "/" + device.name).c_str(),
                 sizeof handle.ibdev_path - 1);
    return handle;
}

void write_numa_node(const FakeDevice &device, const std::string &sysfs) {
    if (device.numa_node < 0) return;
    const std::filesystem::path folder = sysfs + "/" + device.name + "/device";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "numa_node") << device.numa_node << '\n';
}

int misused(const char *how) {
    FAIL_CHECK(how);
    return errno = EINVAL;
}

}  // namespace

ibv_gid_entry make_gid(uint32_t index, ibv_gid_type type, const char *address) {
    ibv_gid_entry entry{};
    entry.gid_index = index;
    entry.port_num = 1;
    entry.gid_type = type;
    entry.ndev_ifindex = type == IBV_GID_TYPE_IB ? 0 : 2;
    XFER_CHECK(::inet_pton(AF_INET6, address, entry.gid.raw) == 1);  // tables are made before tests
    return entry;
}

FakePort infiniband_port(uint16_t lid) {
    FakePort port;
    port.layer = IBV_LINK_LAYER_INFINIBAND;
    port.lid = lid;
    port.gids = {make_gid(0, IBV_GID_TYPE_IB, "fe80::1:2:3:4")};
    return port;
}

// One opening of a device. Events go through a pipe, as the kernel's through a file.
struct FakeRdmaDevices::Context : ibv_context {
    explicit Context(ibv_device *of, size_t index) : ibv_context{}, index(index) {
        device = of;
        int fds[2];
        REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
        async_fd = fds[0], events = Fd(fds[1]), read = Fd(fds[0]);
    }
    size_t index;
    Fd events, read;
    std::unique_ptr<ibv_pd> domain;
};

FakeRdmaDevices::FakeRdmaDevices(std::vector<FakeDevice> devices) : devices_(std::move(devices)) {
    REQUIRE(!now_);
    now_ = this;
    char folder[] = "/tmp/xfer-rdma-XXXXXX";
    REQUIRE(::mkdtemp(folder));
    sysfs_ = folder;
    for (FakeDevice &device : devices_) {
        device.attributes.phys_port_cnt = static_cast<uint8_t>(device.ports.size());
        write_numa_node(device, sysfs_);
        handles_.push_back(handle_of(device, sysfs_));
    }
    for (ibv_device &handle : handles_)
        list_.push_back(&handle);
    list_.push_back(nullptr);
    verbs_.get_device_list = get_device_list, verbs_.free_device_list = free_device_list;
    verbs_.get_device_name = get_device_name;
    verbs_.open_device = open_device, verbs_.close_device = close_device;
    verbs_.query_device = query_device, verbs_.query_device_ex = query_device_ex;
    verbs_.query_port = query_port;
    verbs_.query_gid_ex = query_gid_ex, verbs_.query_pkey = query_pkey;
    verbs_.get_async_event = get_async_event, verbs_.ack_async_event = ack_async_event;
    verbs_.alloc_pd = alloc_pd, verbs_.dealloc_pd = dealloc_pd;
}

FakeRdmaDevices::~FakeRdmaDevices() {
    now_ = nullptr;
    std::filesystem::remove_all(sysfs_);
    CHECK_MESSAGE(lists_ == 0, "a list of devices is left");
    CHECK_MESSAGE(unacknowledged_ == 0, "an event is left that was not acknowledged");
    for (const auto &context : contexts_)  // but for one whose domain can't be given back
        CHECK_MESSAGE(devices_[context->index].domain_in_use, "a device is left open");
}

bool FakeRdmaDevices::fails() {
    if (++now_->calls_ != now_->failing_) return false;
    errno = now_->error_;
    return true;
}

FakePort *FakeRdmaDevices::find_port(ibv_context *context, uint32_t number) {
    std::vector<FakePort> &ports = now_->devices_[static_cast<Context *>(context)->index].ports;
    if (number < 1 || number > ports.size()) return nullptr;
    return &ports[number - 1];
}

void FakeRdmaDevices::raise(size_t device, ibv_event_type type, int port) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = port;
    raise(device, event);
}

void FakeRdmaDevices::raise(size_t device, const ibv_async_event &event) {
    for (const auto &context : contexts_)
        if (context->index == device)
            REQUIRE(::write(context->events.get(), &event, sizeof event) == sizeof event);
}

// ---- the table

ibv_device **FakeRdmaDevices::get_device_list(int *count) {
    if (fails()) return nullptr;
    ++now_->lists_;
    if (count) *count = static_cast<int>(now_->handles_.size());
    return now_->list_.data();
}

void FakeRdmaDevices::free_device_list(ibv_device **list) {
    CHECK(list == now_->list_.data());
    CHECK(now_->lists_-- > 0);
}

const char *FakeRdmaDevices::get_device_name(ibv_device *device) {
    return device->name;
}

ibv_context *FakeRdmaDevices::open_device(ibv_device *device) {
    CHECK_MESSAGE(now_->lists_ > 0, "the device was freed with its list");
    if (fails()) return nullptr;
    ++now_->opened_;
    auto context = std::make_unique<Context>(device, device - now_->handles_.data());
    return now_->contexts_.emplace_back(std::move(context)).get();
}

int FakeRdmaDevices::close_device(ibv_context *context) {
    const auto found = std::find_if(now_->contexts_.begin(), now_->contexts_.end(),
                                    [&](const auto &each) { return each.get() == context; });
    if (found == now_->contexts_.end()) return misused("closed what is not open");
    CHECK_MESSAGE(!(*found)->domain, "closed with a protection domain left");
    now_->contexts_.erase(found);
    return 0;
}

int FakeRdmaDevices::query_device(ibv_context *context, ibv_device_attr *out) {
    if (fails()) return errno;
    *out = now_->devices_[static_cast<Context *>(context)->index].attributes;
    return 0;
}

int FakeRdmaDevices::query_device_ex(ibv_context *context, ibv_device_attr_ex *out) {
    if (fails()) return errno;
    const FakeDevice &device = now_->devices_[static_cast<Context *>(context)->index];
    *out = {};
    out->orig_attr = device.attributes;
    out->odp_caps = device.on_demand_paging;
    return 0;
}

int FakeRdmaDevices::query_port(ibv_context *context, uint8_t number, ibv_port_attr *out) {
    if (fails()) return errno;
    const FakePort *const port = find_port(context, number);
    if (!port) return misused("no such port");
    std::memset(out, 0, sizeof *out);
    out->state = port->state;
    out->max_mtu = IBV_MTU_4096, out->active_mtu = port->mtu;
    out->gid_tbl_len = port->gids.empty() ? 0 : 16;
    out->pkey_tbl_len = static_cast<uint16_t>(port->pkeys.size());
    out->lid = port->lid;
    out->active_width = port->width, out->active_speed = port->speed;
    out->max_msg_sz = port->message_bytes;
    out->link_layer = port->layer;
    return 0;
}

int FakeRdmaDevices::query_gid_ex(ibv_context *context, uint32_t number, uint32_t index,
                                  ibv_gid_entry *out, uint32_t flags, size_t entry_size) {
    if (fails()) return errno;
    const FakePort *const port = find_port(context, number);
    if (!port || flags || entry_size != sizeof *out) return misused("bad arguments");
    for (const ibv_gid_entry &entry : port->gids)
        if (entry.gid_index == index) return *out = entry, 0;
    return ENODATA;
}

// As the library does: -1, and the errno beside it.
int FakeRdmaDevices::query_pkey(ibv_context *context, uint8_t number, int index, __be16 *out) {
    if (fails()) return -1;
    const FakePort *const port = find_port(context, number);
    if (!port || index < 0 || static_cast<size_t>(index) >= port->pkeys.size())
        return misused("no such partition key"), -1;
    *out = htobe16(port->pkeys[static_cast<size_t>(index)]);
    return 0;
}

int FakeRdmaDevices::get_async_event(ibv_context *context, ibv_async_event *out) {
    if (fails()) return -1;
    if (!(::fcntl(context->async_fd, F_GETFL) & O_NONBLOCK)) FAIL("reading events would block");
    if (::read(context->async_fd, out, sizeof *out) != sizeof *out) return -1;
    ++now_->unacknowledged_;
    return 0;
}

void FakeRdmaDevices::ack_async_event(ibv_async_event *) {
    CHECK(now_->unacknowledged_-- > 0);
}

ibv_pd *FakeRdmaDevices::alloc_pd(ibv_context *context) {
    if (fails()) return nullptr;
    auto &domain = static_cast<Context *>(context)->domain;
    CHECK(!domain);
    domain = std::make_unique<ibv_pd>();
    domain->context = context;
    return domain.get();
}

int FakeRdmaDevices::dealloc_pd(ibv_pd *domain) {
    auto *const context = static_cast<Context *>(domain->context);
    if (now_->devices_[context->index].domain_in_use) return EBUSY;
    CHECK(context->domain.get() == domain);
    context->domain.reset();
    return 0;
}

}  // namespace xfer::rdma
