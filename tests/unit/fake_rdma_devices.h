// SPDX-License-Identifier: Apache-2.0
// Adapters that there is only the table of: their devices, ports and events. Any call may be made
// to fail; what is misused, or left at the end, fails the test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/rdma/verbs.h"
#include "util/fd.h"

namespace xfer::rdma {

// `address`: as inet_pton takes it, of IPv6.
ibv_gid_entry make_gid(uint32_t index, ibv_gid_type type, const char *address);

// By default 100 Gb/s of RoCE, with one GID.
struct FakePort {
    ibv_port_state state = IBV_PORT_ACTIVE;
    uint8_t layer = IBV_LINK_LAYER_ETHERNET;
    uint16_t lid = 0;
    ibv_mtu mtu = IBV_MTU_4096;
    uint8_t width = 2, speed = 32;  // four lanes of 25 Gb/s
    uint32_t message_bytes = 1 << 30;
    std::vector<ibv_gid_entry> gids = {make_gid(3, IBV_GID_TYPE_ROCE_V2, "::ffff:10.0.0.1")};
    std::vector<uint16_t> pkeys = {0xffff};
};

FakePort infiniband_port(uint16_t lid);

struct FakeDevice {
    std::string name;
    std::vector<FakePort> ports = std::vector<FakePort>(1);
    ibv_transport_type transport = IBV_TRANSPORT_IB;
    ibv_device_attr attributes{};
    ibv_odp_caps on_demand_paging{};
    int numa_node = -1;
    bool domain_in_use = false;  // it can't be given back
};

// One at a time.
class FakeRdmaDevices {
public:
    explicit FakeRdmaDevices(std::vector<FakeDevice> devices);
    ~FakeRdmaDevices();
    FakeRdmaDevices(const FakeRdmaDevices &) = delete;
    FakeRdmaDevices &operator=(const FakeRdmaDevices &) = delete;

    const Verbs &verbs() const { return verbs_; }
    FakeDevice &device(size_t index) { return devices_[index]; }
    FakePort &port(size_t device, size_t number = 1) { return devices_[device].ports[number - 1]; }

    // The k-th call from now on, from 1, of those that may fail, does so. 0: none.
    void fail_call(int k, int error) { failing_ = k, error_ = error, calls_ = 0; }
    int calls() const { return calls_; }  // since then
    int opened() const { return opened_; }

    // Told to who has the device open.
    void raise(size_t device, ibv_event_type event, int port = 1);
    void raise(size_t device, const ibv_async_event &event);
    size_t unacknowledged() const { return unacknowledged_; }

private:
    struct Context;
    static bool fails();
    static FakePort *find_port(ibv_context *context, uint32_t number);

    static ibv_device **get_device_list(int *count);
    static void free_device_list(ibv_device **list);
    static const char *get_device_name(ibv_device *device);
    static ibv_context *open_device(ibv_device *device);
    static int close_device(ibv_context *context);
    static int query_device(ibv_context *context, ibv_device_attr *out);
    static int query_device_ex(ibv_context *context, ibv_device_attr_ex *out);
    static int query_port(ibv_context *context, uint8_t port, ibv_port_attr *out);
    static int query_gid_ex(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *out,
                            uint32_t flags, size_t entry_size);
    static int query_pkey(ibv_context *context, uint8_t port, int index, __be16 *out);
    static int get_async_event(ibv_context *context, ibv_async_event *out);
    static void ack_async_event(ibv_async_event *event);
    static ibv_pd *alloc_pd(ibv_context *context);
    static int dealloc_pd(ibv_pd *domain);

    static inline FakeRdmaDevices *now_ = nullptr;
    Verbs verbs_{};
    std::vector<FakeDevice> devices_;
    std::vector<ibv_device> handles_;
    std::vector<ibv_device *> list_;  // with the null behind
    std::vector<std::unique_ptr<Context>> contexts_;
    std::string sysfs_;
    int lists_ = 0, opened_ = 0;
    size_t unacknowledged_ = 0;
    int failing_ = 0, error_ = 0, calls_ = 0;
};

}  // namespace xfer::rdma
