// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "util/fd.h"

namespace xfer::rdma {

namespace {

// In one turn of the loop, which has others to serve in a storm of them.
constexpr int kEventsPerTurn = 64;

// -1: unknown, as where there is one node only.
int numa_node_of(const ibv_device &device) {
    const std::string path = std::string(device.ibdev_path) + "/device/numa_node";
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[16];
    const ssize_t size = file ? ::read(file.get(), text, sizeof text) : -1;
    int node = -1;
    if (size > 0) std::from_chars(text, text + size, node);
    return node;
}

// What a driver says in an int, in the range of T.
template <typename T>
T clamped(int value) {
    constexpr int64_t kMost = std::numeric_limits<T>::max();
    return static_cast<T>(std::clamp<int64_t>(value, 0, kMost));
}

DeviceLimits limits_of(const ibv_device_attr &device) {
    DeviceLimits limits;
    limits.queue_pairs = clamped<uint32_t>(device.max_qp);
    limits.send_requests = clamped<uint32_t>(device.max_qp_wr);
    limits.send_pieces = clamped<uint32_t>(device.max_sge);
    // A read of one piece is always possible, whatever a driver leaves at 0.
    limits.read_pieces =
        std::min(clamped<uint32_t>(std::max(1, device.max_sge_rd)), limits.send_pieces);
    limits.completions = clamped<uint32_t>(device.max_cqe);
    limits.region_bytes = device.max_mr_size;
    limits.reads_out = clamped<uint8_t>(device.max_qp_init_rd_atom);
    limits.reads_in = clamped<uint8_t>(device.max_qp_rd_atom);
    limits.atomics_with_cpu = device.atomic_cap == IBV_ATOMIC_GLOB;
    return limits;
}

// Of what one-sided operations over reliable connections touch, here and at the peer.
bool has_on_demand_paging(const Verbs &verbs, ibv_context *context) {
    constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    ibv_device_attr_ex device{};
    if (!verbs.query_device_ex || verbs.query_device_ex(context, &device)) return false;
    const ibv_odp_caps &caps = device.odp_caps;
    return (caps.general_caps & IBV_ODP_SUPPORT) &&
           (caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
}

// The vendor of the kernel's own driver, which looks at the queue pair and the rights of a window,
// but at the range of its registration.
constexpr uint32_t kSoftRoce = 0xffffff;

// What says that it has windows may still make none, as where its driver's library is older.
bool has_windows(const ibv_device_attr &device, ibv_pd *domain) {
    constexpr unsigned kType2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    if (!(device.device_cap_flags & kType2)) return false;
    ibv_mw *const window = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
    return window && ibv_dealloc_mw(window) == 0;
}

bool set_nonblocking(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

Device::~Device() {
    watch_.reset();
    if (::getpid() != pid_) return;
    // Whatever still uses the domain would be left without its context: both stay with the process.
    if (domain_ && verbs_.dealloc_pd(domain_)) return;
    if (context_) verbs_.close_device(context_);
}

Result<std::unique_ptr<Device>> Device::open(const Verbs &verbs, ibv_device *of,
                                             const DeviceFilter &filter,
                                             std::vector<LeftOut> &left_out) {
    // What was opened when a step fails is closed by its end.
    std::unique_ptr<Device> device(new Device(verbs, verbs.get_device_name(of)));
    if (const auto why = device->open_context(of)) return *why;
    device->add_ports(filter, left_out);
    return device;
}

std::optional<Failure> Device::open_context(ibv_device *device) {
    // Others, as those of Amazon's EFA, have no reliable connections. eRDMA says iWARP.
    if (device->transport_type != IBV_TRANSPORT_IB && device->transport_type != IBV_TRANSPORT_IWARP)
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, device->transport_type,
                       "its transport has no reliable connections"};
    context_ = verbs_.open_device(device);
    if (!context_) return verbs_failure(errno, "it can't be opened");
    if (!set_nonblocking(context_->async_fd)) return os_failure(errno, "its events can't be read");
    ibv_device_attr attributes{};
    if (const int result = verbs_.query_device(context_, &attributes))
        return verbs_failure(verbs_errno(result), "it can't be queried");
    limits_ = limits_of(attributes);
    limits_.on_demand_paging = has_on_demand_paging(verbs_, context_);
    port_count_ = attributes.phys_port_cnt;
    numa_node_ = numa_node_of(*device);
    domain_ = verbs_.alloc_pd(context_);
    if (!domain_) return verbs_failure(errno, "it gives no protection domain");
    limits_.windows = has_windows(attributes, domain_);
    limits_.part_windows = limits_.windows && attributes.vendor_id != kSoftRoce;
    return std::nullopt;
}

void Device::add_ports(const DeviceFilter &filter, std::vector<LeftOut> &left_out) {
    for (unsigned i = 1; i <= port_count_; ++i) {
        const auto number = static_cast<uint8_t>(i);
        std::string name = name_ + ":" + std::to_string(i);
        if (!filter.admits(name_, number)) {
            left_out.push_back({std::move(name), not_admitted()});
            continue;
        }
        wanted_gids_.push_back(filter.gid_index(name_, number));
        Port &port = ports_.emplace_back();
        port.context = context_, port.domain = domain_;
        port.name = std::move(name), port.number = number;
        port.limits = limits_, port.numa_node = numa_node_;
        Result<PortState> state = query(port);
        if (state)
            update(port, *state), port.active = true;
        else
            left_out.push_back({port.name, state.error()});
    }
}

// ---- events

Status Device::follow(Loop &loop, DeviceSink &sink) {
    sink_ = &sink;
    watch_ = loop.watch(context_->async_fd, *this, kReadable);
    return watch_ ? XFER_OK : XFER_EIO;
}

// An event is acknowledged before it is told: ibv_destroy_* waits for that, in any thread.
void Device::on_ready(uint32_t) {
    for (int i = 0; i < kEventsPerTurn; ++i) {
        ibv_async_event event{};
        if (verbs_.get_async_event(context_, &event)) {
            if (errno == EINTR || errno == EAGAIN) return;  // the loop comes back if there is more
            watch_->want(0);
            return fail(verbs_failure(errno, "its events can't be read"));
        }
        verbs_.ack_async_event(&event);
        handle(event);
    }
}

void Device::handle(const ibv_async_event &event) {
    switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return handle_port(event.element.port_num, event.event_type);
    case IBV_EVENT_DEVICE_FATAL:
        return fail({XFER_EIO, XFER_ORIGIN_VERBS, IBV_EVENT_DEVICE_FATAL, "the device has failed"});
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        return sink_->on_queue_pair_error(event.element.qp, event.event_type);
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return sink_->on_last_receive(event.element.qp);
    case IBV_EVENT_CQ_ERR:
        return sink_->on_completion_queue_error(event.element.cq);
    case IBV_EVENT_SRQ_ERR:
        return sink_->on_shared_queue_error(event.element.srq);
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return sink_->on_shared_queue_low(event.element.srq);
    default:  // of what is not used, as alternate paths, or not known
        return;
    }
}

// Whatever is said to have changed, the port is asked how it is now. But it was down, also where it
// is up again: of that another event is on its way.
void Device::handle_port(int number, ibv_event_type event) {
    const auto port = std::find_if(ports_.begin(), ports_.end(),
                                   [&](const Port &port) { return port.number == number; });
    if (port == ports_.end() || fatal_) return;
    if (event == IBV_EVENT_PORT_ERR)
        return take_down(*port, {XFER_EUNREACHABLE, XFER_ORIGIN_VERBS, event, "it went down"});
    Result<PortState> state = query(*port);
    if (!state) return take_down(*port, state.error());
    const bool changed = update(*port, *state);
    if (!std::exchange(port->active, true))
        sink_->on_port_up(*port);
    else if (changed)
        sink_->on_port_changed(*port);
}

Result<PortState> Device::query(const Port &port) const {
    const auto wanted = wanted_gids_[&port - ports_.data()];
    return query_port_state(verbs_, context_, port.number, wanted);
}

void Device::take_down(Port &port, const Failure &why) {
    if (std::exchange(port.active, false)) sink_->on_port_down(port, why);
}

void Device::fail(const Failure &why) {
    if (std::exchange(fatal_, true)) return;
    for (Port &port : ports_)
        take_down(port, why);
    sink_->on_device_fatal(why);
}

}  // namespace xfer::rdma
