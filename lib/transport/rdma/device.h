// SPDX-License-Identifier: Apache-2.0
// An adapter that is open: its ports, and what it tells of them and of its queues while they live.
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "transport/rdma/device_filter.h"
#include "transport/rdma/port.h"
#include "transport/rdma/port_state.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

// What is told by the events of a device. A queue that an event names may have been destroyed
// since, and its address belong to another: it is only ever compared. On the loop's thread; the
// device is not destroyed inside.
class DeviceSink {
public:
    virtual void on_port_up(const Port &port) = 0;
    virtual void on_port_down(const Port &port, const Failure &why) = 0;
    // Its LID, GID, partition or MTU is another: queue pairs of before have to be made anew.
    virtual void on_port_changed(const Port &port) = 0;
    // QP_FATAL, QP_REQ_ERR or QP_ACCESS_ERR.
    virtual void on_queue_pair_error(const ibv_qp *pair, ibv_event_type event) = 0;
    // It is in error and takes nothing more from its shared receive queue.
    virtual void on_last_receive(const ibv_qp *pair) = 0;
    virtual void on_completion_queue_error(const ibv_cq *queue) = 0;
    virtual void on_shared_queue_error(const ibv_srq *queue) = 0;
    virtual void on_shared_queue_low(const ibv_srq *queue) = 0;  // its limit is reached
    // Every port is down, and comes back only by opening the device again.
    virtual void on_device_fatal(const Failure &why) = 0;

protected:
    ~DeviceSink() = default;
};

// What of the devices is not in use, and why: "mlx5_0", "mlx5_0:1", or as the filter names it.
struct LeftOut {
    std::string name;
    Failure why;
};

// Thread: that of the loop which follows the events, from then on.
class Device final : WatchSink {
public:
    // Of those that the filter admits, all ports are there, also those that can't be used now:
    // their event may come. They are told in `left_out`, as are those that are not admitted. May
    // block; may throw.
    static Result<std::unique_ptr<Device>> open(const Verbs &verbs, ibv_device *device,
                                                const DeviceFilter &filter,
                                                std::vector<LeftOut> &left_out);
    // Whatever was made in its domain is destroyed before. May block. In the child of a fork
    // nothing is closed: the kernel would do it to the parent's.
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    const std::string &name() const { return name_; }
    // They stay where they are as long as the device is open.
    const std::vector<Port> &ports() const { return ports_; }
    uint8_t port_count() const { return port_count_; }  // with those not admitted
    bool fatal() const { return fatal_; }

    // Events are told from now on, those first that waited. XFER_OK, or XFER_EIO if the loop can't
    // watch them. The sink outlives the device.
    Status follow(Loop &loop, DeviceSink &sink);

private:
    Device(const Verbs &verbs, std::string name) : verbs_(verbs), name_(std::move(name)) {}
    std::optional<Failure> open_context(ibv_device *device);
    void add_ports(const DeviceFilter &filter, std::vector<LeftOut> &left_out);
    Result<PortState> query(const Port &port) const;

    void on_ready(uint32_t readiness) override;
    void handle(const ibv_async_event &event);
    void handle_port(int number, ibv_event_type event);
    void take_down(Port &port, const Failure &why);
    void fail(const Failure &why);

    const Verbs &verbs_;
    const std::string name_;
    const pid_t pid_ = ::getpid();
    ibv_context *context_ = nullptr;
    ibv_pd *domain_ = nullptr;
    DeviceLimits limits_;
    uint8_t port_count_ = 0;
    int numa_node_ = -1;
    std::vector<Port> ports_;
    std::vector<std::optional<uint8_t>> wanted_gids_;  // of the ports
    bool fatal_ = false;
    DeviceSink *sink_ = nullptr;
    std::unique_ptr<Watch> watch_;
};

}  // namespace xfer::rdma
