// SPDX-License-Identifier: Apache-2.0
// The options of an engine as they took effect: checked, defaults filled in, everything owned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loop/spin_limit.h"
#include "transport/rdma_options.h"
#include "util/log.h"
#include "util/status.h"
#include "util/uri.h"
#include "wire/proof.h"

struct uv_loop_s;

namespace xfer {

struct Options {
    uint32_t dispatch = XFER_DISPATCH_THREAD;
    uint32_t io_threads = 0;  // 0: none
    uint32_t spin_us = 0;
    bool spin_adapts = false;  // by the work that comes; else spin_us
    SpinLimit spin() const {
        return spin_adapts ? SpinLimit::adaptive() : SpinLimit::fixed(uint64_t{spin_us} * 1000);
    }
    uv_loop_s *loop = nullptr;
    xfer_event_cb on_event = nullptr;
    uint64_t user = 0;
    Log log;
    bool insecure = false;
    bool checksum = false;
    bool unref = false;
    bool own_peers = false;
    bool ask = false;
    bool own_id = false;
    EngineId id{};
    std::vector<uint8_t> blob;
    Secret key;
    std::vector<std::string> transports;  // empty: all
    std::vector<std::string> advertise;   // empty: what is bound
    uint32_t timeout_ms = 0;              // 0: none
    uint32_t stall_ms = 0, connect_ms = 0, heartbeat_ms = 0, idle_ms = 0;
    uint32_t yield_ms = 0;  // 0: never
    uint32_t lanes = 1;     // XFER_NONE: none
    uint32_t max_connections = 0, max_operations = 0;
    RdmaOptions rdma;
};

// The port that was bound stands for "{port}" in each.
std::vector<std::string> with_port(std::vector<std::string> addresses, const std::string &port);

// What one says for a listener at `uri`; "{port}" is still in `advertise`.
Failure take_listen_options(const xfer_listen_options_t &given, const Uri &uri,
                            std::vector<std::string> &advertise);

// `given`, and what it points to, has been brought to the library's own size before.
Result<Options> resolve_options(const xfer_engine_options_t &given);

}  // namespace xfer
