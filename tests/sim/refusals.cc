// SPDX-License-Identifier: Apache-2.0
// What must be refused in a random scenario: an engine that was not expected, and more than fits.
#include <algorithm>

#include "scenario.h"

namespace xfer {

// A handle that expects an engine which is not there, or nowhere at all.
void Scenario::act_stranger(Life &life) {
    const size_t to = other_node(life);
    EngineId wrong = id_of(random(nodes_.size()));
    if (!one_in(3))
        for (uint8_t &byte : wrong)
            byte = static_cast<uint8_t>(world.random());
    if (wrong == id_of(life.node)) return;
    Life::Ep *ep = nullptr;
    for (Life::Ep &mine : life.eps)
        if (mine.node == to && mine.expected && *mine.expected != id_of(to)) ep = &mine;
    if (!ep || one_in(3)) ep = life.open_ep(to, wrong);
    if (ep && swarm.ids && one_in(3)) ep = life.id_ep_beside(*ep);
    if (ep) use(life, *ep);
}

// For anything. One whose own connection to itself is up when nobody has a handle on it any more
// accepts itself: what that moves is not seen.
void Scenario::use(Life &life, Life::Ep &ep) {
    if (ep.node == life.node && !ep.wanders) return ask_by(life, ep, Act::lookup);
    if (one_in(3)) return void(act_notify(life, &ep));
    if (one_in(3)) return send_by(life, ep);
    for (const Life::Held &ref : life.held)
        if (ref.lent->fixed && home_of(*ref.lent) == ep.node && !ep.wanders && one_in(2))
            return act_get_all(life, ep, ref);
    ModelOperation &operation = model.begin(ModelOperation::question, life.number, 0);
    operation.ep = ep.number;
    if (one_in(2)) {
        const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
        return void(
            life.took(operation, &ep, xfer_ep_connect(ep.handle, operation.number, &options)));
    }
    life.took(operation, &ep, xfer_ep_lookup(ep.handle, "r", operation.number, nullptr, nullptr));
}

// Nothing ends while it is under way: no more is taken than the limit says.
void Scenario::act_flood(Life &life) {
    Life::Ep *ep = life.ep_to(other_node(life));
    if (!ep || swarm.max_operations > 8) return;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < swarm.max_operations + 2; ++i)
        taken += act_notify(life, ep);
    if (taken > swarm.max_operations)
        model.violated(life.name() + " takes more operations than its limit");
}

// There is an engine at each of the addresses where any handle has said that the peer is.
bool Scenario::all_answer(const Life &asks, const EngineId &peer) const {
    const std::set<std::string> &uris = asks.said.at(peer);
    return std::all_of(uris.begin(), uris.end(), [&](const std::string &each) {
        for (size_t i = 0; i < nodes_.size(); ++i) {
            const auto &life = nodes_[i].life;
            if (uri(i) == each && life && life->acts() && life->listens) return true;
        }
        return false;
    });
}

// Who expects one that never was is told so, now that nothing else is in the way.
void Scenario::ask_strangers(std::vector<const ModelOperation *> &asked) {
    for (auto &node : nodes_) {
        if (!node.life || !node.life->acts()) continue;
        for (Life::Ep &ep : node.life->eps) {
            const auto &owner = nodes_[ep.node].life;
            if (!ep.expected || ep.by_id || model.is_somebody(*ep.expected)) continue;
            if (!owner || !owner->acts() || !owner->listens) continue;
            if (!all_answer(*node.life, *ep.expected)) continue;
            ModelOperation &operation = model.begin(ModelOperation::question, node.life->number, 0);
            operation.ep = ep.number;
            // A connect may end with what became of an attempt that began before.
            auto options = xfer_op_options_t{};
            options.size = sizeof options;
            options.timeout_ms = 60'000;
            if (node.life->took(
                    operation, &ep,
                    xfer_ep_lookup(ep.handle, "r", operation.number, &options, nullptr)))
                asked.push_back(&operation);
        }
    }
}

}  // namespace xfer
