// SPDX-License-Identifier: Apache-2.0
// Counters that one loop moves and any thread reads.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

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

// Of operations that have not ended, those that wait. The two move while they are read.
constexpr uint64_t queued_of(uint64_t pending, uint64_t inflight) {
    return pending > inflight ? pending - inflight : 0;
}

// What is counted by itself.
enum class OpKind : uint8_t { put, get, batch, notify, send, recv, atomic };
constexpr size_t kOpKinds = 7;

struct ShardCounters {
    OpCounters &operator[](OpKind kind) { return ops_[static_cast<size_t>(kind)]; }
    const OpCounters &operator[](OpKind kind) const { return ops_[static_cast<size_t>(kind)]; }
    Counter pending, inflight;  // operations that have not ended, and those of them on a path
    Counter errors[64];
    Counter served_put, served_get, served_atomic, refused;
    Counter events, connects, accepts, connections, connection_ends, lane_falls;

private:
    OpCounters ops_[kOpKinds];
};

// Of one handle, by which most do one kind of operation or none: a kind has its place once one of
// it is about to begin.
class EndpointCounters {
public:
    EndpointCounters() = default;
    EndpointCounters(const EndpointCounters &) = delete;
    EndpointCounters &operator=(const EndpointCounters &) = delete;
    ~EndpointCounters() {
        for (const auto &place : places_)
            delete place.load(std::memory_order_relaxed);
    }
    // Thread: any. Throws std::bad_alloc.
    void make_place(OpKind kind) {
        auto &place = places_[static_cast<size_t>(kind)];
        if (place.load(std::memory_order_acquire)) return;
        auto made = std::make_unique<OpCounters>();
        OpCounters *none = nullptr;
        if (place.compare_exchange_strong(none, made.get())) static_cast<void>(made.release());
    }
    // Null: there never was one.
    OpCounters *find(OpKind kind) const {
        return places_[static_cast<size_t>(kind)].load(std::memory_order_acquire);
    }
    void add_to(OpKind kind, xfer_op_stats_t &out) const {
        if (const OpCounters *counted = find(kind)) counted->add_to(out);
    }
    Counter pending, inflight;  // as above

private:
    std::atomic<OpCounters *> places_[kOpKinds]{};
};

}  // namespace xfer
