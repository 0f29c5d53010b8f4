// SPDX-License-Identifier: Apache-2.0
// Pressure before the proof in a random scenario: crowds of connections that stay half-open, and
// what they must not take from members.
#include <algorithm>

#include "core/base/limits.h"
#include "scenario.h"

namespace xfer {

namespace {

constexpr uint64_t kPressNs = 2 * kSecond;
constexpr uint64_t kEmptyNs = kStrangerNs + kSecond;

HalfOpen *half_open(const Life &life) {
    return reinterpret_cast<Engine *>(life.engine)->first_shard().inbound.places();
}

xfer_engine_stats_t stats_of(const Life &life) {
    xfer_engine_stats_t stats{};
    xfer_engine_stats(life.engine, &stats, sizeof stats);
    return stats;
}

}  // namespace

// Of an address of their own or of a member's, and in the name of anybody.
Crowd &Scenario::crowd_before(Life &life, uint32_t count) {
    const Life *member = one_in(3) ? any(false) : nullptr;
    crowds_.push_back(std::make_unique<Crowd>(net, uri(life.node), member ? member->number : 0));
    Crowd &crowd = *crowds_.back();
    note([&] {
        return std::to_string(count) + " connections that prove nothing come to " + life.name();
    });
    while (count) {
        const auto some = static_cast<uint32_t>(1 + random(count));
        crowd.come(some, static_cast<Crowd::Says>(random(3)), id_of(random(nodes_.size())));
        count -= some;
    }
    return crowd;
}

void Scenario::act_crowd() {
    Life *life = any(false);
    if (!life || !life->listens || crowds_.size() >= 3) return;
    Crowd &crowd = crowd_before(*life, static_cast<uint32_t>(1 + random(120)));
    world.post(1 + random(std::min<uint64_t>(swarm.fault_max, 3 * kSecond)), [this, &crowd] {
        check_half_open();
        crowd.leave();
    });
}

void Scenario::check_half_open() {
    for (auto &node : nodes_) {
        HalfOpen *places = node.life && !node.life->ended() ? half_open(*node.life) : nullptr;
        if (!places) continue;
        if (places->count() > places->places())
            model.violated(node.life->name() + " has more half-open connections than places");
        if (places->count() == places->places()) ++net.met["all places half-open"];
    }
}

// More come than there are places, and go on coming: nobody inside is ended, whoever has lost his
// connection gets in again, and when they leave nothing is left of them.
void Scenario::press() {
    for (auto &crowd : crowds_)
        crowd->leave();
    Life *life = any();
    HalfOpen *places = life && life->listens ? half_open(*life) : nullptr;
    if (!places) return;
    net.cut_all();  // also those that have lost something, and are silent
    find_each_other();
    settle([] { return false; }, kSecond);
    const xfer_engine_stats_t before = stats_of(*life);
    Crowd &crowd = crowd_before(*life, places->places() + 20);
    settle([] { return false; }, kPressNs);
    check_half_open();
    const xfer_engine_stats_t after = stats_of(*life);
    const bool idles = swarm.idle_ms * kNsPerMs <= 2 * kPressNs;
    if (!idles && after.connection_ends != before.connection_ends)
        model.violated(life->name() + " ends a member's connection for those who prove nothing");
    net.cut_all();
    find_each_other();
    crowd.leave();
    const auto empty = [&] { return places->count() == 0; };
    if (!settle(empty, kEmptyNs) && model.fault.empty())
        model.violated(life->name() + " keeps half-open connections of those who have left");
}

}  // namespace xfer
