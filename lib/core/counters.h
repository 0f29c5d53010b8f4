// SPDX-License-Identifier: Apache-2.0
// Counters that one loop moves and any thread reads.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "xfer/xfer.h"

namespace xfer {

// One writer: no locked instruction is needed.
class Counter {
public:
    void add(uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
    void sub(uint64_t n = 1) { value_.store(get() - n, std::memory_order_relaxed); }
    void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> value_{0};
};

struct OpCounters {
    Counter submitted, completed, failed, expired, canceled, bytes;
    Counter latency[40];

    void end(xfer_status_t status, uint64_t moved, uint64_t ns) {
        if (status == XFER_OK) {
            completed.add();
            bytes.add(moved);
            unsigned bucket = ns ? 63u - static_cast<unsigned>(std::countl_zero(ns)) : 0u;
            latency[bucket < 40 ? bucket : 39].add();
        } else if (status == XFER_ETIMEDOUT) {
            expired.add();
        } else if (status == XFER_ECANCELED) {
            canceled.add();
        } else {
            failed.add();
        }
    }
    void add_to(xfer_op_stats_t &out) const {
        out.submitted += submitted.get();
        out.completed += completed.get();
        out.failed += failed.get();
        out.expired += expired.get();
        out.canceled += canceled.get();
        out.bytes += bytes.get();
        for (size_t i = 0; i < 40; ++i)
            out.latency[i] += latency[i].get();
    }
};

struct TrafficCounters {
    OpCounters put, get, batch, notify, send, recv, atomic;
    Counter queued, inflight;
};

struct ShardCounters : TrafficCounters {
    Counter errors[64];
    Counter served_put, served_get, served_atomic, refused;
    Counter events, connects, accepts, connections, connection_ends;
};

}  // namespace xfer
