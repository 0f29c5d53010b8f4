// SPDX-License-Identifier: Apache-2.0
// The handles of an application in a random scenario: those of PEER events that are its own by
// XFER_ENGINE_OWN_PEERS, and the end of each that it has.
#include <algorithm>

#include "scenario.h"

namespace xfer {

// A handle that it is given by an engine that is dead is its own all the same.
void Life::on_event_of_dead(const xfer_event_t &event) {
    if (event.kind != XFER_EVENT_PEER || !owns) return;
    Ep ep;
    ep.handle = event.ep, ep.accepted = true;
    visitors.push_back(ep);
}

// Its peer is known, or is gone already; from then on it is like one that was opened.
void Life::accept(size_t visitor) {
    Ep ep = visitors[visitor];
    if (!ep.expected) {
        xfer_peer_info_t info{};
        const xfer_status_t status = xfer_ep_peer(ep.handle, &info, sizeof info);
        if (status != XFER_OK)
            all.model.violated(name() + ": a handle that is its own answers " +
                               xfer_status_name(status));
        EngineId peer{};
        std::copy(std::begin(info.id.bytes), std::end(info.id.bytes), peer.begin());
        const std::optional<size_t> home = all.home_of(peer);
        if (!home) return give_up(visitor);
        ep.expected = peer, ep.node = *home, ep.by_id = true;
        ++all.net.met["accepted, never up"];
    }
    visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(visitor));
    ep.kept = true;
    eps.push_back(ep);
    ++all.net.met["accepted"];
}

// Before anything is known of its peer: where that is asked about, it is turned away.
void Life::give_up(size_t visitor) {
    const Ep ep = visitors[visitor];
    visitors.erase(visitors.begin() + static_cast<ptrdiff_t>(visitor));
    if (asks) who().turns_away = true;
    ++all.net.met["accepted, closed at once"];
    close_handle(ep);
}

void Life::close_ep(size_t index) {
    const Ep ep = eps[index];
    eps.erase(eps.begin() + static_cast<ptrdiff_t>(index));
    close_handle(ep);
}

void Life::close_handle(const Ep &ep) {
    all.note([&] { return name() + " closes its endpoint to " + all.uri(ep.node); });
    all.model.withdraw_all(ep.number, number);
    const xfer_status_t status = xfer_ep_close(ep.handle);
    if (status != XFER_OK && (status != XFER_ECLOSED || !who().closing))
        all.model.violated(name() + ": the close of a handle answers " + xfer_status_name(status));
    if (!ep.told_closed) closing_eps_[ep.handle] = {ep.number, status == XFER_OK};
    tracked_.erase(ep.handle);
}

// Of each handle that is the application's, once; of no other.
void Life::on_ep_closed(const xfer_event_t &event) {
    if (const auto closed = closing_eps_.extract(event.ep); !closed.empty())
        return all.model.closed(closed.mapped().number, who());
    Ep *ep = ep_of(event.ep);
    const bool own = ep && (ep->accepted || (ep >= eps.data() && ep < eps.data() + eps.size()));
    if (!own || !who().closing || ep->told_closed)
        return all.model.violated(name() + ": a handle is told closed that is not");
    ep->told_closed = true;
}

void Life::check_ends() {
    size_t untold = 0;
    for (const auto &[handle, closing] : closing_eps_)
        untold += closing.surely;
    for (const std::vector<Ep> *list : {&eps, &visitors})
        for (const Ep &ep : *list)
            untold += (list == &eps || ep.accepted) && !ep.told_closed;
    if (untold) all.model.violated(name() + ": a handle is not told closed");
}

// Any that somebody has accepted, whether its peer is there or not.
void Scenario::act_accepted() {
    std::vector<std::pair<Life *, size_t>> fit;
    for (auto &node : nodes_)
        for (size_t i = 0; node.life && node.life->acts() && i < node.life->eps.size(); ++i)
            if (node.life->eps[i].accepted) fit.emplace_back(node.life.get(), i);
    if (fit.empty()) return;
    const auto [who, index] = fit[random(fit.size())];
    Life &life = *who;
    Life::Ep &ep = life.eps[index];
    uint32_t state = 0;
    if (xfer_ep_state(ep.handle, &state) != XFER_OK || state == XFER_EP_CLOSED)
        model.violated(life.name() + ": a handle that it has accepted is closed");
    ++net.met[state == XFER_EP_READY ? "used, accepted" : "used, accepted, its peer down"];
    if (one_in(8)) return life.close_ep(index);
    if (!one_in(8)) return use(life, ep);
    const xfer_status_t status = xfer_ep_keep(ep.handle, next_word());
    if (status != (ep.renamed ? XFER_EINVAL : XFER_OK))
        model.violated(life.name() + ": the word of a handle is set, or set twice");
    ep.renamed = true;
}

}  // namespace xfer
