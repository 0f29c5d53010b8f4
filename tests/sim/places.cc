// SPDX-License-Identifier: Apache-2.0
// Where the peers of endpoints are in a random scenario: at one of several addresses, at one that
// is added later, or nowhere that was said, for those that have an id alone.
#include <algorithm>

#include "scenario.h"
#include "util/uri.h"

namespace xfer {

namespace {

constexpr size_t kHandles = 24;    // of one engine's application, at most
constexpr size_t kAddresses = 10;  // of one handle
constexpr uint32_t kPatienceMs = 90'000;

}  // namespace

std::string Scenario::uri(size_t node) const {
    return "tcp://10.0." + std::to_string(nodes_[node].moves) + "." + std::to_string(node + 1) +
           ":1";
}

std::string Scenario::nobodys_uri() {
    return "tcp://10.9.0." + std::to_string(random(4)) + ":1";
}

std::optional<size_t> Scenario::home_of(const EngineId &id) const {
    for (const auto &[number, node] : home_)
        if (model.who(number).id == id) return node;
    return std::nullopt;
}

// Whoever is expected may be sought where others are; who is not is whoever answers first.
std::vector<std::string> Scenario::some_uris(size_t to, bool others) {
    std::vector<std::string> uris{uri(to)};
    if (!swarm.lists || one_in(2)) return uris;
    for (uint64_t more = 1 + random(3); more; --more)
        uris.push_back(others && one_in(2) ? uri(random(nodes_.size())) : nobodys_uri());
    for (size_t i = uris.size(); i > 1; --i)
        std::swap(uris[i - 1], uris[random(i)]);
    return uris;
}

// ---- calls

Life::Ep *Life::open_ep(size_t to, const std::optional<EngineId> &expected) {
    const bool others = expected && all.swarm.lists && !lists;
    misleads |= others;
    return open_ep(to, expected, all.some_uris(to, others));
}

Life::Ep *Life::open_ep(size_t to, const std::optional<EngineId> &expected,
                        const std::vector<std::string> &uris) {
    if (eps.size() >= kHandles) return nullptr;
    xfer_id_t peer{};
    if (expected) std::copy(expected->begin(), expected->end(), peer.bytes);
    xfer_ep_options_t options{};
    options.size = sizeof options;
    options.user = all.next_word();
    options.peer = expected ? &peer : nullptr;
    Ep ep;
    ep.number = options.user, ep.node = to, ep.expected = expected;
    ep.uris = uris, ep.by_id = uris.empty();
    // What no transport serves is left out.
    const bool more = uris.size() > 1 && all.world.random(4) == 0;
    const std::string list = join_list(uris) + (more ? ",unix:///nowhere" : "");
    const xfer_status_t status =
        xfer_ep_open(engine, uris.empty() ? nullptr : list.c_str(), &options, &ep.handle, nullptr);
    all.note([&] {
        return name() + " opens an endpoint to " +
               (uris.empty() ? "an id at " + all.uri(to) : list);
    });
    if (status != XFER_OK) {
        all.model.violated(name() + " can't open an endpoint: " + xfer_status_name(status));
        return nullptr;
    }
    for (const std::string &uri : uris)
        ++all.dialed[{number, uri}].handles;
    if (expected) said[*expected].insert(uris.begin(), uris.end());
    tracked_.erase(ep.handle);  // one that ended untold may have had its address
    closing_eps_.erase(ep.handle);
    eps.push_back(ep);
    return &eps.back();
}

Life::Ep *Life::id_ep_to(size_t to) {
    return id_ep(to, all.id_of(to));
}

// It does not hear of what the address of the other is worth.
Life::Ep *Life::id_ep_beside(const Ep &other) {
    return id_ep(other.node, *other.expected);
}

Life::Ep *Life::id_ep(size_t to, const EngineId &peer) {
    for (Ep &ep : eps)
        if (ep.node == to && ep.by_id && ep.expected == peer) return &ep;
    return open_ep(to, EngineId(peer), {});
}

void Life::add_address(Ep &ep, const std::string &uri) {
    const xfer_status_t status = xfer_ep_add_address(ep.handle, uri.c_str(), nullptr);
    all.note([&] { return name() + " adds the address " + uri + ": " + xfer_status_name(status); });
    if (status == XFER_ECLOSED && !acts()) return;
    if (status != XFER_OK)
        return all.model.violated(name() + " can't add an address: " + xfer_status_name(status));
    ++all.dialed[{number, uri}].handles;
    ++all.net.met["address added"];
    ep.by_id = false;
    if (ep.expected) said[*ep.expected].insert(uri);
    if (!ep.has(uri)) ep.uris.push_back(uri);
}

// ---- what must hold

// Who answers is the one that was meant, or was found where its handle says.
void Life::check_up(const Ep &ep, const xfer_id_t &peer) {
    EngineId id{};
    std::copy(std::begin(peer.bytes), std::end(peer.bytes), id.begin());
    if (ep.expected && *ep.expected != id)
        all.model.violated(name() + " is connected with an engine that was not expected");
    if (ep.expected || ep.uris.empty()) return;
    const auto is_it = [&](const Who &who) { return who.id == id; };
    if (std::none_of(ep.uris.begin(), ep.uris.end(),
                     [&](const std::string &uri) { return all.model.has_listened(uri, is_it); }))
        all.model.violated(name() + " is connected with an engine that is at no address it gave");
}

// Another engine has answered at each of the addresses, so there is one. Who gave none waits.
void Life::check_reason(const xfer_event_t &event, const ModelOperation &operation) {
    const Ep *ep = ep_by(operation.ep);
    const bool of_others = event.kind == XFER_EVENT_FLUSH;  // it tells their first failure
    if (!ep || operation.moves() || of_others || event.kind == XFER_EVENT_CONNECT) return;
    const xfer_status_t status = event.status;
    if (ep->by_id) ++all.net.met[std::string("by id ") + xfer_status_name(status)];
    const bool lost = status == XFER_EPEERLOST || status == XFER_EUNREACHABLE;
    if (ep->expected == id && lost)
        all.model.violated(all.describe(operation) + " has lost its own engine");
    if (status != XFER_EIDENTITY) return;
    const auto another = [&](const Who &who) { return who.id != ep->expected; };
    const auto answers = [&](const std::string &uri) {
        return all.model.has_listened(uri, another);
    };
    // It may have ended before an address was added, and is only told now.
    const size_t places = std::min(std::max<size_t>(operation.places, 1), ep->uris.size());
    const bool may_be = ep->expected && (ep->kept || places > 0);
    if (!may_be || !std::all_of(ep->uris.begin(), ep->uris.begin() + places, answers))
        all.model.violated(all.describe(operation) +
                           " is told of another engine, and it may still come");
}

// ---- acts

// For whoever answers first.
void Scenario::act_listed(Life &life) {
    if (life.misleads) return;
    life.lists = true;
    Life::Ep *ep = nullptr;
    for (Life::Ep &mine : life.eps)
        if (mine.anyone) ep = &mine;
    if (!ep || one_in(3)) {
        const size_t first = other_node(life);
        std::vector<std::string> uris{uri(first)};
        for (uint64_t more = 1 + random(2); more; --more)
            uris.push_back(one_in(3) ? nobodys_uri() : uri(other_node(life)));
        ep = life.open_ep(first, std::nullopt, uris);
        if (!ep) return;
        ep->anyone = ep->wanders = true;
    }
    use(life, *ep);
}

void Scenario::act_add_address(Life &life) {
    if (life.eps.empty()) return;
    Life::Ep &ep = life.eps[random(life.eps.size())];
    if (ep.uris.size() >= kAddresses) return;
    const bool knows_it = ep.anyone || ep.has(uri(ep.node));
    if (ep.expected && !life.lists && one_in(4)) {
        life.misleads = true;
        return life.add_address(ep, uri(random(nodes_.size())));
    }
    if (!ep.anyone && (!knows_it || one_in(4))) return life.add_address(ep, uri(ep.node));
    life.add_address(ep, nobodys_uri());
}

// For an engine that may never come, or for itself, which is there.
void Scenario::act_by_id(Life &life) {
    const size_t to = one_in(3) ? life.node : other_node(life);
    Life::Ep *ep = life.id_ep_to(to);
    if (!ep) return;
    if (to != life.node && !one_in(3)) return use(life, *ep);
    const Act asks[] = {Act::lookup, Act::lookup, Act::probe, Act::connect, Act::await};
    ask_by(life, *ep, asks[random(5)]);
}

// ---- when nothing is in the way any more

// Each of these finds its peer: somebody is there, or the two surely meet by another handle.
void Scenario::ask_by_place(Life &life, std::vector<const ModelOperation *> &asked) {
    const auto ask = [&](Life::Ep &ep) {
        ModelOperation &operation = model.begin(ModelOperation::question, life.number, 0);
        operation.ep = ep.number;
        const auto options = options_of<xfer_op_options_t>(kPatienceMs);
        if (life.took(operation, &ep, xfer_ep_probe(ep.handle, operation.number, &options)))
            asked.push_back(&operation);
    };
    const auto is_there = [&](size_t node) {
        const auto &owner = nodes_[node].life;
        return owner && owner->acts() && owner->listens;
    };
    const auto meet = [&](size_t a, size_t b) {
        return std::find(met_.begin(), met_.end(), std::pair{a, b}) != met_.end();
    };
    for (Life::Ep &ep : life.eps) {
        const bool there =
            ep.expected == life.id || (ep.expected == id_of(ep.node) &&
                                       (meet(life.node, ep.node) || meet(ep.node, life.node)));
        if (ep.by_id && there) ask(ep);
        bool any = false;
        for (size_t i = 0; i < nodes_.size(); ++i)
            any |= is_there(i) && ep.has(uri(i));
        if (ep.anyone && any) ask(ep);
    }
}

}  // namespace xfer
