// SPDX-License-Identifier: Apache-2.0
// How a shard receives connections: listeners, half-open connections until they have proved
// themselves, lanes that join, and the move to the loop that an identity falls to.
#include <algorithm>
#include <utility>

#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/migration.h"
#include "wire/short_name.h"

namespace xfer {

namespace {

Failure too_late() {
    return {XFER_ECLOSED, 0, 0, "the engine closes"};
}

Hello busy() {
    Hello message;
    message.kind = HelloKind::refuse;
    message.status = XFER_EOVERLOAD;
    message.retry_ms = kBusyMs;
    return message;
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Shard::make_listener(const Uri &uri, uint32_t mode,
                                                       ListenTerms terms, size_t room) {
    Transport *transport = transport_for(uri);
    if (!transport)
        return Failure{XFER_EUNSUPPORTED, 0, 0, "no transport serves " + to_string(uri)};
    if (!half_open_) {
        refusal_ = encode_hello(busy());
        half_open_ = std::make_unique<HalfOpen>(half_open_places(), engine.random_u64());
    }
    auto accepting = std::make_unique<Acceptor>(*this, std::move(terms));
    if (Failure why = accepting->listen(*transport, uri, mode); why.status != XFER_OK) return why;
    const std::string bound = accepting->bound();
    if (bound.size() >= room) return Failure{XFER_ENOSPC, 0, 0, "no room for " + bound};
    return accepting;
}

// ---- half-open connections

bool Shard::admits(const Source &source) {
    counters.accepts.add();
    if (half_open_->admits(source, now())) return true;
    counters.errors[-XFER_EOVERLOAD].add();
    report_pressure();
    return false;
}

bool Shard::under_pressure() {
    return half_open_->under_pressure(now());
}

void Shard::on_accept(std::unique_ptr<Link> link, const Source &source, uint64_t user) {
    if (closing_) return;
    if (half_open_->full()) shed();
    auto *half_open = new Connection(*this, Side::theirs, next_number(), 0);
    half_open->listener_user = user;
    half_open_connections_.push_back(*half_open);
    half_open_->enter(half_open->half_open_, source, now());
    Lane &control = half_open->control();
    control.link = std::move(link);
    control.link->set_sink(control);
}

bool Shard::shed() {
    HalfOpenPlace *oldest = half_open_->displace(now());
    if (!oldest) return false;
    counters.errors[-XFER_EOVERLOAD].add();
    Connection &connection = oldest->connection;
    connection.in_turn([&] { connection.refuse(XFER_EOVERLOAD); });
    report_pressure();
    return true;
}

void Shard::report_pressure() {
    if (!half_open_->report_due(now())) return;
    log().warn(
        "{} of {} half-open connections, {} of them from {}: more from there are turned away",
        half_open_->count(), half_open_->places(), half_open_->most(),
        to_string(half_open_->busiest()));
}

void Shard::leave_half_open(HalfOpenPlace &place) {
    if (half_open_) half_open_->leave(place);
}

void Shard::half_open_gone(Connection &half_open) {
    report_refusal(half_open);
    Peer *candidate = std::exchange(half_open.candidate, nullptr);
    if (candidate) candidate->admission.lost(half_open);
    defer_delete(half_open);
    if (candidate) peers.review(*candidate);
}

// Who dials with another key learns it from our reply, and hangs up without a word.
void Shard::report_refusal(const Connection &half_open) {
    const bool hung_up = half_open.why.status == XFER_EPEERLOST && engine.self().keyed() &&
                         !half_open.handshake.said().empty();
    if (half_open.why.status != XFER_EAUTH && !hung_up) return;
    if (!log().enabled(XFER_LOG_INFO)) return;
    const auto left_out = refusals_.admit(now());
    if (!left_out) return;
    const std::string_view told = hung_up
                                      ? "was ended by the peer before it proved that it has the "
                                        "key; it may have another one"
                                      : "was refused";
    log().info("a connection from {} {}: {}", half_open.lanes()[0]->link->remote(), told,
               half_open.why.message);
    if (*left_out) log().info("{} more such connections were not logged", *left_out);
}

void Shard::admit(Connection &half_open, const Hello &proof, ConstBytes raw) {
    const Identity &identity = half_open.handshake.peer();
    Shard &home = engine.home(identity.id);
    if (&home != this) return migrate_half_open(half_open, home, raw);
    if (identity.id == engine.identity().id) return half_open.refuse(XFER_EPROTO);
    Peer &peer = peers.at(identity.id);
    if (!peer.admission.open_to(identity.incarnation)) {
        peer.admission.ask(half_open, proof.statement);
        return peers.review(peer);
    }
    half_open.proved = proof.statement;
    let_in(peer, half_open);
}

void Shard::let_in(Peer &peer, Connection &half_open) {
    if (!peer.take_slot()) {
        half_open.refuse(XFER_EOVERLOAD);
        limit.make_room();
        return peers.review(peer);
    }
    half_open.leave_half_open();
    half_open.candidate = nullptr;
    half_open.ListNode<InUndecided>::unlink();
    peer.adopt(half_open);
    peer.hear({Input::proof, half_open.number, half_open.sequence,
               half_open.handshake.peer().incarnation, half_open.proved});
}

void Shard::admit_lane(Connection &half_open, const Hello &message, ConstBytes raw) {
    Shard &home = engine.home(message.identity.id);
    if (&home != this) return migrate_half_open(half_open, home, raw);
    Peer *peer = peers.find(message.identity.id);
    Connection *live = peer ? peer->live() : nullptr;
    const Identity &claimed = message.identity;
    const bool known = live && live->sequence == claimed.sequence &&
                       live->handshake.peer().incarnation == claimed.incarnation;
    const std::string_view why_not = known ? live->join_lane(half_open, message, raw)
                                           : "a lane of a connection that is not here";
    if (!why_not.empty()) return half_open.refuse(XFER_EAUTH, why_not);
    half_open.control().state = Lane::State::down;
    half_open.close({kDuplicate, 0, 0, "joined"});
}

// Made before it is kept anywhere.
Shard::Newcomer Shard::newcomer(const Connection &connection) {
    auto ep = Ref<Endpoint>::adopt(new Endpoint(engine, {}, engine.next_peer_word()));
    auto notice = std::make_unique<Notice>(*ep, XFER_EVENT_PEER, std::vector<uint8_t>());
    notice->event.tag = connection.listener_user;
    ep->inbound = true;
    ep->of_user.store(false);
    ep->shard.store(this);
    return {std::move(ep), std::move(notice)};
}

void Shard::post_event(Newcomer newcomer) {
    newcomer.ep->retain();  // the loop's
    outbox.post(std::move(newcomer.notice), XFER_OK, 0);
}

void Shard::announce(Peer &peer, uint32_t flags) {
    Newcomer made = newcomer(*peer.live());
    Endpoint &ep = *made.ep;
    peer.introduce(ep);
    peer.attach(ep);
    ep.connections.add();
    post_event(std::move(made));
    peer.tell_up(ep, flags);
}

// It came back before the user was told of its end, which took its handle: it gets a new one.
void Shard::announce_again(Peer &peer) {
    if (!closing_ && peer.live() && peer.endpoints().empty()) announce(peer, XFER_RECONNECTED);
}

// ---- moving between loops

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
    move->ticket = half_open.control().link->detach();
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
    const bool along = catch_bad_alloc([&] { move->ticket = connection.control().link->detach(); });
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
        half_open_connections_.push_back(*moved);
        if (engine.closing()) return moved->close(too_late());
    } else {
        Peer *known = peers.find(move.id);
        Peer &peer = known ? *known : peers.take_in(std::move(move.spare));
        if (moved) peer.adopt_dialed(*moved);
        peer.adopt_pending_work(move.pending_work, move.uri);
        if (engine.closing()) return close(peer, too_late());
        if (!moved) return;
    }
    if (!moved->control().link)
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
    auto remote = parse_uri(move.ticket.remote);  // a link's own
    control.link = transport_for(*remote)->adopt(std::move(move.ticket));
    if (control.link) control.link->set_sink(control);
    return connection;
}

}  // namespace xfer
