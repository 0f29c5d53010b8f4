// SPDX-License-Identifier: Apache-2.0
// Adapters as devices: listed, opened, asked, and what they tell of themselves.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "fake_verbs_objects.h"

namespace xfer::rdma {
namespace {

constexpr uint8_t kFourLanes = 2, kHundredGigabit = 128;  // as bits of a port's attributes
constexpr uint16_t kDefaultPkey = 0xffff;

// Of a device's attributes, which are int.
int clamped(uint64_t value) {
    return static_cast<int>(std::min<uint64_t>(value, std::numeric_limits<int>::max()));
}

std::mutex fabrics_mutex;
std::vector<FakeFabric *> fabrics;  // alive

// What is not destroyed before the event is acknowledged: so many of its events are not. Null: of
// no queue.
size_t *unacked_of(const ibv_async_event &event) {
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return &static_cast<FakeQueuePair *>(event.element.qp)->async_unacked;
    case IBV_EVENT_CQ_ERR:
        return &static_cast<FakeCompletionQueue *>(event.element.cq)->async_unacked;
    default:
        return nullptr;
    }
}

}  // namespace

// ---- which fabric

void FakeFabric::enlist() {
    const std::lock_guard lock(fabrics_mutex);
    fabrics.push_back(this);
}

void FakeFabric::delist() {
    const std::lock_guard lock(fabrics_mutex);
    std::erase(fabrics, this);
}

FakeFabric *FakeFabric::only() {
    const std::lock_guard lock(fabrics_mutex);
    return fabrics.size() == 1 ? fabrics.front() : nullptr;
}

// ---- devices

ibv_device **FakeTable::get_device_list(int *count) {
    FakeFabric *const fabric = FakeFabric::only();
    if (!fabric) {
        errno = ENOSYS;
        return nullptr;
    }
    const std::lock_guard lock(fabric->mutex_);
    if (fabric->fails(FakeCall::get_device_list)) return nullptr;
    auto &list = *fabric->lists_.emplace_back(std::make_unique<std::vector<ibv_device *>>());
    for (const auto &adapter : fabric->adapters_)
        list.push_back(&adapter->objects_->device);
    if (count) *count = static_cast<int>(list.size());
    list.push_back(nullptr);
    return list.data();
}

void FakeTable::free_device_list(ibv_device **list) {
    FakeFabric *const fabric = FakeFabric::only();
    if (!fabric) return;
    const std::lock_guard lock(fabric->mutex_);
    if (std::erase_if(fabric->lists_, [=](const auto &kept) { return kept->data() == list; }) == 0)
        fabric->violate(Violation::device_list, "freed what is no list");
}

const char *FakeTable::get_device_name(ibv_device *device) {
    return device->name;
}

ibv_context *FakeTable::open_device(ibv_device *device) {
    FakeAdapter &adapter = *static_cast<FakeDeviceHandle *>(device)->adapter;
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    if (fabric.lists_.empty())
        fabric.violate(Violation::device_list, "a device was freed with its list");
    if (fabric.fails(FakeCall::open_device)) return nullptr;
    const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (fd < 0) return nullptr;
    FakeContext &context = adapter.objects_->contexts.add();
    adapter.set_up(context);
    context.async_fd = fd;
    adapter.objects_->opened.push_back(&context);
    return &context;
}

int FakeTable::close_device(ibv_context *handle) {
    FakeAdapter &adapter = adapter_of(handle);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &context = *static_cast<FakeContext *>(handle);
    if (!fabric.alive(&context)) return EINVAL;
    if (context.users > 0) {
        fabric.violate(Violation::busy_context,
                       std::to_string(context.users) + " domains, channels and queues are left");
        return EBUSY;
    }
    ::close(context.async_fd);
    std::erase(adapter.objects_->opened, &context);
    adapter.objects_->contexts.bury(context);
    return 0;
}

