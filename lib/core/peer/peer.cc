// SPDX-License-Identifier: Apache-2.0
#include "core/peer/peer.h"

#include <algorithm>
#include <bit>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/connection_limit.h"
#include "core/peer/connection_migration.h"
#include "core/peer/inbound.h"
#include "core/peer/peer_table.h"
#include "core/peer/successor.h"
#include "transport/builtin.h"
#include "util/memory.h"
#include "wire/short_name.h"

namespace xfer {

namespace {

Failure duplicate(std::string_view why) {
    return {kDuplicate, 0, 0, why};
}

uint64_t idle_limit(ShardCore &shard) {
    return shard.engine.options().idle_ms * kNsPerMs;
}

}  // namespace

Peer::Peer(ShardCore &owner, const std::vector<std::string> &addresses)
    : shard(owner), dialer(*this, addresses), flow(owner, messages, messages) {}

// One that was never used is destroyed on any thread, and after its loop.
Peer::~Peer() {
    if (away_.armed()) shard.loop.disarm(away_);
}

void Peer::name(const EngineId &identity) {
    id = identity;
    state_.ours_smaller = shard.engine.identity().id < identity;
}

void Peer::send_waiting() {
    if (!live_) return dialer.schedule();
    if (shard.visited() && !live_->moves() && !messages.unanswered()) return flow.pump();
    shard.hold_back();
    live_->pump_soon();
}

bool Peer::is_self() const {
    return id && *id == shard.engine.identity().id;
}

void Peer::expect(const EngineId &identity) {
    name(identity);
    dialer.addresses.mark_unverified();
}

void Peer::close(const Failure &why) {
    dialer.pause();
    shard.loop.disarm(away_);
    if (handles.unnamed_made()) flow.end_all(handles.unnamed_made(), XFER_ECANCELED);
    for (Session &connection : connections_)
        connection.close(why);
    shard.peers.review(*this);
}

// ---- pending work

// An attempt that is under way may be about to succeed, or to a host that is gone.
void Peer::add_addresses(const Endpoint &ep, std::list<Address> &made) {
    const bool any = dialer.addresses.add(made, handles.claims(ep));
    if (live_) return;
    dialer.pause();
    for (Session &attempt : connections_)
        if (any) attempt.hurry();
    dialer.schedule();
}

void Peer::end_all(const Endpoint &ep, Status why) {
    flow.end_all(&ep, why);
    requests.end_all(ep, why);
}

void Peer::fail_waiting(const Failure &why) {
    flow.end_all(nullptr, why.status, why);
    requests.fail(nullptr, why);
}

// A handle by id alone waits until the peer comes, whatever others say of where it is. Where
// another engine answers, a handle by address that is still here came later than the answer: it is
// dialed.
void Peer::fail_misled(const Failure &why, bool refused) {
    const auto fail = [&](const Endpoint &ep) {
        flow.end_all(&ep, why.status, why);
        requests.fail(&ep, why);
    };
    for (Endpoint &ep : handles.all())
        if (!ep.waits_anywhere() && (refused || !follows(ep))) fail(ep);
    if (const Endpoint *unnamed = handles.unnamed_made()) fail(*unnamed);
}

void Peer::move_pending_work(Endpoint &ep, PeerMove &into) {
    flow.give_up(ep, into.operations);
    requests.move(ep, into.requests);
    ep.ListNode<InPeer>::unlink();
    ep.peer = nullptr;
    into.eps.push_back(ep);
}

// `at`: where it has answered them, also if it has another connection, which is kept.
void Peer::adopt_pending_work(PeerMove &from, const std::string &at) {
    // Without memory they are as if they had come a little earlier: before the connection, and by
    // the addresses that were known then.
    while (Endpoint *ep = from.eps.pop_front())
        if (!catch_bad_alloc([&] { handles.add(*ep); })) handles.attach(*ep);
    dialer.addresses.seen(at);
    // All are here before any of them goes on: what ends at once finds the others under way.
    flow.adopt(from.operations);
    requests.adopt(from.requests);
    requests.ask_waiting();
    flow.resume();
    dialer.schedule();
    if (std::exchange(from.slot, false)) dialer.adopt_slot();
}

// ---- connections

void Peer::adopt(Session &connection) {
    connection.ListNode<InHolder>::unlink();
    connection.peer = this;
    connections_.push_back(connection);
}

Session *Peer::find(uint64_t number) {
    for (Session &connection : connections_)
        if (connection.number == number) return &connection;
    return nullptr;
}

// The machine has gone on: every order is carried out, or ends the connection that it is about.
void Peer::hear(const Input &input) {
    auto [state, outputs] = step(std::move(state_), input);
    state_ = std::move(state);
    uint64_t told = 0;
    for (const Output &output : outputs) {
        Session *connection = find(output.number);
        if (!connection) continue;
        if (!connection->closing())
            connection->in_turn([&] { perform(*connection, output); });
        else if (output.kind == Output::supersede && !connection->lanes.lands())
            told = output.number;  // why it ends is known: nobody waits for its lanes
    }
    if (told) hear({Input::answered, told, 0, 0, {}});
}

void Peer::perform(Session &connection, const Output &output) {
    switch (output.kind) {
    case Output::send_hello:
        return connection.send_hello(statement_by(state_, output.number));
    case Output::send_proof:
        return connection.send_proof(statement_by(state_, output.number), requests.waiting());
    case Output::send_ready:
        return connection.send_ready(statement_by(state_, output.number));
    case Output::live:
        return go_live(connection);
    case Output::probe:
        return connection.apply({.kind = ConnectionInput::probe, .now = shard.now()});
    case Output::supersede:
        return connection.apply({.kind = ConnectionInput::supersede, .now = shard.now()});
    case Output::close:
        if (connection.side == Side::theirs && !connection.live())
            return connection.refuse(output.why);
        return connection.close({output.why, 0, 0, xfer_status_text(output.why)});
    }
}

// Who was opened for an address goes to who answers there, and of a list, to who answers first.
// Once that is known, who answers at another of the list is another engine: only where the
// peer has been seen, or is by what the user has said since, another engine is its successor. Whom
// nobody has answered yet waits here only because the peer was at one of its addresses.
bool Peer::follows(const Endpoint &ep, const std::string &uri) {
    return ep.is_by_address() && (!id || !ep.peer_id() || dialer.addresses.leads_on(uri));
}

bool Peer::follows(const Endpoint &ep) {
    if (!ep.is_by_address()) return false;
    bool any = !ep.peer_id();
    ep.each_listed([&](const std::string &uri) { any |= dialer.addresses.leads_on(uri); });
    return any;
}

// Who is it that answered? True if the connection stays here, by the name that it gave.
bool Peer::resolve_identity(Session &connection, const Identity &identity, ConstBytes raw) {
    if (id == identity.id) return true;
    // All that a move takes is made before anything moves.
    std::unique_ptr<MigrationMessage> move =
        shard.migration.pack(connection, identity, raw, handles.all());
    const std::string at = connection.uri;
    const Failure other = another_engine();
    dialer.misled(at, other);
    bool stays = false;  // somebody with this address, which is one of several
    for (Endpoint &ep : handles.all()) {
        if (ep.closing) continue;  // its end, which may wait for a receive, is told by this loop
        if (!ep.lists(at)) continue;
        if (follows(ep, at))
            move_pending_work(ep, move->pending_work);
        else if (ep.lists_several())
            stays = true;
        else
            end_all(ep, other.status);
    }
    const auto still_wanted = [&] {
        for (Endpoint &ep : handles.all())
            if (ep.lists(at)) return true;
        return false;
    };
    if (!still_wanted()) dialer.addresses.remove(at);
    const bool moves = !move->pending_work.eps.empty();
    // Now, and not at the end of this attempt: who comes meanwhile is dialed for.
    if ((!moves || stays) && dialer.addresses.all_of_others()) fail_misled(other, false);
    if (!moves && !handles.empty()) {
        // Who meant this address alone has been told; the others may have better ones.
        connection.close(stays || dialer.addresses.empty() ? other : duplicate(other.message));
        return false;
    }
    hear({Input::lost, connection.number, 0, 0, {}});
    dialer.attempt_over();
    size_t held = 0;
    for ([[maybe_unused]] Session &each : connections_)
        ++held;
    if (held == 1) move->pending_work.slot = dialer.pass_slot();
    shard.migration.move_dialed(connection, std::move(move), raw);
    if (stays) dialer.attempt_failed(at, other, 0);
    if (wanted()) dialer.schedule();  // those that meant other addresses
    shard.peers.review(*this);
    return false;
}

void Peer::adopt_dialed(Session &connection) {
    adopt(connection);
    state_.last_sequence = std::max(state_.last_sequence, connection.sequence);
    if (state_.attempts.full()) return connection.close({kDuplicate, 0, 0, "one of too many"});
    state_.attempts.push_back(
        {connection.number, Side::ours, Phase::hello_sent, connection.sequence, 0});
}

void Peer::hear_reply(Session &connection, const Hello &message, ConstBytes raw) {
    const Identity &identity = message.identity;
    const EngineCore::Name &own = shard.engine.identity();
    if (identity.id == own.id && identity.incarnation != own.incarnation)
        return connection.close({XFER_EIDENTITY, 0, 0, "another engine uses our identity"});
    if (!resolve_identity(connection, identity, raw)) return;
    if (is_self() && live_) return connection.close(duplicate("loopback"));
    if (is_self()) return connect_to_self();
    hear({Input::reply, connection.number, 0, identity.incarnation, message.statement});
}

void Peer::connect_to_self() {
    auto connection = std::make_unique<Session>(shard, Side::ours, shard.next_number(),
                                                shard.engine.next_sequence());
    Session &loopback = *connection;
    auto channel = builtin_loopback(shard.loop, shard.engine.options().transports);
    if (!channel) {
        const Failure why{XFER_EUNSUPPORTED, 0, 0, "loopback is not among our transports"};
        fail_waiting(why);
        for (Session &other : connections_)
            other.close(why);
        dialer.attempt_over();
        if (connections_.empty()) dialer.give_slot();
        return;
    }
    channel->set_sink(loopback.control());
    loopback.control().channel = std::move(channel);
    loopback.handshake.be_own_peer();
    for (Session &other : connections_)
        other.close(duplicate("loopback"));
    state_.attempts.clear();
    state_.attempts.push_back({loopback.number, Side::ours, Phase::ready, loopback.sequence,
                               shard.engine.identity().incarnation});
    adopt(*connection.release());
    loopback.in_turn([&] { go_live(loopback); });
}

// Who has the key is believed. Of others the word is good for dialing them, where another may
// answer; but what is meant for an address goes to who answers there. And what is an address on one
// host means something only to who came by such a one.
void Peer::learn_addresses(const Session &connection) {
    if (!connection.uri.empty()) dialer.addresses.add(connection.uri);  // it answered there
    const bool claimed = shard.engine.options().key.empty();
    const std::string came_by = connection.control().channel->remote();
    for (const std::string &uri : connection.handshake.peer_terms().listens)
        if (uri.starts_with("tcp:") || uri.substr(0, 4) == came_by.substr(0, 4))
            dialer.addresses.learn(uri, claimed);
}

void Peer::go_live(Session &connection) {
    if (live_ && live_ != &connection) went_down(*live_);  // the peer has given it up
    const Identity &identity = connection.handshake.peer();
    learn_addresses(connection);
    shard.connected(connection);
    live_ = &connection;
    const bool known = last_incarnation_ == identity.incarnation;
    dialer.addresses.alive(!known);
    shard.loop.disarm(away_);
    dialer.connected();
    connection.apply({.kind = ConnectionInput::live});
    const uint32_t flags = known ? XFER_RECONNECTED : last_incarnation_ ? XFER_RESTARTED : 0;
    const bool silent = left_idle_ && known;
    last_incarnation_ = identity.incarnation;
    left_idle_ = false;
    admission.up(identity.incarnation);
    handles.connected(flags, silent);
    if (handles.empty()) shard.inbound.announce(*this, flags);
    shard.log().info("peer {}: connected to {}", short_name(identity.id),
                     connection.control().channel->remote());
    flow.attach(connection);
    requests.ask_waiting();
    if (shard.draining()) drain();
}

// All lanes are down: nothing of it lands any more.
void Peer::ended(Session &connection) {
    const bool lived = connection.live();
    if (live_ == &connection) went_down(connection);
    connection.take_back(requests.waiting());
    const Failure why = connection.why;
    const bool ours = connection.side == Side::ours;
    if (lived && !connection.left_idle() && why.status != kDuplicate)
        dialer.addresses.connection_ended(connection.uri, shard.now() - connection.live_since(),
                                          shard.now(), shard.engine.random_u64());
    const uint64_t number = connection.number, retry_ns = connection.retry_ns();
    shard.defer_delete(connection);
    hear({Input::lost, number, 0, 0, {}});
    if (!ours) admission.lost(connection);
    // Also one that began at a peer of which only the address was known.
    if (ours && !lived) {
        dialer.attempt_over();
        if (!live_ && !shard.closing()) dialer.attempt_failed(connection.uri, why, retry_ns);
    }
    if (connections_.empty()) dialer.give_slot();
    requests.ask_waiting();
    flow.pump();  // what one that was superseded has given back
    dialer.schedule();
    shard.peers.review(*this);
}

void Peer::went_down(Session &connection) {
    connection.notifications.lost();  // while one who closed his last handle can be given another
    live_ = nullptr;
    flow.detach(connection);
    shard.disconnected(connection);
    left_idle_ = connection.left_idle();
    if (left_idle_) shard.loop.arm(away_, shard.now() + idle_limit(shard));
    connection.take_back(requests.waiting());
    connection.messages.lost();
    shard.log().info("peer {}: connection ended: {}: {}",
                     short_name(connection.handshake.peer().id),
                     xfer_status_name(connection.why.status), connection.why.message);
    if (!left_idle_ && connection.why.status != kDuplicate && !catch_bad_alloc([&] {
            note_error(connection.why, connection.control().channel->remote());
        }))
        note_error(connection.why, {});
    if (!left_idle_) admission.down(connection.handshake.peer().incarnation);
    handles.set_states(XFER_EP_IDLE);
    if (!left_idle_) handles.report_down(connection.why);
}

// An idle end was some time ago.
void Peer::on_timer(Timer &) {
    if (live_) return;
    if (wanted()) return shard.loop.arm(away_, shard.now() + idle_limit(shard));
    admission.down(last_incarnation_);
    handles.stayed_away();
}

void Peer::note_error(const Failure &why, std::string_view where) {
    last_error_ = {why, where, shard.now()};
    shard.last_error = last_error_;
}

void Peer::drain() {
    if (live_) live_->drain();
}

bool Peer::unused() {
    return handles.empty() && !admission.under_way() && !busy() && !dialer.waits();
}

bool Peer::busy() {
    return !connections_.empty() || wanted() || flow.leaves_adapters();
}

uint64_t Peer::keep_alive(uint64_t now) {
    return live_ ? live_->keepalive.check(now) : kNever;
}

void Peer::added(Region &region) {
    if (live_) live_->target_side.added(region);
}

// Also by one that another has taken the place of: until its channels are down it may still send.
void Peer::retire(Region &region) {
    for (Session &connection : connections_)
        connection.retire(region);
}

}  // namespace xfer
