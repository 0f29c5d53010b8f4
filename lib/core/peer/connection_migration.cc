// SPDX-License-Identifier: Apache-2.0
#include "core/peer/connection_migration.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/inbound.h"
#include "core/peer/peer_table.h"
#include "core/transfer/stream_submission.h"

namespace xfer {

namespace {

Failure too_late() {
    return {XFER_ECLOSED, 0, 0, "the engine closes"};
}

}  // namespace

void MigrationMessage::arrive(ShardCore &shard) {
    shard.migration.arrive(*this);
    delete this;
}

void ConnectionMigration::move_half_open(Session &half_open, ShardCore &home, ConstBytes heard) {
    auto message = std::make_unique<MigrationMessage>();
    message->heard.assign(heard.begin(), heard.end());
    const ConstBytes hello = half_open.handshake.heard(), reply = half_open.handshake.said();
    message->hello.assign(hello.begin(), hello.end());
    message->said.assign(reply.begin(), reply.end());
    message->listener_user = half_open.listener_user;
    message->replied_at = half_open.replied_at;
    message->ticket = half_open.control().channel->detach();
    half_open.control().state = Lane::State::down;
    half_open.close({kDuplicate, 0, 0, "moved"});
    post(home, std::move(message));
}

std::unique_ptr<MigrationMessage> ConnectionMigration::pack(Session &connection,
                                                            const Identity &identity,
                                                            ConstBytes reply,
                                                            List<Endpoint, InPeer> &eps) {
    auto message = std::make_unique<MigrationMessage>();
    message->side = Side::ours;
    message->heard.assign(reply.begin(), reply.end());
    const ConstBytes said = connection.handshake.said();
    message->said.assign(said.begin(), said.end());
    message->sequence = connection.sequence;
    message->uri = connection.uri;
    message->id = identity.id;
    message->spare =
        std::make_unique<Peer>(shard_.engine.home(identity.id), std::vector{connection.uri});
    message->spare->name(identity.id);
    size_t count = 0;
    for ([[maybe_unused]] Endpoint &ep : eps)
        ++count;
    leaving_.reserve(count);
    return message;
}

void ConnectionMigration::post(ShardCore &home, std::unique_ptr<MigrationMessage> message,
                               Peer *from) {
    for (Endpoint &ep : message->pending_work.eps)
        leaving_.emplace_back(ep);
    shard_.outbox.hand_over();        // what was told of them must not come after CLOSED
    shard_.engine.draining().hold();  // until it arrives
    // With the post: its loop finds them its own when the move arrives, and what other threads post
    // there comes after it.
    const auto name_home = [&] {
        for (auto &ep : leaving_) {
            ep->moved.store(true);
            ep->shard.store(&home);
        }
    };
    if (home.enqueue(*message, name_home)) {
        static_cast<void>(message.release());
    } else {  // its loop has ended: so will this one
        if (from) from->adopt_pending_work(message->pending_work, {});
        if (from) shard_.close(*from, too_late());
        shard_.engine.draining().release(shard_);
    }
    leaving_.clear();
}

void ConnectionMigration::move_dialed(Session &connection,
                                      std::unique_ptr<MigrationMessage> message, ConstBytes reply) {
    ShardCore &home = shard_.engine.home(message->id);
    if (&home == &shard_) {
        Peer *known = shard_.peers.find(message->id);
        Peer &peer = known ? *known : shard_.peers.take_in(std::move(message->spare));
        peer.adopt_dialed(connection);
        peer.adopt_pending_work(message->pending_work, message->uri);
        if (connection.closing()) return;
        if (auto heard = decode_hello(reply)) peer.hear_reply(connection, *heard, reply);
        return;
    }
    Peer *from = connection.peer;
    // Without it, those who wanted it go alone, and dial anew there.
    const bool along =
        catch_bad_alloc([&] { message->ticket = connection.control().channel->detach(); });
    if (along) {
        connection.control().state = Lane::State::down;
        shard_.defer_delete(connection);
    } else {
        connection.close(no_memory());
    }
    post(home, std::move(message), from);
}

void ConnectionMigration::arrive(MigrationMessage &message) {
    adopt(message);
    if (shard_.draining())  // batches on streams may come from a loop that was not told yet
        shard_.engine.submissions().end_all(shard_, nullptr, XFER_ECLOSED, TicketInput::finish);
    shard_.arrived();
}

void ConnectionMigration::adopt(MigrationMessage &message) {
    std::unique_ptr<Session> connection;
    if (message.ticket.fd && !catch_bad_alloc([&] { connection = unpack(message); }))
        connection.reset();
    Session *moved = connection.release();
    if (message.side == Side::theirs) {
        if (!moved) return;
        shard_.inbound.take(*moved);
        if (shard_.engine.closing()) return moved->close(too_late());
    } else {
        Peer *known = shard_.peers.find(message.id);
        Peer &peer = known ? *known : shard_.peers.take_in(std::move(message.spare));
        if (moved) peer.adopt_dialed(*moved);
        peer.adopt_pending_work(message.pending_work, message.uri);
        if (shard_.engine.closing()) return shard_.close(peer, too_late());
        if (!moved) return;
    }
    if (!moved->control().channel)
        return moved->close({XFER_ENOMEM, 0, 0, "the loop can't watch one more descriptor"});
    moved->control().on_hello(message.heard);
}

std::unique_ptr<Session> ConnectionMigration::unpack(MigrationMessage &message) {
    auto connection =
        std::make_unique<Session>(shard_, message.side, shard_.next_number(), message.sequence);
    connection->uri = message.uri;
    connection->listener_user = message.listener_user;
    connection->replied_at = message.replied_at;
    if (message.side == Side::ours) {
        connection->handshake.resume(message.said);
    } else if (auto hello = decode_hello(message.hello)) {  // not a lane
        connection->handshake.resume(*hello, message.hello, message.said);
        connection->sequence = hello->identity.sequence;
    }
    Lane &control = connection->control();
    auto remote = parse_uri(message.ticket.remote);  // a channel's own
    auto channel = shard_.transport_for(*remote)->adopt(std::move(message.ticket));
    if (channel) control.adopt(std::move(channel));
    return connection;
}

}  // namespace xfer