int FakeTable::query_device(ibv_context *handle, ibv_device_attr *out) {
    FakeAdapter &adapter = adapter_of(handle);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    if (!adapter.fabric_.alive(static_cast<FakeContext *>(handle))) return EINVAL;
    if (adapter.fabric_.fails(FakeCall::query_device)) return errno;
    const DeviceLimits &limits = adapter.options_.limits;
    *out = {};
    out->phys_port_cnt = 1;
    out->max_qp = clamped(limits.queue_pairs);
    out->max_qp_wr = clamped(limits.send_requests);
    out->max_sge = clamped(limits.send_pieces);
    out->max_sge_rd = clamped(limits.read_pieces);
    out->max_cqe = clamped(limits.completions);
    out->max_mr_size = limits.region_bytes;
    out->max_qp_rd_atom = limits.reads_in;
    out->max_qp_init_rd_atom = limits.reads_out;
    out->atomic_cap = adapter.options_.atomics;
    if (adapter.options_.loose_windows) out->vendor_id = 0xffffff;
    if (adapter.options_.windows || adapter.options_.claims_windows)
        out->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return 0;
}

int FakeTable::query_device_ex(ibv_context *context, ibv_device_attr_ex *out) {
    *out = {};
    if (const int error = query_device(context, &out->orig_attr)) return error;
    if (!adapter_of(context).options_.limits.on_demand_paging) return 0;
    out->odp_caps.general_caps = IBV_ODP_SUPPORT;
    out->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    return 0;
}

