// SPDX-License-Identifier: Apache-2.0
#include "life.h"

#include <algorithm>
#include <cstring>

#include "scenario.h"
#include "sim_fabric.h"
#include "util/status.h"

namespace xfer {

Life::Life(Scenario &scenario, size_t at, const EngineId &identity, bool accepts)
    : all(scenario), node(at), process(scenario.net.new_process()), id(identity), listens(accepts) {
    number = process->number;
    const bool polls = all.swarm.polls && all.world.random(2);
    const uint64_t count = polls ? 1 + all.world.random(all.swarm.loops) : 1;
    for (uint64_t i = 0; i < count; ++i)
        loops.push_back(std::make_unique<SimLoop>(all.world));
    for (const auto &loop : loops)
        loop->one_of_several = count > 1;
    if (polls) poller = std::make_unique<SimLoop>(all.world);
    open_engine();
    char bound[256];
    if (listens &&
        xfer_engine_listen(engine, all.uri(node).c_str(), nullptr, bound, sizeof bound, nullptr))
        all.model.violated(name() + " can't listen where nobody does");
    if (listens) who().uri = all.uri(node);
    open_area("m", 4 << 20, XFER_READ | XFER_WRITE | all.swarm.atomics, nullptr);
    open_area("r", 1 << 20, XFER_READ, payload_table() + number * 4099 % (1 << 20), true);
    all.model.note(name() + " opens at " + all.uri(node) + (listens ? "" : ", deaf"));
}

void Life::open_engine() {
    const Swarm &swarm = all.swarm;
    Options options;
    options.dispatch = poller ? XFER_DISPATCH_POLL : XFER_DISPATCH_LOOP;
    options.io_threads = static_cast<uint32_t>(loops.size());
    options.insecure = true;
    if (!poller)
        options.on_event = [](const xfer_event_t *event, uint64_t self) {
            reinterpret_cast<Life *>(self)->on_event(*event);
        };
    options.user = reinterpret_cast<uint64_t>(this);
    options.stall_ms = swarm.stall_ms, options.connect_ms = swarm.connect_ms;
    options.heartbeat_ms = swarm.heartbeat_ms, options.idle_ms = swarm.idle_ms;
    options.lanes = swarm.lanes, options.timeout_ms = swarm.timeout_ms;
    options.max_connections = 64, options.max_operations = swarm.max_operations;
    if (swarm.sums) options.checksum = checksum = all.world.random(2) != 0;
    if (swarm.keyed) options.key = Secret(std::vector<uint8_t>(32, 7));
    options.own_id = true;
    options.id = id;
    options.ask = asks = swarm.asks && all.world.random(3);
    options.own_peers = owns = swarm.owns && all.world.random(3);
    if (all.model.trace()) {
        options.log.level = XFER_LOG_INFO;
        options.log.user = options.user;
        options.log.callback = [](uint32_t, const char *text, uint64_t self) {
            const Life &life = *reinterpret_cast<Life *>(self);
            life.all.model.note(life.name() + " logs: " + text);
        };
    }
    Seams seams;
    for (const auto &loop : loops)
        seams.loops.push_back(loop.get());
    seams.context = this;
    if (all.swarm.devices) seams.device = &all.model.device;
    seams.transports = [](void *self, Loop &loop) {
        auto &life = *static_cast<Life *>(self);
        std::vector<std::unique_ptr<Transport>> list;
        list.push_back(std::make_unique<SimTransport>(life.all.net, static_cast<SimLoop &>(loop),
                                                      life.process));
        return list;
    };
    seams.fabrics = [](void *self, Loop &loop) {
        auto &life = *static_cast<Life *>(self);
        std::vector<std::unique_ptr<Fabric>> list;
        if (life.all.net.adapters)
            list.push_back(std::make_unique<SimFabric>(life.all.net, static_cast<SimLoop &>(loop),
                                                       life.process));
        return list;
    };
    seams.random = [](void *self, Bytes out) {
        for (uint8_t &byte : out)
            byte = static_cast<uint8_t>(static_cast<Life *>(self)->all.world.random());
    };
    auto opened = Engine::open(std::move(options), seams);
    XFER_CHECK(opened);
    engine = reinterpret_cast<xfer_engine_t *>(*opened);
    xfer_id_t identity;
    xfer_engine_id(engine, &identity);
    who().number = number;
    who().id = id;
    who().node = node;
    who().late = poller && (all.swarm.poll_max || all.world.preempt_one_in);
    who().incarnation = identity.incarnation;
    all.incarnations[identity.incarnation] = number;
}

Life::~Life() {
    xfer_engine_stats_t stats;
    xfer_engine_stats(engine, &stats, sizeof stats);
    if (stats.lane_falls) all.net.met["lane ended alone"] += stats.lane_falls;
    if (xfer_engine_join(engine, XFER_NONE) != XFER_OK)
        all.model.violated(name() + " can't be joined");
    for (const Batch &batch : batches)
        xfer_batch_close(batch.handle);
    for (const Counter &counter : counters)
        xfer_counter_close(counter.handle);
    for (const std::vector<Ep> *list : {&eps, &visitors})
        for (const Ep &ep : *list)
            if (list == &eps || ep.accepted) xfer_ep_close(ep.handle);
    for (const Area &area : areas)
        xfer_region_close(area.handle);
}

Who &Life::who() const {
    return all.model.who(number);
}

// ---- calls

Life::Ep *Life::ep_to(size_t to, bool fresh) {
    if (!fresh && all.swarm.keeps && all.world.random(3) == 0)
        for (Ep &ep : visitors)
            if (ep.node == to && ep.expected == all.id_of(to)) return &ep;
    if (!fresh && all.swarm.ids && all.world.random(3) == 0) return id_ep_to(to);
    return own_ep_to(to, fresh);
}

Life::Ep *Life::own_ep_to(size_t to, bool fresh) {
    if (!fresh)
        for (Ep &ep : eps)
            if (ep.node == to && !ep.by_id && !ep.wanders &&
                (!ep.expected || *ep.expected == all.id_of(to)))
                return &ep;
    std::optional<EngineId> expected;
    if (all.swarm.expects && all.world.random(3) == 0) expected = all.id_of(to);
    return open_ep(to, expected);
}

Life::Ep *Life::ep_by(uint64_t word) {
    for (std::vector<Ep> *list : {&eps, &visitors})
        for (Ep &ep : *list)
            if (ep.number == word) return &ep;
    return nullptr;
}

Life::Ep *Life::ep_of(const xfer_ep_t *handle) {
    for (std::vector<Ep> *list : {&eps, &visitors})
        for (Ep &ep : *list)
            if (ep.handle == handle) return &ep;
    return nullptr;
}

void Life::admit(uint64_t visitor, xfer_status_t verdict) {
    for (const Ep &ep : visitors) {
        if (ep.number != visitor) continue;
        if (verdict == XFER_EACCESS) who().turns_away = true;
        const xfer_status_t status = xfer_ep_admit(ep.handle, verdict);
        all.note([&] { return name() + " decides: " + xfer_status_name(verdict); });
        ++all.net.met[std::string("verdict ") + xfer_status_name(verdict)];
        if (status != XFER_OK && (status != XFER_ECLOSED || acts()))
            all.model.violated(name() + ": a verdict is not taken");
        return;
    }
}

// From then on it is like one that was opened.
void Life::keep(size_t visitor) {
    Ep ep = visitors[visitor];
    if (eps.size() >= 24) return;
    const xfer_status_t status = xfer_ep_keep(ep.handle, 0);
    all.note([&] { return name() + " keeps its peer's handle: " + xfer_status_name(status); });
    if (status == XFER_ECLOSED && !acts()) return;
    if (status != XFER_OK || xfer_ep_keep(ep.handle, 1) != XFER_EINVAL)
        return all.model.violated(name() + ": a handle is not to be kept, or twice");
    visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(visitor));
    ep.kept = true;
    eps.push_back(ep);
    ++all.net.met["kept"];
}

