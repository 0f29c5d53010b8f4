// SPDX-License-Identifier: Apache-2.0
// What befalls engines and the ways between them in a random scenario.
#include <algorithm>

#include "scenario.h"

namespace xfer {

void Scenario::act_on_pair(Act act) {
    Life *a = any(false);
    if (!a) return;
    const auto &other = nodes_[other_node(*a)].life;
    if (!other) return;
    const uint32_t from = a->number, to = other->number;
    const uint64_t time = 1 + random(swarm.fault_max), until = world.now() + time;
    note([&] {
        return std::string(name_of(act)) + " e" + std::to_string(from) + " e" + std::to_string(to) +
               " for " + std::to_string(time / kNsPerMs) + " ms";
    });
    if (act == Act::cut_pair) return net.cut(from, to);
    SimWay &there = net.ways[{from, to}], &back = net.ways[{to, from}];
    if (act == Act::silence) there.silent_until = back.silent_until = until;
    if (act == Act::half_open) there.silent_until = kNever;
    if (act == Act::slow) there.bytes_per_second = 5'000 + random(500'000);
    if (act == Act::refuse) there.refused = true;
    world.post(time, [this, from, to] {
        net.ways.erase({from, to});
        net.ways.erase({to, from});
    });
}

// An owner takes memory back while others read from it.
void Scenario::act_read_closing() {
    Life *owner = any(), *reader = any();
    if (!owner || !reader || owner == reader || owner->areas.size() >= 8) return;
    Life::Ep *ep = reader->ep_to(owner->node);
    const uint64_t bytes = 1 + random(one_in(2) ? 20'000 : 400'000);
    const uint8_t *content = payload_table() + random(1 << 20);
    const std::string name = "y" + std::to_string(next_word());
    if (!ep || !owner->open_area(name, bytes, XFER_READ, content)) return;
    Life::Held ref;
    const Lent *lent = ref.lent = owner->areas.back().lent;
    xfer_region_ref(owner->areas.back().handle, &ref.ref);
    for (uint64_t left = 1 + random(3); left; --left)
        act_get_all(*reader, *ep, ref);
    const uint32_t number = owner->number;
    world.post(random(swarm.pause_max), [this, node = owner->node, number, lent] {
        Life *life = nodes_[node].life.get();
        if (!life || life->number != number || !life->acts()) return;
        for (size_t i = 0; i < life->areas.size(); ++i)
            if (life->areas[i].lent == lent) return life->close_area(i);
    });
}

// At once, or later, at times too late.
void Scenario::decide(const Life &life, uint64_t visitor) {
    const uint64_t drawn = random(8);
    const xfer_status_t verdict = drawn == 0 ? XFER_EACCESS : drawn == 1 ? XFER_EOVERLOAD : XFER_OK;
    const uint64_t later = meeting_ || random(3) ? 0 : random(swarm.connect_ms * kNsPerMs);
    world.post(later, [this, visitor, verdict, node = life.node, number = life.number] {
        Life *there = nodes_[node].life.get();
        if (there && there->number == number && !there->frozen)
            there->admit(visitor, meeting_ ? xfer_status_t{XFER_OK} : verdict);
    });
}

// As by SIGSTOP: it does nothing, and what comes for it waits.
void Scenario::act_freeze() {
    Life *life = any();
    if (!life) return;
    life->freeze();
    const uint64_t time = 1 + random(swarm.fault_max);
    note([&] {
        return life->name() + " is stopped for " + std::to_string(time / kNsPerMs) + " ms";
    });
    const size_t node = life->node;
    const uint32_t number = life->number;
    world.post(time, [this, node, number] {
        if (nodes_[node].life && nodes_[node].life->number == number) thaw(*nodes_[node].life);
    });
}

void Scenario::thaw(Life &life) {
    if (!life.frozen) return;
    note([&] { return life.name() + " goes on"; });
    life.thaw();
}

void Scenario::act_crash() {
    Life *life = any(false);
    if (!life || nodes_.size() == ghosts_.size()) return;
    const size_t node = life->node;
    life->crash(random(2) != 0);
    defer_delete(node);
}

void Scenario::defer_delete(size_t node) {
    ghosts_.push_back(std::move(nodes_[node].life));
}

// Where an engine has died or is done, another comes, by the same name or with its own.
void Scenario::act_restart() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
        Life *life = nodes_[i].life.get();
        if (life && !(life->who().closing && life->ended())) continue;
        if (life) defer_delete(i);
        const bool same = random(3) != 0;
        ++net.met[same ? "restart, same identity" : "restart, other identity"];
        return open_life(i, same);
    }
}

}  // namespace xfer
