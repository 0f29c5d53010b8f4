// SPDX-License-Identifier: Apache-2.0
// What an engine's user says of its adapters (xfer/rdma.h), checked and with its defaults.
#pragma once

#include <cstdint>
#include <string>

namespace xfer {

constexpr uint32_t kDefaultQueueDepth = 128, kMaxQueueDepth = 32'768;

struct RdmaOptions {
    std::string devices;  // as transport/rdma/device_filter.h reads them; empty: all
    uint32_t queue_depth = kDefaultQueueDepth;
    uint8_t ack_timeout = 14;
    uint8_t retries = 6;
    uint8_t traffic_class = 0, service_level = 0;
};

}  // namespace xfer