bool Life::open_area(const std::string &called, uint64_t length, uint32_t access,
                     const uint8_t *fixed, bool shared) {
    Area area;
    area.name = called;
    area.lent = &all.model.lend(number, length, fixed, shared);
    const bool may = all.swarm.devices && !shared && !(access & XFER_ATOMIC);
    area.lent->on_device = may && all.world.random(2);
    xfer_region_options_t options{};
    options.size = sizeof options;
    options.name = area.name.c_str();
    options.access = access;
    const xfer_status_t status =
        xfer_region_open(engine, &options, area.lent->base, length, &area.handle, nullptr);
    if (status != XFER_OK) {
        area.lent->close_called = area.lent->over = true;
        if (status != XFER_ECLOSED)
            all.model.violated(name() + " can't open a region: " + xfer_status_name(status));
        return false;
    }
    xfer_region_info_t info;
    xfer_region_info(area.handle, &info, sizeof info);
    area.lent->id = info.id;
    all.note([&] { return name() + " opens its region " + called; });
    areas.push_back(area);
    return true;
}

void Life::close_area(size_t index) {
    const Area area = areas[index];
    areas.erase(areas.begin() + static_cast<ptrdiff_t>(index));
    area.lent->close_called = true;
    closing_areas_[area.handle] = area.lent;
    std::erase_if(grants, [&](const Grant &grant) { return grant.region == area.handle; });
    all.note([&] { return name() + " closes its region " + area.name; });
    xfer_region_close(area.handle);
}

