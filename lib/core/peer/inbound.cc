// SPDX-License-Identifier: Apache-2.0
#include "core/peer/inbound.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/connection_limit.h"
#include "core/peer/connection_migration.h"
#include "core/peer/peer.h"
#include "core/peer/peer_table.h"

namespace xfer {

namespace {

Hello busy() {
    Hello message;
    message.kind = HelloKind::refuse;
    message.status = XFER_EOVERLOAD;
    message.retry_ms = kBusyMs;
    return message;
}

}  // namespace

Inbound::Inbound(ShardCore &shard) : shard_(shard) {}

Inbound::~Inbound() = default;

Result<std::unique_ptr<Acceptor>> Inbound::make_listener(const Uri &uri, uint32_t mode,
                                                         ListenTerms terms, size_t room) {
    Transport *transport = shard_.transport_for(uri);
    if (!transport)
        return Failure{XFER_EUNSUPPORTED, 0, 0, "no transport serves " + to_string(uri)};
    if (!places_) {
        refusal_ = encode_hello(busy());
        places_ = std::make_unique<HalfOpen>(half_open_places(), shard_.engine.random_u64());
    }
    auto acceptor = std::make_unique<Acceptor>(*this, std::move(terms));
    if (Failure why = acceptor->listen(*transport, uri, mode); why.status != XFER_OK) return why;
    const std::string bound = acceptor->bound();
    if (bound.size() >= room) return Failure{XFER_ENOSPC, 0, 0, "no room for " + bound};
    return acceptor;
}

// ---- half-open connections

bool Inbound::admits(const Source &source) {
    shard_.counters.accepts.add();
    if (places_->admits(source, shard_.now())) return true;
    shard_.counters.errors[-XFER_EOVERLOAD].add();
    report_pressure();
    return false;
}

bool Inbound::under_pressure() {
    return places_->under_pressure(shard_.now());
}

void Inbound::on_accept(std::unique_ptr<Channel> channel, const Source &source, uint64_t user) {
    if (shard_.closing()) return;
    if (places_->full()) shed();
    auto *half_open = new Session(shard_, Side::theirs, shard_.next_number(), 0);
    half_open->listener_user = user;
    connections_.push_back(*half_open);
    places_->enter(half_open->place, source, shard_.now());
    half_open->control().adopt(std::move(channel));
}

bool Inbound::shed() {
    HalfOpenPlace *oldest = places_->displace(shard_.now());
    if (!oldest) return false;
    shard_.counters.errors[-XFER_EOVERLOAD].add();
    Session &connection = oldest->connection;
    connection.in_turn([&] { connection.refuse(XFER_EOVERLOAD); });
    report_pressure();
    return true;
}

void Inbound::report_pressure() {
    if (!places_->report_due(shard_.now())) return;
    shard_.log().warn(
        "{} of {} half-open connections, {} of them from {}: more from there are turned away",
        places_->count(), places_->places(), places_->most(), to_string(places_->busiest()));
}

void Inbound::leave(HalfOpenPlace &place) {
    if (places_) places_->leave(place);
}

void Inbound::gone(Session &half_open) {
    report_refusal(half_open);
    Peer *candidate = std::exchange(half_open.candidate, nullptr);
    if (candidate) candidate->admission.lost(half_open);
    shard_.defer_delete(half_open);
    if (candidate) shard_.peers.review(*candidate);
}

// Who dials with another key learns it from our reply, and hangs up without a word.
void Inbound::report_refusal(const Session &half_open) {
    const bool hung_up = half_open.why.status == XFER_EPEERLOST && shard_.engine.self().keyed() &&
                         !half_open.handshake.said().empty();
    if (half_open.why.status != XFER_EAUTH && !hung_up) return;
    if (!shard_.log().enabled(XFER_LOG_INFO)) return;
    const auto left_out = refusals_.admit(shard_.now());
    if (!left_out) return;
    const std::string_view told = hung_up
                                      ? "was ended by the peer before it proved that it has the "
                                        "key; it may have another one"
                                      : "was refused";
    shard_.log().info("a connection from {} {}: {}", half_open.control().channel->remote(), told,
                      half_open.why.message);
    if (*left_out) shard_.log().info("{} more such connections were not logged", *left_out);
}

void Inbound::admit(Session &half_open, const Hello &proof, ConstBytes raw) {
    const Identity &identity = half_open.handshake.peer();
    ShardCore &home = shard_.engine.home(identity.id);
    if (&home != &shard_) return shard_.migration.move_half_open(half_open, home, raw);
    if (identity.id == shard_.engine.identity().id) return half_open.refuse(XFER_EPROTO);
    Peer &peer = shard_.peers.at(identity.id);
    if (!peer.admission.open_to(identity.incarnation)) {
        peer.admission.ask(half_open, proof.statement);
        return shard_.peers.review(peer);
    }
    half_open.proved = proof.statement;
    let_in(peer, half_open);
}

// The reply may have been said by another loop. Its time is that of the turn, no later than the
// reply; that of the ready one is the clock's, no earlier than the ready. So a later one is later.
void Inbound::let_in(Peer &peer, Session &half_open) {
    if (!peer.dialer.take_slot()) {
        half_open.refuse(XFER_EOVERLOAD);
        shard_.limit.make_room();
        return shard_.peers.review(peer);
    }
    half_open.leave_half_open();
    half_open.candidate = nullptr;
    half_open.ListNode<InUndecided>::unlink();
    peer.adopt(half_open);
    const Session *live = peer.live();
    const bool after_ready = live && half_open.replied_at > live->live_by();
    peer.hear({Input::proof, half_open.number, half_open.sequence,
               half_open.handshake.peer().incarnation, half_open.proved, after_ready});
}

void Inbound::admit_lane(Session &half_open, const Hello &message, ConstBytes raw) {
    ShardCore &home = shard_.engine.home(message.identity.id);
    if (&home != &shard_) return shard_.migration.move_half_open(half_open, home, raw);
    Peer *peer = shard_.peers.find(message.identity.id);
    Session *live = peer ? peer->live() : nullptr;
    const Identity &claimed = message.identity;
    const bool known = live && live->sequence == claimed.sequence &&
                       live->handshake.peer().incarnation == claimed.incarnation;
    const std::string_view why_not = known ? live->lanes.join(half_open, message, raw)
                                           : "a lane of a connection that is not here";
    if (!why_not.empty()) return half_open.refuse(XFER_EAUTH, why_not);
    half_open.control().state = Lane::State::down;
    half_open.close({kDuplicate, 0, 0, "joined"});
}

// Made before it is kept anywhere.
Inbound::Newcomer Inbound::newcomer(const Session &connection) {
    auto ep = Ref<Endpoint>::adopt(new Endpoint(shard_.engine, {}, shard_.engine.next_peer_word()));
    auto notice = std::make_unique<Notice>(*ep, XFER_EVENT_PEER, std::vector<uint8_t>());
    notice->event.tag = connection.listener_user;
    ep->inbound = true;
    ep->of_user.store(false);
    ep->shard.store(&shard_);
    return {std::move(ep), std::move(notice)};
}

void Inbound::post(Newcomer newcomer) {
    newcomer.ep->retain();  // the loop's
    shard_.outbox.post(std::move(newcomer.notice), XFER_OK, 0);
}

void Inbound::announce(Peer &peer, uint32_t flags) {
    Newcomer made = newcomer(*peer.live());
    Endpoint &ep = *made.ep;
    peer.handles.introduce(ep);
    peer.handles.attach(ep);
    ep.connections.add();
    post(std::move(made));
    peer.handles.report_up(ep, flags);
}

// It came back before the user was told of its end, which took its handle: it gets a new one.
void Inbound::announce_again(Peer &peer) {
    if (!shard_.closing() && peer.live() && peer.handles.empty()) announce(peer, XFER_RECONNECTED);
}

void Inbound::close(const Failure &why) {
    listeners_.clear();
    for (Session &half_open : connections_)
        half_open.close(why);
}

}  // namespace xfer