int FakeTable::query_port(ibv_context *handle, uint8_t port, ibv_port_attr *out) {
    FakeAdapter &adapter = adapter_of(handle);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    if (!adapter.fabric_.alive(static_cast<FakeContext *>(handle)) || port != 1) return EINVAL;
    if (adapter.fabric_.fails(FakeCall::query_port)) return errno;
    const bool ethernet = adapter.options_.layer == LinkLayer::ethernet;
    *out = {};
    out->state = IBV_PORT_ACTIVE;
    out->max_mtu = out->active_mtu = adapter.options_.mtu;
    out->gid_tbl_len = 1;
    out->pkey_tbl_len = 1;
    out->max_msg_sz = static_cast<uint32_t>(adapter.options_.message_bytes);
    out->lid = adapter.address_.lid;
    out->active_width = kFourLanes, out->active_speed = kHundredGigabit;
    out->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

int FakeTable::query_gid_ex(ibv_context *handle, uint32_t port, uint32_t index, ibv_gid_entry *out,
                            uint32_t flags, size_t entry_size) {
    FakeAdapter &adapter = adapter_of(handle);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    if (!adapter.fabric_.alive(static_cast<FakeContext *>(handle))) return EINVAL;
    if (port != 1 || flags || entry_size != sizeof *out) return EINVAL;
    if (index > 0) return ENODATA;
    const bool ethernet = adapter.options_.layer == LinkLayer::ethernet;
    *out = {};
    out->gid = adapter.address_.gid;
    out->port_num = 1;
    out->gid_type = ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    return 0;
}

// As the library does: -1, and the errno beside it.
int FakeTable::query_pkey(ibv_context *handle, uint8_t port, int index, __be16 *out) {
    FakeFabric &fabric = adapter_of(handle).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    if (!fabric.alive(static_cast<FakeContext *>(handle)) || port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *out = htobe16(kDefaultPkey);
    return 0;
}

// ---- what they tell

// Of a queue, its opening is told; else all are.
void FakeFabric::tell(FakeAdapter &adapter, const ibv_async_event &event, ibv_context *opening) {
    adapter.events_.push_back(event);
    for (FakeContext *context : adapter.objects_->opened) {
        if (opening && opening != context) continue;
        context->events.push_back(event);
        add_event(context->async_fd);
    }
}

void FakeAdapter::raise_async(const ibv_async_event &event) {
    const std::lock_guard lock(fabric_.mutex_);
    fabric_.tell(*this, event, nullptr);
}

std::vector<ibv_async_event> FakeAdapter::take_async() {
    const std::lock_guard lock(fabric_.mutex_);
    return std::exchange(events_, {});
}

// Waits without the mutex, unless the descriptor is O_NONBLOCK.
int FakeTable::get_async_event(ibv_context *handle, ibv_async_event *out) {
    FakeFabric &fabric = adapter_of(handle).fabric_;
    auto &context = *static_cast<FakeContext *>(handle);
    for (;;) {
        {
            const std::lock_guard lock(fabric.mutex_);
            if (!fabric.alive(&context)) {
                errno = EBADF;
                return -1;
            }
        }
        uint64_t one;
        if (::read(context.async_fd, &one, sizeof one) != sizeof one) return -1;
        const std::lock_guard lock(fabric.mutex_);
        if (context.events.empty()) continue;  // its queue is gone
        *out = context.events.front();
        context.events.pop_front();
        fabric.meet(out->event_type);
        ++fabric.async_unacked_;
        if (size_t *const of_queue = unacked_of(*out)) ++*of_queue;
        return 0;
    }
}

void FakeTable::ack_async_event(ibv_async_event *event) {
    FakeFabric *const fabric = FakeFabric::only();
    if (!fabric) return;
    const std::lock_guard lock(fabric->mutex_);
    size_t *const of_queue = unacked_of(*event);
    if (fabric->async_unacked_ == 0 || (of_queue && *of_queue == 0)) {
        fabric->violate(Violation::event_acks, "more than async events were taken");
        return;
    }
    --fabric->async_unacked_;
    if (of_queue) --*of_queue;
}

// Those that wait go with it, as with the kernel; one that was taken keeps it.
void FakeTable::forget_events(FakeFabric &fabric, ibv_context *handle, const void *queue,
                              size_t unacked) {
    if (unacked > 0) fabric.violate(Violation::unacked, "the call would wait for ever");
    auto &context = *static_cast<FakeContext *>(handle);
    const auto is_of = [queue](const ibv_async_event &event) {
        return unacked_of(event) && event.element.qp == queue;
    };
    for (size_t i = std::erase_if(context.events, is_of); i > 0; --i)
        drop_event(context.async_fd);
}

// ---- the table

const Verbs &FakeFabric::verbs() {
    static const Verbs table = [] {
        Verbs verbs{};
        verbs.get_device_list = FakeTable::get_device_list;
        verbs.free_device_list = FakeTable::free_device_list;
        verbs.get_device_name = FakeTable::get_device_name;
        verbs.open_device = FakeTable::open_device;
        verbs.close_device = FakeTable::close_device;
        verbs.query_device = FakeTable::query_device;
        verbs.query_device_ex = FakeTable::query_device_ex;
        verbs.query_port = FakeTable::query_port;
        verbs.query_gid_ex = FakeTable::query_gid_ex;
        verbs.query_pkey = FakeTable::query_pkey;
        verbs.get_async_event = FakeTable::get_async_event;
        verbs.ack_async_event = FakeTable::ack_async_event;
        verbs.alloc_pd = FakeTable::alloc_pd;
        verbs.dealloc_pd = FakeTable::dealloc_pd;
        verbs.reg_mr = FakeTable::reg_mr;
        verbs.reg_mr_iova2 = FakeTable::reg_mr_iova2;
        verbs.reg_dmabuf_mr = FakeTable::reg_dmabuf_mr;
        verbs.dereg_mr = FakeTable::dereg_mr;
        verbs.create_comp_channel = FakeTable::create_comp_channel;
        verbs.destroy_comp_channel = FakeTable::destroy_comp_channel;
        verbs.create_cq = FakeTable::create_cq;
        verbs.destroy_cq = FakeTable::destroy_cq;
        verbs.get_cq_event = FakeTable::get_cq_event;
        verbs.ack_cq_events = FakeTable::ack_cq_events;
        verbs.create_qp = FakeTable::create_qp;
        verbs.modify_qp = FakeTable::modify_qp;
        verbs.query_qp = FakeTable::query_qp;
        verbs.destroy_qp = FakeTable::destroy_qp;
        return verbs;
    }();
    return table;
}

}  // namespace xfer::rdma
