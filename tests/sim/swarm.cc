// SPDX-License-Identifier: Apache-2.0
#include "swarm.h"

#include <algorithm>

#include "core/base/options.h"

namespace xfer {

namespace {

constexpr const char *kNames[kActs] = {
    "put",     "get",           "batch",       "resubmit",     "send",   "receive",
    "notify",  "lookup",        "await",       "connect",      "probe",  "cancel",
    "open ep", "close ep",      "open region", "close region", "grant",  "revoke",
    "drain",   "close engine",  "restart",     "crash",        "freeze", "cut pair",
    "cut all", "silence",       "half-open",   "slow",         "refuse", "read closing",
    "counter", "close counter", "shape",       "stranger",     "flood",  "keep",
    "rebind",  "reset",         "look",        "crowd",        "atomic", "accepted",
    "listed",  "add address",   "by id"};

// How often each is drawn beside the others, where a seed has it at all.
constexpr uint32_t kWeights[kActs] = {40, 20, 24, 10, 20, 24, 8, 10, 4, 3, 2,  12, 4,  2, 2,
                                      2,  6,  5,  1,  1,  3,  2, 2,  4, 2, 3,  3,  3,  2, 8,
                                      8,  2,  20, 8,  6,  8,  8, 8,  4, 6, 40, 10, 10, 8, 12};

}  // namespace

const char *name_of(Act act) {
    return kNames[static_cast<size_t>(act)];
}

Swarm::Swarm(SimWorld &world, bool plain) {
    const auto one_in = [&](uint64_t n) { return world.random(n) == 0; };
    const auto range = [&](uint64_t low, uint64_t high) {
        return static_cast<uint32_t>(low + world.random(high - low + 1));
    };
    engines = one_in(12) ? range(5, 16) : range(2, 4);
    steps = range(10, one_in(8) ? 200 : 70);
    pause_max = one_in(3) ? 100'000 : one_in(2) ? 5 * kNsPerMs : 200 * kNsPerMs;
    for (size_t i = 0; i < kPlainActs; ++i)
        if (one_in(2)) weights[i] = range(1, kWeights[i]);
    const auto always = [&](Act act, uint32_t weight) {
        uint32_t &drawn = weights[static_cast<size_t>(act)];
        drawn = std::max(drawn, weight);
    };
    always(Act::lookup, 3);
    always(one_in(2) ? Act::put : Act::batch, 10);
    if (weights[static_cast<size_t>(Act::send)]) always(Act::receive, 5);
    if (weights[static_cast<size_t>(Act::crash)] || weights[static_cast<size_t>(Act::close_engine)])
        always(Act::restart, 2);

    const uint32_t lane_choice[] = {XFER_NONE, 1, 1, 2, 4};
    lanes = lane_choice[world.random(5)];
    stall_ms = one_in(2) ? range(300, 3'000) : range(3'000, 30'000);
    connect_ms = range(300, 5'000);
    heartbeat_ms = one_in(2) ? range(100, 1'000) : range(1'000, 5'000);
    idle_ms = one_in(3) ? range(200, 2'000) : 300'000;
    max_operations = one_in(3) ? range(1, 8) : 64;
    timeout_ms = one_in(6) ? range(100, 3'000) : 0;
    keyed = one_in(3);

    delay_max = one_in(4) ? 200 * kNsPerMs : one_in(2) ? 5 * kNsPerMs : 200'000;
    if (one_in(3)) cut_one_in = range(20, 1'000);
    if (one_in(5)) refuse_one_in = range(2, 10);
    if (one_in(4)) late_one_in = range(1, 6);
    if (one_in(4)) double_one_in = range(1, 6);
    part_max = one_in(3) ? range(64, 2'000) : range(2'000, 128 * 1024);
    window = one_in(3) ? range(1'000, 60'000) : 1 << 20;
    bytes_per_second = one_in(3) ? range(2'000'000, 20'000'000) : 1'000'000'000;

    bulk = one_in(3);
    deadline_one_in = one_in(2) ? range(1, 8) : 0;
    deaf_one_in = one_in(4) ? range(2, 3) : 0;
    fault_max = one_in(2) ? 500 * kNsPerMs : 12'000 * kNsPerMs;
    if (bulk) part_max = std::max<uint64_t>(part_max, 4'000);
    if (!plain) draw_later(world);
    for (const uint32_t weight : weights)
        weight_sum += weight;
}

// Behind all that was drawn before it was there.
void Swarm::draw_later(SimWorld &world) {
    for (size_t i = kPlainActs; i < kLaterActs; ++i)
        if (world.random(2)) weights[i] = 1 + static_cast<uint32_t>(world.random(kWeights[i]));
    counts = weights[static_cast<size_t>(Act::counter)] != 0;
    expects = world.random(2) != 0;
    sums = world.random(3) == 0;
    if (sums && world.random(2)) spoil_one_in = 20 + world.random(500);
    if (world.random(3) == 0) max_operations = 1 + static_cast<uint32_t>(world.random(3));
    near = world.random(2) != 0;
    // Not by the dice: four seeds of five stay what they were.
    if (world.seed() % 5 == 0) linger_max = 50 * kNsPerMs;
    if (world.seed() % 7 == 4) busy_one_in = 1 + world.random(4);
    narrow = world.seed() % 11 == 3;
    devices = world.seed() % 13 == 5;
    if (devices && world.seed() % 2) {  // kernels that keep copies waiting
        world.slow_call_one_in = 5 + world.seed() % 41;
        world.slow_call_ns_max = 300 * kNsPerMs;
    }
    copies = near && world.seed() % 3 == 0;
    adapters = !near && world.seed() % 3 != 1;
    if (adapters) {
        ports = 1 + static_cast<uint32_t>(world.seed() / 3 % 3);
        other_ports = static_cast<uint32_t>(world.seed() / 9 % 3);
        adapter_lanes = world.seed() / 27 % 2 == 0;
        lanes_by_signals = world.seed() / 54 % 3 == 0;
    }
    if (world.seed() % 3 == 1 && lanes != XFER_NONE) cut_lane_one_in = 2 + world.seed() % 61;
    if (world.seed() % 2 == 0) draw_last(world);
}

// In every other seed: those that are odd stay what they were.
void Swarm::draw_last(SimWorld &world) {
    for (size_t i = kLaterActs; i < kLastActs; ++i)
        if (world.random(2)) weights[i] = 1 + static_cast<uint32_t>(world.random(kWeights[i]));
    talks = world.seed() % 4 == 0;
    keeps = weights[static_cast<size_t>(Act::keep)] != 0;
    spans = world.random(2) != 0;
    polls = world.random(2) != 0;
    if (world.random(2)) poll_max = 1 + world.random(20 * kNsPerMs);
    if (polls && world.random(3)) loops = 2 + static_cast<uint32_t>(world.random(2));
    if (loops > 1 && world.seed() % 4 == 0) world.preempt_one_in = 2 + world.seed() % 50;
    crowds = world.random(6) == 0;
    if (crowds) weights[static_cast<size_t>(Act::crowd)] = 6;
    quiets = world.seed() % 8 == 6;
    asks = world.seed() % 16 == 10;
    if (world.seed() % 4 == 2) draw_atomics(world);
    draw_places(world);
}

void Swarm::draw_atomics(SimWorld &world) {
    constexpr auto kAct = static_cast<size_t>(Act::atomic);
    atomics = XFER_ATOMIC;
    weights[kAct] = 1 + static_cast<uint32_t>(world.random(kWeights[kAct]));
}

// Whose the handles of peers are, and where these are.
void Swarm::draw_places(SimWorld &world) {
    const auto weigh = [&](Act act) {
        const auto at = static_cast<size_t>(act);
        weights[at] = 1 + static_cast<uint32_t>(world.random(kWeights[at]));
    };
    owns = world.random(2) != 0;
    lists = world.random(2) != 0;
    ids = world.random(2) != 0;
    if (owns) weigh(Act::accepted);
    if (lists) weigh(Act::listed), weigh(Act::add_address);
    if (ids) weigh(Act::by_id);
}

Act Swarm::draw(SimWorld &world) const {
    uint64_t at = world.random(weight_sum);
    size_t act = 0;
    while (at >= weights[act])
        at -= weights[act++];
    return static_cast<Act>(act);
}

}  // namespace xfer
