// SPDX-License-Identifier: Apache-2.0
// What one seed draws: how many engines, with which options, what they do and what befalls them.
// Each seed has its own subset of everything, since what always happens hides what happens rarely.
#pragma once

#include <array>
#include <cstdint>

#include "sim_loop.h"

namespace xfer {

enum class Act : uint8_t {
    put,
    get,
    batch,
    resubmit,
    send,
    receive,
    notify,
    lookup,
    await,
    connect,
    probe,
    cancel,
    open_ep,
    close_ep,
    open_region,
    close_region,
    grant,
    revoke,
    drain,
    close_engine,
    restart,
    crash,
    freeze,
    cut_pair,
    cut_all,
    silence,
    half_open,
    slow,
    refuse,
    read_closing,
    counter,
    close_counter,
    shape,
    stranger,
    flood,
    keep,
    rebind,
    reset,
    look,
    crowd,
    atomic,
    accepted,
    listed,
    add_address,
    by_id,
    count
};
constexpr size_t kActs = static_cast<size_t>(Act::count);
constexpr size_t kPlainActs = static_cast<size_t>(Act::read_closing);
constexpr size_t kLaterActs = static_cast<size_t>(Act::keep);
constexpr size_t kLastActs = static_cast<size_t>(Act::crowd);
const char *name_of(Act act);

struct Swarm {
    // `plain`: nothing of what was added later, so that a seed means what it meant before.
    Swarm(SimWorld &world, bool plain);

    uint32_t engines = 2, steps = 0;
    uint64_t pause_max = 0;  // ns between two steps
    std::array<uint32_t, kActs> weights{};
    uint64_t weight_sum = 0;
    Act draw(SimWorld &world) const;

    // Options of the engines.
    uint32_t lanes = 1, stall_ms = 0, connect_ms = 0, heartbeat_ms = 0, idle_ms = 0;
    uint32_t max_operations = 64, timeout_ms = 0;
    bool keyed = false, sums = false;
    uint32_t atomics = 0;   // XFER_ATOMIC: what is lent allows it, and it is done
    bool counts = false;    // notifications of different operations may have one key
    bool near = false;      // engines meet as neighbours too
    bool copies = false;    // and copy without each other
    bool adapters = false;  // engines that are no neighbours do, by paths beside their channels
    uint32_t ports = 1, other_ports = 0;  // of an adapter
    bool adapter_lanes = false;           // which makes channels, too,
    bool lanes_by_signals = false;        // that do without queue pairs
    bool expects = false;                 // endpoints may be given the id of their peer
    bool crowds = false;                  // connections come that never prove who they are
    bool talks = false;                   // engines that have found each other exchange messages
    bool spans = false;                   // batches may be made of spans
    uint32_t loops = 1;                   // of an engine, at most
    bool polls = false;                   // some applications poll
    uint64_t poll_max = 0;                // ns, until they do
    bool keeps = false;                   // applications use and keep the handles of PEER events
    bool asks = false;     // applications let peers in, some of them late, or turn them away
    bool devices = false;  // buffers may be memory of a device
    bool quiets = false;   // some puts and gets are quiet, with a flush behind them
    bool owns = false;     // some engines' applications own the handles of PEER events
    bool lists = false;    // endpoints may have lists of addresses; engines restart elsewhere
    bool ids = false;      // endpoints may have an id alone, also the engine's own

    // The net.
    uint64_t delay_max = 0, cut_one_in = 0, refuse_one_in = 0, late_one_in = 0, double_one_in = 0;
    uint64_t spoil_one_in = 0;
    uint64_t part_max = 0, window = 0, bytes_per_second = 0;
    uint64_t linger_max = 0, busy_one_in = 0;
    uint64_t cut_lane_one_in = 0;
    bool narrow = false;

    bool bulk = false;             // operations of more than a chunk
    uint32_t deadline_one_in = 0;  // operations with a deadline; 0: none
    uint32_t deaf_one_in = 0;      // engines that don't listen; 0: none
    uint64_t fault_max = 0;        // ns, how long a fault lasts

private:
    void draw_later(SimWorld &world);
    void draw_last(SimWorld &world);
    void draw_atomics(SimWorld &world);
    void draw_places(SimWorld &world);
};

}  // namespace xfer
