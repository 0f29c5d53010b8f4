// SPDX-License-Identifier: Apache-2.0
// How a shard receives connections: listeners, strangers until they say who they are, lanes that
// join, and the move to the loop that an identity falls to.
#include <algorithm>
#include <utility>

#include "core/engine.h"
#include "core/link_move.h"
#include "core/shard.h"

namespace xfer {

Result<std::unique_ptr<Listener>> Shard::make_listener(const Uri &uri, size_t room) {
    Transport *transport = transport_for(uri);
    if (!transport)
        return Failure{XFER_EUNSUPPORTED, 0, 0, "no transport serves " + to_string(uri)};
    auto listener = transport->listen(uri, *this);
    if (listener && (*listener)->bound().size() >= room)
        return Failure{XFER_ENOSPC, 0, 0, "no room for " + (*listener)->bound()};
    return listener;
}

// ---- strangers

bool Shard::full() {
    return engine.strangers().load() >= kMaxStrangers;
}

void Shard::on_accept(std::unique_ptr<Link> link) {
    counters.accepts.add();
    strangers_.push_back(std::make_unique<Connection>(*this, Side::theirs, next_number(), 0));
    Lane &control = strangers_.back()->control();
    control.link = std::move(link);
    control.link->set_sink(control);
}

void Connection::be_known() {
    if (std::exchange(stranger_, false)) shard.engine.strangers().fetch_sub(1);
}

std::unique_ptr<Connection> Shard::take_stranger(Connection &stranger) {
    auto at = std::find_if(strangers_.begin(), strangers_.end(),
                           [&](const auto &held) { return held.get() == &stranger; });
    auto held = std::move(*at);
    strangers_.erase(at);
    return held;
}

void Shard::stranger_gone(Connection &stranger) {
    bury(take_stranger(stranger));
}

void Shard::admit(Connection &stranger, const Identity &identity, ConstBytes hello) {
    Shard &home = engine.home(identity.id);
    if (&home != this) return move_stranger(stranger, home, hello);
    if (identity.id == engine.identity().id) {
        if (identity.incarnation != engine.identity().incarnation)
            return stranger.refuse(XFER_EIDENTITY);
        return stranger.send_reply({});  // it is us; the dialing side learns it from this
    }
    if (engine.strangers().load() > kBusyStrangers) return stranger.refuse(XFER_EOVERLOAD);
    Peer &peer = peer_of(identity.id);
    if (!peer.take_slot()) {
        stranger.refuse(XFER_EOVERLOAD);
        make_room(waiting_ + 1);
        return review(peer);
    }
    peer.adopt(take_stranger(stranger));
    peer.hear(stranger,
              {Input::hello, stranger.number, stranger.sequence, identity.incarnation, {}});
}

void Shard::admit_lane(Connection &stranger, const Hello &message, ConstBytes raw) {
    Shard &home = engine.home(message.identity.id);
    if (&home != this) return move_stranger(stranger, home, raw);
    for (auto &peer : peers_) {
        Connection *live = peer->id == message.identity.id ? peer->live() : nullptr;
        if (!live || live->sequence != message.identity.sequence ||
            live->handshake.peer().incarnation != message.identity.incarnation)
            continue;
        if (!live->join_lane(stranger, message, raw)) break;
        stranger.control().state = Lane::State::down;
        return stranger.close({kDuplicate, 0, 0, "joined"});
    }
    stranger.refuse(XFER_EAUTH);
}

void Shard::greet(Peer &peer) {
    auto *ep = new Endpoint(engine, "", 0);
    ep->of_user.store(false);
    ep->shard.store(this);
    peer.add(*ep);
    notify(*ep, XFER_EVENT_PEER, {});
}

// It came back before the user was told of its end, which took its handle: it gets a new one.
void Shard::greet_again(Peer &peer) {
    if (closing_ || !peer.live() || !peer.endpoints().empty()) return;
    const Handshake &words = peer.live()->handshake;
    greet(peer);
    for (Endpoint &ep : peer.endpoints()) {
        ep.connections.add();
        notify_peer_up(ep, words.peer(), words.peer_terms().blob, XFER_RECONNECTED);
    }
}

// ---- moving between loops

void LinkMove::arrive(Shard &shard) {
    shard.arrive(*this);
    delete this;
}

void Shard::move_stranger(Connection &stranger, Shard &home, ConstBytes heard) {
    auto *move = new LinkMove;
    move->ticket = stranger.control().link->detach();
    move->heard.assign(heard.begin(), heard.end());
    stranger.control().state = Lane::State::down;
    stranger.close({kDuplicate, 0, 0, "moved"});
    post_link(home, *move);
}

void Shard::post_link(Shard &home, LinkMove &move) {
    std::vector<Ref<Endpoint>> moved;
    for (Endpoint &ep : move.wishes.eps)
        moved.emplace_back(ep);
    engine.draining().hold();  // until it arrives
    if (!home.post(move))
        return arrive(move), delete &move;  // its loop has ended: so will this one
    // Only now: what is posted there from here on comes after the move.
    for (auto &ep : moved)
        ep->shard.store(&home);
}

void Shard::rehome(std::unique_ptr<Connection> connection, const Identity &identity,
                   PeerMove &wishes, ConstBytes reply) {
    Shard &home = engine.home(identity.id);
    if (&home == this) {
        Peer &peer = peer_of(identity.id);
        Connection &moved = *connection;
        peer.adopt_greeted(std::move(connection));
        peer.adopt_wishes(wishes);
        if (auto message = decode_hello(reply)) peer.hear_reply(moved, *message, reply);
        return;
    }
    auto *move = new LinkMove;
    move->side = Side::ours;
    move->ticket = connection->control().link->detach();
    move->heard.assign(reply.begin(), reply.end());
    const ConstBytes said = connection->handshake.said();
    move->said.assign(said.begin(), said.end());
    move->sequence = connection->sequence;
    move->uri = connection->uri;
    move->id = identity.id;
    move->wishes.eps.append(wishes.eps);
    move->wishes.transfers.append(wishes.transfers);
    move->wishes.requests.append(wishes.requests);
    move->wishes.slot = std::exchange(wishes.slot, false);
    bury(std::move(connection));
    post_link(home, *move);
}

void Shard::arrive(LinkMove &move) {
    receive(move);
    check_drained();
    engine.draining().release(*this);
}

void Shard::receive(LinkMove &move) {
    auto connection = std::make_unique<Connection>(*this, move.side, next_number(), move.sequence);
    Connection &moved = *connection;
    auto remote = parse_uri(move.ticket.remote);  // a link's own
    moved.control().link = transport_for(*remote)->adopt(std::move(move.ticket));
    if (moved.control().link) moved.control().link->set_sink(moved.control());
    moved.uri = move.uri;
    const Failure too_late{XFER_ECLOSED, 0, 0, "the engine closes"};
    if (move.side == Side::theirs) {
        strangers_.push_back(std::move(connection));
        if (engine.closing()) return moved.close(too_late);
    } else {
        moved.handshake.resume(move.said);
        Peer &peer = peer_of(move.id);
        peer.adopt_greeted(std::move(connection));
        peer.adopt_wishes(move.wishes);
        if (engine.closing()) return close(peer, too_late);
    }
    if (!moved.control().link)
        return moved.close({XFER_ENOMEM, 0, 0, "the loop can't watch one more descriptor"});
    moved.on_hello(moved.control(), move.heard);
}

}  // namespace xfer
