// SPDX-License-Identifier: Apache-2.0
// A port of an adapter, as the queue pairs on it need it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace xfer::rdma {

enum class LinkLayer : uint8_t { infiniband, ethernet };

// What a device grants at most, as it says itself.
struct DeviceLimits {
    uint32_t queue_pairs = 0;
    uint32_t send_requests = 0;  // of a queue pair
    uint32_t send_pieces = 0;    // of a request: scatter/gather elements
    uint32_t read_pieces = 0;    // of a read, not more than those
    uint32_t completions = 0;    // of a completion queue
    uint64_t region_bytes = 0;
    uint8_t reads_out = 0,
            reads_in = 0;           // RDMA reads and atomics under way, as initiator, as target
    bool atomics_with_cpu = false;  // IBV_ATOMIC_GLOB: one with those of the processor
    bool on_demand_paging = false;
    bool windows = false;       // memory windows of type 2
    bool part_windows = false;  // which open no more than their range
    bool operator==(const DeviceLimits &) const = default;
};

// Where a queue pair of this port is found by another: by LID on InfiniBand, by GID on Ethernet.
struct PortAddress {
    LinkLayer layer = LinkLayer::ethernet;
    uint16_t lid = 0;
    ibv_gid gid{};
    ibv_mtu mtu = IBV_MTU_1024;  // that is active
};

struct Port {
    ibv_context *context = nullptr;  // the device's, like the domain
    ibv_pd *domain = nullptr;
    std::string name;  // "mlx5_0:1"
    uint8_t number = 1;
    uint8_t gid_index = 0;  // in the port's table, of address.gid
    uint16_t pkey_index = 0;
    PortAddress address;
    DeviceLimits limits;
    int numa_node = -1;            // -1: unknown
    uint64_t bits_per_second = 0;  // width × speed; 0: unknown
    uint64_t message_bytes = 0;    // of a request
    bool active = false;           // it carries traffic, and the address is valid
};

}  // namespace xfer::rdma