void Life::close() {
    if (who().closing) return;
    who().closing = true;
    close_called = all.world.now();
    for (const Area &area : areas)
        area.lent->close_called = true;
    all.note([&] { return name() + " closes"; });
    if (xfer_engine_close(engine) != XFER_OK) all.model.violated(name() + " can't be closed");
}

// What is left of it runs on with all its channels gone, so that it ends in order; nobody hears it.
void Life::crash(bool told) {
    all.note([&] { return name() + (told ? " is killed" : " dies without a word"); });
    all.net.kill(*process, told);
    all.model.died(who());
    all.thaw(*this);
    const bool was_closing = std::exchange(who().closing, true);
    close_called = all.world.now();
    if (!was_closing) xfer_engine_close(engine);
}

bool Life::took(ModelOperation &operation, Ep *ep, xfer_status_t status) {
    all.note(
        [&] { return name() + " " + all.describe(operation) + ": " + xfer_status_name(status); });
    if (checksum && operation.kind != ModelOperation::atomic) operation.checked = true;
    if (ep) operation.expected = ep->expected, operation.places = ep->uris.size();
    if (status == XFER_OK) {
        all.model.submitted(operation);
        return true;
    }
    all.model.refused(operation);
    ++all.net.met[std::string("refused ") + xfer_status_name(status)];
    if (status == XFER_EAGAIN && ep) {
        ep->room_owed = true;
        ++ep->refusals;
        if (all.model.open_on(ep->number, number) < all.swarm.max_operations)
            all.model.violated(name() + " refuses for want of room, and there is room");
    }
    const bool stranger = status == XFER_EIDENTITY && ep && ep->expected;
    const bool known =
        status == XFER_EAGAIN || status == XFER_EACCESS || status == XFER_ECLOSED || stranger;
    if (!known) all.model.violated(name() + ": a call answers " + xfer_status_name(status));
    return false;
}

void Life::freeze() {
    frozen = true;
    frozen_at = all.world.now();
    for (const auto &loop : loops)
        all.world.freeze(*loop);
    if (poller) all.world.freeze(*poller);
}

void Life::thaw() {
    frozen = false;
    who().frozen += all.world.now() - frozen_at;
    for (const auto &loop : loops)
        all.world.thaw(*loop);
    if (poller) all.world.thaw(*poller);
}

// ---- events

void Life::poll_soon() {
    if (!poller || will_poll_ || ended_) return;
    if (reinterpret_cast<Engine *>(engine)->dispatcher().queued() == 0) return;
    will_poll_ = true;
    const uint64_t delay = all.swarm.poll_max ? all.world.random(all.swarm.poll_max) : 0;
    all.world.post(*poller, delay, [this] {
        will_poll_ = false;
        poll();
    });
}

void Life::poll() {
    std::array<xfer_event_t, 64> events{};
    uint32_t count = 0;
    const auto max = static_cast<uint32_t>(1 + all.world.random(events.size()));
    const xfer_status_t status =
        xfer_engine_poll(engine, events.data(), sizeof events[0], max, 0, &count);
    if (status != XFER_OK || count > max) all.model.violated(name() + " can't be polled");
    for (uint32_t i = 0; i < count; ++i)
        on_event(events[i]);
}

