// SPDX-License-Identifier: Apache-2.0
#include "scenario.h"

#include <algorithm>

namespace xfer {

namespace {

constexpr uint64_t kCloseNs = 10 * kSecond;  // within it an engine ends
constexpr uint64_t kMeetNs = 90 * kSecond;   // within it all find each other again
constexpr uint64_t kAgeNs = 120 * kSecond;   // of a scenario, before it calms down
constexpr uint64_t kTellNs = 30 * kSecond;   // within it an owner knows that its peer is gone

}  // namespace

Scenario::Scenario(uint64_t seed, bool trace, bool plain)
    : world(seed), net(world), swarm(world, plain), model(net, trace, swarm.devices) {
    net.observer = &model;
    net.on_dial = [this](SimTransport &from, const std::string &to, int how) {
        on_dial(from, to, how);
    };
    net.delay_max = std::max(swarm.delay_max, net.delay_min);
    net.cut_one_in = swarm.cut_one_in, net.refuse_one_in = swarm.refuse_one_in;
    net.late_one_in = swarm.late_one_in, net.double_one_in = swarm.double_one_in;
    net.spoil_one_in = swarm.spoil_one_in;
    net.cut_lane_one_in = swarm.cut_lane_one_in, net.narrow = swarm.narrow;
    net.neighbours = swarm.near;
    net.late_max = 8 * kSecond;
    net.part_max = swarm.part_max, net.window = swarm.window;
    net.bytes_per_second = swarm.bytes_per_second;
    net.linger_max = swarm.linger_max, net.busy_one_in = swarm.busy_one_in;
    net.copies = swarm.copies, net.adapters = swarm.adapters, net.ports = swarm.ports;
    net.other_ports = swarm.other_ports;
    net.adapter_lanes = swarm.adapter_lanes, net.lanes_by_signals = swarm.lanes_by_signals;
    if (swarm.copies || swarm.adapters) trouble_copies();
    nodes_.resize(swarm.engines);
    for (size_t i = 0; i < nodes_.size(); ++i) {
        nodes_[i].listens = i == 0 || !one_in(swarm.deaf_one_in);
        open_life(i, false);
    }
}

Scenario::~Scenario() {
    crowds_.clear();
    nodes_.clear();
    ghosts_.clear();
}

void Scenario::open_life(size_t at, bool same_id) {
    Node &node = nodes_[at];
    if (!same_id)
        for (uint8_t &byte : node.id)
            byte = static_cast<uint8_t>(world.random());
    if (node.lives && swarm.lists && one_in(2)) ++node.moves;
    ++node.lives;
    node.life = std::make_unique<Life>(*this, at, node.id, node.listens);
    home_[node.life->number] = at;
    for (auto &other : nodes_)
        if (other.life && other.life->acts() && one_in(2)) introduce(*other.life, *node.life);
}

// Each may have refs of the other by means of its own.
void Scenario::introduce(Life &a, Life &b) {
    for (auto &[owner, user] : {std::pair{&a, &b}, std::pair{&b, &a}})
        for (const Life::Area &area : owner->areas) {
            Life::Held ref;
            ref.lent = area.lent;
            const bool told = !one_in(3) && user->held.size() < 32 && owner != user;
            if (told && xfer_region_ref(area.handle, &ref.ref) == XFER_OK)
                user->held.push_back(ref);
        }
}

Life *Scenario::any(bool acting) {
    std::vector<Life *> fit;
    for (auto &node : nodes_)
        if (node.life && !node.life->ended() && (!acting || node.life->acts()))
            fit.push_back(node.life.get());
    return fit.empty() ? nullptr : fit[random(fit.size())];
}

size_t Scenario::other_node(const Life &life) {
    const size_t other = random(nodes_.size() - 1);
    return other < life.node ? other : other + 1;
}

// Attempts that are refused come at growing distances; so do those of data lanes, each of which is
// dialed once before that.
void Scenario::on_dial(SimTransport &from, const std::string &to, int how) {
    if (!home_.count(from.number)) return;  // of a crowd
    Dialed &dials = dialed[{from.number, to}];
    size_t connections = 0;
    for (const auto &[peer, starts] : from.process->generations)
        connections += starts.size();
    if (how == 1 || connections != dials.connections) {
        dials.refused = 0;
        dials.connections = connections;
    }
    if (how != -1) return;
    if (dials.refused++ == 0) dials.since = world.now();
    const uint64_t seconds = (world.now() - dials.since) / kSecond;
    const size_t lanes = swarm.lanes == XFER_NONE ? 0 : swarm.lanes;
    if (dials.refused > (dials.handles + 2) * (8 + seconds) + lanes)
        model.violated("e" + std::to_string(from.number) + " dials " + to + " in a storm");
}

void Scenario::step(Act act) {
    if (act == Act::cut_all) {
        note([] { return "all channels break"; });
        return net.cut_all();
    }
    if (act == Act::freeze) return act_freeze();
    if (act == Act::crash) return act_crash();
    if (act == Act::restart) return act_restart();
    if (act == Act::crowd) return act_crowd();
    if (act == Act::accepted) return act_accepted();
    if (act == Act::read_closing) return act_read_closing();
    if (act >= Act::cut_pair && act <= Act::refuse) return act_on_pair(act);
    Life *life = any();
    if (!life) return;
    switch (act) {
    case Act::put:
    case Act::get:
        return act_single(*life, act == Act::put);
    case Act::batch:
        return act_batch(*life);
    case Act::resubmit:
        return act_resubmit(*life);
    case Act::send:
        return act_send(*life);
    case Act::receive:
        return act_receive(*life);
    case Act::notify:
        return void(act_notify(*life, life->ep_to(other_node(*life))));
    case Act::counter:
        return act_counter(*life);
    case Act::close_counter:
        return act_close_counter(*life);
    case Act::shape:
        return act_shape(*life);
    case Act::stranger:
        return act_stranger(*life);
    case Act::flood:
        return act_flood(*life);
    case Act::keep:
        return act_keep(*life);
    case Act::rebind:
        return act_rebind(*life);
    case Act::reset:
        return act_reset(*life);
    case Act::atomic:
        return act_atomic(*life);
    case Act::listed:
        return act_listed(*life);
    case Act::add_address:
        return act_add_address(*life);
    case Act::by_id:
        return act_by_id(*life);
    case Act::look:
        return act_look(*life);
    case Act::cancel:
        return act_cancel(*life);
    case Act::open_ep:
        return void(life->ep_to(other_node(*life), true));
    case Act::close_ep:
        if (!life->eps.empty()) life->close_ep(random(life->eps.size()));
        return;
    case Act::open_region:
    case Act::close_region:
        return act_region(*life, act == Act::open_region);
    case Act::grant:
        return act_grant(*life);
    case Act::revoke:
        return act_revoke(*life);
    case Act::drain:
        return act_drain(*life);
    case Act::close_engine:
        return life->close();
    default:
        return act_question(*life, act);
    }
}

std::string Scenario::run() {
    for (uint32_t i = 0; i < swarm.steps && model.fault.empty(); ++i) {
        const Act act = swarm.draw(world);
        ++net.met[std::string("do ") + name_of(act)];
        step(act);
        if (random(3)) settle([] { return false; }, random(swarm.pause_max));
    }
    if (model.fault.empty()) calm();
    if (model.fault.empty()) find_each_other();
    if (model.fault.empty() && swarm.talks) talk();
    if (model.fault.empty() && swarm.crowds) press();
    if (model.fault.empty()) end();
    if (model.fault.empty()) model.check_end();
    return model.fault;
}

bool Scenario::settle(const std::function<bool()> &done, uint64_t limit) {
    const auto look = [&] {
        for (auto &node : nodes_)
            if (node.life) node.life->poll_soon();
        for (auto &ghost : ghosts_)
            ghost->poll_soon();
        if (world.raced()) model.violated("a loop is used from another one");
        return !model.fault.empty() || done();
    };
    world.run_until(look, limit);
    return model.fault.empty() && done();
}

// No more faults: everything that was begun ends.
void Scenario::calm() {
    note([] { return "calm"; });
    net.ways.clear();
    net.cut_one_in = net.refuse_one_in = net.late_one_in = net.double_one_in = 0;
    net.spoil_one_in = net.cut_lane_one_in = 0;
    net.delay_max = 200'000;
    net.bytes_per_second = 1'000'000'000;
    net.on_copy = nullptr;
    net.cut_twins();
    for (auto &node : nodes_)
        if (node.life) thaw(*node.life);
    // One that is ordered waits for the stall limits of all before it.
    const uint64_t limit = kAgeNs + 20 * swarm.stall_ms * kNsPerMs;
    if (!settle([&] { return model.pending(false) == 0; }, limit) && model.fault.empty())
        model.violated(model.pending_one() + " does not end");
    receive_all();
    for (const auto &[number, operation] : model.operations()) {
        const auto &life = nodes_[home_.at(operation->from)].life;
        if (operation->kind == ModelOperation::receive && !operation->ended && life &&
            life->number == operation->from) {
            model.withdraw(number);
            xfer_cancel(life->engine, nullptr, number, UINT64_MAX);
        }
    }
    if (!settle([&] { return model.pending(true) == 0; }, kSecond + swarm.stall_ms * kNsPerMs) &&
        model.fault.empty())
        model.violated(model.pending_one() + " does not end, though canceled");
    if (!settle([&] { return !model.untold(); }, kTellNs) && model.fault.empty())
        model.violated(describe(*model.untold()) + " was begun at its owner, who is not told");
    if (!settle([&] { return !model.overdue(); }, kTellNs) && model.fault.empty())
        model.violated("e" + std::to_string(model.overdue()->owner) +
                       " takes memory back, and is not told");
    if (model.fault.empty()) check_stats();
    for (auto &node : nodes_)
        for (const Life::Ep &ep : node.life ? node.life->eps : std::vector<Life::Ep>())
            if (ep.room_owed && !node.life->who().closing)
                model.violated(node.life->name() + " was refused for want of room, and never told");
}

// What is held for an application, as its sender was told, is there for it.
void Scenario::receive_all() {
    std::vector<const ModelOperation *> owed;
    std::vector<Life *> owing;
    size_t waiting = 0;
    for (const auto &[number, operation] : model.operations()) {
        if (operation->kind != ModelOperation::send || operation->received_by) continue;
        ++waiting;
        if (!operation->ended || !operation->to) continue;
        const auto &life = nodes_[home_.at(operation->to)].life;
        const bool there = life && life->number == operation->to && life->acts();
        if (!there || operation->status != XFER_OK) continue;
        owed.push_back(operation.get());
        if (std::find(owing.begin(), owing.end(), life.get()) == owing.end())
            owing.push_back(life.get());
    }
    // Others that wait there come in between.
    for (size_t i = 0; !owed.empty() && i < waiting; ++i)
        for (Life *life : owing) {
            ModelOperation &receive = model.begin(ModelOperation::receive, life->number, 8);
            life->took(
                receive, nullptr,
                xfer_recv(life->engine, nullptr, receive.buffer, 8, 0, 0, receive.number, nullptr));
        }
    settle([] { return false; }, kSecond);
    for (const ModelOperation *send : owed)
        if (!send->received_by && model.fault.empty())
            model.violated(describe(*send) + " was taken, and can't be received");
}

// Nobody is locked out by what has been, once the verdicts of before have arrived.
void Scenario::find_each_other() {
    meeting_ = true;
    settle([] { return false; }, net.linger_max);
    settle([] { return false; }, std::max(net.last_due, world.now()) - world.now());
    met_.clear();
    std::vector<const ModelOperation *> asked;
    for (auto &node : nodes_) {
        if (!node.life || !node.life->acts()) continue;
        const size_t to = other_node(*node.life);
        const auto &owner = nodes_[to].life;
        if (!owner || !owner->acts() || !owner->listens) continue;
        const bool there = std::any_of(owner->areas.begin(), owner->areas.end(),
                                       [](const auto &area) { return area.name == "r"; });
        Life::Ep *ep = node.life->own_ep_to(to);
        if (!there || !ep) continue;
        if (swarm.lists && !ep->has(uri(to))) node.life->add_address(*ep, uri(to));
        ModelOperation &operation = model.begin(ModelOperation::question, node.life->number, 0);
        auto options = xfer_op_options_t{};
        options.size = sizeof options;
        options.timeout_ms = kMeetNs / kNsPerMs;
        if (node.life->took(operation, ep,
                            xfer_ep_lookup(ep->handle, "r", operation.number, &options, nullptr))) {
            asked.push_back(&operation);
            met_.emplace_back(node.life->node, to);
        }
    }
    for (auto &node : nodes_)
        if (node.life && node.life->acts()) ask_by_place(*node.life, asked);
    std::vector<const ModelOperation *> strangers;
    ask_strangers(strangers);
    settle([&] { return model.pending(false) == 0; }, kMeetNs + kSecond);
    for (const ModelOperation *operation : asked)
        if (model.fault.empty() && operation->status != XFER_OK)
            model.violated("e" + std::to_string(operation->from) +
                           " does not find its peer again: " + xfer_status_name(operation->status));
    for (const ModelOperation *operation : strangers)
        if (model.fault.empty() && operation->status != XFER_EIDENTITY)
            model.violated("e" + std::to_string(operation->from) +
                           " is not told of another engine than it expects: " +
                           xfer_status_name(operation->status));
}

void Scenario::end() {
    for (auto &node : nodes_) {
        if (!node.life) continue;
        node.life->close();
        if (one_in(2)) settle([] { return false; }, random(swarm.pause_max));
    }
    const auto ended = [&] {
        const auto over = [](const auto &life) { return !life || life->ended(); };
        return std::all_of(ghosts_.begin(), ghosts_.end(), over) &&
               std::all_of(nodes_.begin(), nodes_.end(),
                           [&](const auto &node) { return over(node.life); });
    };
    if (!settle(ended, kCloseNs) && model.fault.empty())
        model.violated("an engine that was closed does not end");
    if (net.met["copy, dead key"] && model.fault.empty())
        model.violated("an honest engine meets a key that works no more");
    nodes_.clear();
    ghosts_.clear();
}

}  // namespace xfer
