// SPDX-License-Identifier: Apache-2.0
// The move of a connection to the loop that its peer's identity falls to.
#include "core/peer/migration.h"

#include <utility>

#include "core/engine/engine.h"
#include "core/engine/shard.h"

namespace xfer {

namespace {

Failure too_late() {
    return {XFER_ECLOSED, 0, 0, "the engine closes"};
}

}  // namespace

void Migration::arrive(Shard &shard) {
    shard.arrive(*this);
    delete this;
}

void Shard::migrate_half_open(Connection &half_open, Shard &home, ConstBytes heard) {
    auto move = std::make_unique<Migration>();
    move->heard.assign(heard.begin(), heard.end());
    const ConstBytes hello = half_open.handshake.heard(), reply = half_open.handshake.said();
    move->hello.assign(hello.begin(), hello.end());
    move->said.assign(reply.begin(), reply.end());
    move->listener_user = half_open.listener_user;
    move->ticket = half_open.control().channel->detach();
    half_open.control().state = Lane::State::down;
    half_open.close({kDuplicate, 0, 0, "moved"});
    post_migration(home, std::move(move));
}

std::unique_ptr<Migration> Shard::pack(Connection &connection, const Identity &identity,
                                       ConstBytes reply, List<Endpoint, InPeer> &eps) {
    auto move = std::make_unique<Migration>();
    move->side = Side::ours;
    move->heard.assign(reply.begin(), reply.end());
    const ConstBytes said = connection.handshake.said();
    move->said.assign(said.begin(), said.end());
    move->sequence = connection.sequence;
    move->uri = connection.uri;
    move->id = identity.id;
    move->spare = std::make_unique<Peer>(engine.home(identity.id), std::vector{connection.uri});
    move->spare->name(identity.id);
    size_t count = 0;
    for ([[maybe_unused]] Endpoint &ep : eps)
        ++count;
    moving_.reserve(count);
    return move;
}

void Shard::post_migration(Shard &home, std::unique_ptr<Migration> move, Peer *from) {
    for (Endpoint &ep : move->pending_work.eps)
        moving_.emplace_back(ep);
    engine.draining().hold();  // until it arrives
    // With the post: its loop finds them its own when the move arrives, and what other threads post
    // there comes after the move.
    const auto name_home = [&] {
        for (auto &ep : moving_) {
            ep->moved.store(true);
            ep->shard.store(&home);
        }
    };
    if (home.enqueue(*move, name_home)) {
        static_cast<void>(move.release());
    } else {  // its loop has ended: so will this one
        if (from) from->adopt_pending_work(move->pending_work, {});
        if (from) close(*from, too_late());
        engine.draining().release(*this);
    }
    moving_.clear();
}

void Shard::migrate(Connection &connection, std::unique_ptr<Migration> move, ConstBytes reply) {
    Shard &home = engine.home(move->id);
    if (&home == this) {
        Peer *known = peers.find(move->id);
        Peer &peer = known ? *known : peers.take_in(std::move(move->spare));
        peer.adopt_dialed(connection);
        peer.adopt_pending_work(move->pending_work, move->uri);
        if (connection.closing()) return;
        if (auto message = decode_hello(reply)) peer.hear_reply(connection, *message, reply);
        return;
    }
    Peer *from = connection.peer;
    // Without it, those who wanted it go alone, and dial anew there.
    const bool along =
        catch_bad_alloc([&] { move->ticket = connection.control().channel->detach(); });
    if (along) {
        connection.control().state = Lane::State::down;
        defer_delete(connection);
    } else {
        connection.close(no_memory());
    }
    post_migration(home, std::move(move), from);
}

void Shard::arrive(Migration &move) {
    receive(move);
    arrived();
}

void Shard::receive(Migration &move) {
    std::unique_ptr<Connection> connection;
    if (move.ticket.fd && !catch_bad_alloc([&] { connection = unpack(move); })) connection.reset();
    Connection *moved = connection.release();
    if (move.side == Side::theirs) {
        if (!moved) return;
        inbound.take(*moved);
        if (engine.closing()) return moved->close(too_late());
    } else {
        Peer *known = peers.find(move.id);
        Peer &peer = known ? *known : peers.take_in(std::move(move.spare));
        if (moved) peer.adopt_dialed(*moved);
        peer.adopt_pending_work(move.pending_work, move.uri);
        if (engine.closing()) return close(peer, too_late());
        if (!moved) return;
    }
    if (!moved->control().channel)
        return moved->close({XFER_ENOMEM, 0, 0, "the loop can't watch one more descriptor"});
    moved->control().on_hello(move.heard);
}

std::unique_ptr<Connection> Shard::unpack(Migration &move) {
    auto connection = std::make_unique<Connection>(*this, move.side, next_number(), move.sequence);
    connection->uri = move.uri;
    connection->listener_user = move.listener_user;
    if (move.side == Side::ours) {
        connection->handshake.resume(move.said);
    } else if (auto hello = decode_hello(move.hello)) {  // not a lane
        connection->handshake.resume(*hello, move.hello, move.said);
        connection->sequence = hello->identity.sequence;
    }
    Lane &control = connection->control();
    auto remote = parse_uri(move.ticket.remote);  // a channel's own
    auto channel = transport_for(*remote)->adopt(std::move(move.ticket));
    if (channel) control.adopt(std::move(channel));
    return connection;
}

}  // namespace xfer