void Life::on_event(const xfer_event_t &event) {
    if (event.sequence != ++sequence_) all.model.violated(name() + ": a hole in the sequence");
    if (ended_) all.model.violated(name() + " tells something after its end");
    if (event.kind == XFER_EVENT_CLOSED && event.object == engine) ended_ = true;
    if (who().dead) return on_event_of_dead(event);
    if (ended_ && stalls_) all.model.violated(name() + " ends while a device stalls");
    if (ended_) all.model.quiet_ends(who(), 0), check_ends();
    if (frozen) all.model.violated(name() + " speaks while it is stopped");
    all.note([&] {
        return name() + " hears " + std::to_string(event.kind) + " " +
               xfer_status_name(event.status) + (event.flags & XFER_FENCED ? " fenced" : "") +
               (event.flags & XFER_MAYBE_APPLIED ? " maybe" : "") + " #" +
               std::to_string(event.kind == XFER_EVENT_NOTIFY ? event.tag : event.user);
    });
    if (event.kind <= XFER_EVENT_CONNECT || event.kind == XFER_EVENT_NOTIFIED ||
        event.kind == XFER_EVENT_FLUSH || event.kind == XFER_EVENT_ATOMIC)
        return on_operation(event);
    switch (event.kind) {
    case XFER_EVENT_NOTIFY:
        return all.model.notified(event, who());
    case XFER_EVENT_CLOSED:
        return on_closed(event);
    case XFER_EVENT_REVOKED:
        if (Lent *lent = all.model.find_lent(number, event.user)) all.model.revoked(event, *lent);
        std::erase_if(grants, [&](const Grant &grant) { return grant.lent->id == event.user; });
        return;
    case XFER_EVENT_COUNTER:
        return all.model.counted(event, who());
    case XFER_EVENT_ROOM:
        return on_room(event);
    case XFER_EVENT_STALLED:
        stalls_ += event.status == XFER_OK ? -1 : 1;
        if (stalls_ < 0) all.model.violated(name() + ": a device goes on that did not stall");
        return;
    case XFER_EVENT_REGION_GONE: {
        xfer_ref_info_t info;
        xfer_ref_info(static_cast<const xfer_ref_t *>(event.data), &info, sizeof info);
        const Lent *lent =
            all.model.find_lent(all.incarnations[info.owner.incarnation], info.region);
        if (lent && !lent->close_called)
            all.model.violated(name() + ": an open region is told gone");
        return;
    }
    default:
        return on_peer(event);
    }
}

void Life::on_operation(const xfer_event_t &event) {
    const ModelOperation *operation = all.model.find(event.user);
    if (event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK) {
        Held got;
        std::memcpy(&got.ref, event.data, sizeof got.ref);
        xfer_ref_info_t info;
        xfer_ref_info(&got.ref, &info, sizeof info);
        got.lent = all.model.find_lent(all.incarnations[info.owner.incarnation], info.region);
        if (!got.lent) return all.model.violated(name() + " found a region that never was");
        if (operation && operation->expected &&
            all.model.who(got.lent->owner).id != *operation->expected)
            all.model.violated(name() + " found a region of an engine that was not expected");
        if (held.size() < 32) held.push_back(got);
    }
    if (operation && event.kind == XFER_EVENT_BATCH) check_entries(event, *operation);
    if (operation) check_reason(event, *operation);
    all.model.ended(event, who());
    if (operation && event.status == XFER_OK) all.keep_stable(*operation);
    if (operation && event.kind == XFER_EVENT_FLUSH) all.flush_again(*this, *operation);
}

void Life::check_entries(const xfer_event_t &event, const ModelOperation &operation) {
    for (const Batch &batch : batches) {
        if (batch.last != operation.number) continue;
        const size_t count = operation.entries.size();
        std::vector<xfer_status_t> statuses(count + 1);
        if (xfer_batch_entries(batch.handle, 1, count, statuses.data()) != XFER_ERANGE)
            all.model.violated(name() + ": a batch has more entries than it was given");
        if (xfer_batch_entries(batch.handle, 0, count, statuses.data()) != XFER_OK)
            all.model.violated(name() + ": a batch does not tell of its entries");
        statuses.resize(count);
        all.model.entries_told(event, operation, statuses);
    }
}

// A connection that came about at this very moment is the one that is told. But a handle that comes
// and goes in one moment was given for the one before it, since nobody else was there to be told of
// what failed with that.
void Life::on_peer(const xfer_event_t &event) {
    if (event.kind == XFER_EVENT_PEER_UP) {
        const auto *peer = static_cast<const xfer_id_t *>(event.data);
        Ep *ep = ep_of(event.ep);
        if (ep) check_up(*ep, *peer);
        Tracked &tracked = tracked_[event.ep];
        tracked.peer = all.incarnations[peer->incarnation];
        const std::vector<uint64_t> &starts = process->generations[tracked.peer];
        const auto first = std::find(starts.begin(), starts.end(), all.world.now());
        tracked.generation = first == starts.end() || who().late
                                 ? 0
                                 : static_cast<uint64_t>(first - starts.begin()) + 1;
        tracked.since = all.world.now();
        if (ep && ep->anyone) ep->node = all.model.who(tracked.peer).node, ep->anyone = false;
        if (ep && !ep->expected) on_visitor(event, *ep);
    } else if (event.kind == XFER_EVENT_PEER) {
        tracked_.erase(event.ep);
        Ep ep;
        ep.number = all.next_word(), ep.handle = event.ep, ep.accepted = owns;
        closing_eps_.erase(event.ep);
        visitors.push_back(ep);
        if (asks) all.decide(*this, ep.number);
        const bool meant = asks && all.meeting();  // who closes it turns its peer away
        if (owns && !meant && all.world.random(10) == 0) give_up(visitors.size() - 1);
    } else if (event.kind == XFER_EVENT_PEER_DOWN) {
        on_down(event);
    }
}

void Life::on_down(const xfer_event_t &event) {
    const Tracked tracked = tracked_[event.ep];
    const bool passing = tracked.generation > 0 && tracked.since == all.world.now();
    if (tracked.peer)  // else it was never up
        all.model.peer_down(number, tracked.peer, tracked.generation - (passing ? 1 : 0));
    tracked_.erase(event.ep);
    ++all.net.met["peer down"];
    for (size_t i = 0; i < visitors.size(); ++i) {
        if (visitors[i].handle != event.ep) continue;
        if (visitors[i].accepted) return accept(i);
        const uint64_t word = visitors[i].number;
        const bool last =
            tracked.peer && all.swarm.keeps && all.world.random(4) == 0;  // and still in time
        if (last) keep(i);
        if (last && !eps.empty() && eps.back().handle == event.ep) return;
        all.model.withdraw_all(word, number);
        visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(i));
        return;
    }
}

// Now it is told who that is.
void Life::on_visitor(const xfer_event_t &event, Ep &ep) {
    const bool mine = std::any_of(eps.begin(), eps.end(),
                                  [&](const Ep &each) { return each.handle == ep.handle; });
    if (mine) return;  // opened, and whoever answers is meant
    const Who &peer = all.model.who(tracked_[event.ep].peer);
    for (const Ep &each : eps)
        if (each.kept && each.expected == peer.id && !asks)  // else each question has its own
            all.model.violated(name() + " is given a handle for whom it has kept one");
    ep.expected = peer.id, ep.node = peer.node;
    const auto index = static_cast<size_t>(&ep - visitors.data());
    if (ep.accepted) return accept(index);
    if (all.swarm.keeps && all.world.random(6) == 0) keep(index);
}

void Life::on_closed(const xfer_event_t &event) {
    tracked_.erase(event.ep);  // another handle may get its address
    if (event.ep) return on_ep_closed(event);
    if (event.object == engine) return;
    const auto closing = closing_areas_.find(event.object);
    Lent *lent = nullptr;
    if (closing != closing_areas_.end()) {
        lent = closing->second;
        closing_areas_.erase(closing);
    } else {
        for (const Area &area : areas)
            if (area.handle == event.object) lent = area.lent;
    }
    if (!lent || !lent->close_called)
        return all.model.violated(name() + ": a region is told closed that is not");
    if (!all.model.grants_over(*lent))
        all.model.violated(name() + ": a region is told closed before its grants");
    if (process->is_registered(lent->id))
        all.model.violated(name() + ": a region is told closed, and adapters reach it");
    all.model.returned(*lent);
}

void Life::on_room(const xfer_event_t &event) {
    ++all.net.met["room"];
    Ep *ep = ep_of(event.ep);
    if (!ep) return;
    ++ep->rooms;
    // One that is told late may be of an earlier refusal than the last.
    const bool asked = who().late ? ep->rooms <= ep->refusals : ep->room_owed;
    if (!asked) all.model.violated(name() + ": room that nobody asked for");
    ep->room_owed = false;
}

}  // namespace xfer
