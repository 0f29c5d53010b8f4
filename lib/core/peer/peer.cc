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
    : shard(owner), flow(owner, messages, messages), redial_(*this), away_(*this) {
    for (const std::string &address : addresses)
        addresses_.add(address);
}

// One that was never used is destroyed on any thread, and after its loop.
Peer::~Peer() {
    if (redial_.armed()) shard.loop.disarm(redial_);
    if (away_.armed()) shard.loop.disarm(away_);
    if (dialing_) shard.limit.dial_ended(*this);
    if (unnamed_) unnamed_->peer = nullptr;
    give_slot();
}

void Peer::name(const EngineId &identity) {
    id = identity;
    state_.ours_smaller = shard.engine.identity().id < identity;
}

bool Peer::is_self() const {
    return id && *id == shard.engine.identity().id;
}

Failure Peer::why_down() const {
    if (reachable() || last_failure_.status != XFER_OK) return last_failure_;
    return {XFER_EUNREACHABLE, 0, 0, "no address is known, and no connection from it has come"};
}

void Peer::expect(const EngineId &identity) {
    name(identity);
    addresses_.mark_unverified();
}

bool Peer::take_slot() {
    if (!slot_) slot_ = shard.engine.slots().take();
    return slot_;
}

void Peer::give_slot() {
    if (!std::exchange(slot_, false)) return;
    shard.engine.slots().give();
    shard.limit.room_made();
}

void Peer::dial() {
    Session *attempt = nullptr;
    if (catch_bad_alloc([&] { is_self() ? connect_to_self() : begin_attempt(attempt); })) return;
    if (attempt) return attempt->close(no_memory());
    attempt_over();
    if (is_self())
        fail_waiting(no_memory());
    else
        attempt_failed(addresses_.next().uri, no_memory(), 0);
    give_slot();
}

void Peer::begin_attempt(Session *&attempt) {
    auto uri = parse_uri(addresses_.next().uri);
    const uint64_t sequence = shard.engine.next_sequence();
    auto *connection = new Session(shard, Side::ours, shard.next_number(), sequence);
    attempt = connection;
    shard.counters.connects.add();
    adopt(*connection);
    hear({Input::dial, connection->number, sequence, 0, {}});
    const Status status = uri ? connection->dial(*uri) : uri.error().status;
    if (status != XFER_OK) {
        const Failure &why = connection->why;
        connection->close({status, why.origin, why.native, why.message});
    }
}

void Peer::attempt_over() {
    if (!std::exchange(dialing_, false)) return;
    shard.limit.dial_ended(*this);
}

void Peer::close(const Failure &why) {
    shard.loop.disarm(redial_);
    shard.loop.disarm(away_);
    if (unnamed_) flow.end_all(unnamed_.get(), XFER_ECANCELED);
    for (Session &connection : connections_)
        connection.close(why);
    shard.peers.review(*this);
}

void Peer::set_states(uint32_t state) {
    for (Endpoint &ep : eps_)
        ep.state.store(state);
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
    for (const Output &output : outputs) {
        Session *connection = find(output.number);
        if (!connection || connection->closing()) continue;
        connection->in_turn([&] { perform(*connection, output); });
    }
}

void Peer::perform(Session &connection, const Output &output) {
    switch (output.kind) {
    case Output::send_hello:
        return connection.send_hello(statement_by(state_, output.number));
    case Output::send_proof:
        return connection.send_proof(statement_by(state_, output.number), requests_);
    case Output::send_ready:
        return connection.send_ready(statement_by(state_, output.number));
    case Output::live:
        return go_live(connection);
    case Output::probe:
        return connection.probe();
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
    return ep.is_by_address() && (!id || !ep.peer_id() || addresses_.leads_on(uri));
}

// Who is it that answered? True if the connection stays here, by the name that it gave.
bool Peer::resolve_identity(Session &connection, const Identity &identity, ConstBytes raw) {
    if (id == identity.id) return true;
    // All that a move takes is made before anything moves.
    std::unique_ptr<MigrationMessage> move = shard.migration.pack(connection, identity, raw, eps_);
    const std::string at = connection.uri;
    const Failure other{XFER_EIDENTITY, 0, 0, "another engine answered than the one expected"};
    bool stays = false;  // somebody with this address, which is one of several
    for (Endpoint &ep : eps_) {
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
        for (Endpoint &ep : eps_)
            if (ep.lists(at)) return true;
        return false;
    };
    if (!still_wanted()) addresses_.remove(at);
    if (move->pending_work.eps.empty() && !eps_.empty()) {
        // Who meant this address alone has been told; the others may have better ones.
        connection.close(stays || addresses_.empty() ? other : duplicate(other.message));
        return false;
    }
    hear({Input::lost, connection.number, 0, 0, {}});
    attempt_over();
    size_t held = 0;
    for ([[maybe_unused]] Session &each : connections_)
        ++held;
    if (held == 1) move->pending_work.slot = std::exchange(slot_, false);
    shard.migration.move_dialed(connection, std::move(move), raw);
    if (stays) attempt_failed(at, other, 0);
    if (wanted()) schedule_dial();  // those that meant other addresses
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
        attempt_over();
        if (connections_.empty()) give_slot();
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

void Peer::go_live(Session &connection) {
    if (live_ && live_ != &connection) went_down(*live_);  // the peer has given it up
    const Identity &identity = connection.handshake.peer();
    const Terms &terms = connection.handshake.peer_terms();
    if (!connection.uri.empty()) addresses_.add(connection.uri);  // it answered there
    // Who has the key is believed. Of others the word is good for dialing them, where another may
    // answer; but what is meant for an address goes to who answers there. And what is an
    // address on one host means something only to who came by such a one.
    const bool claimed = shard.engine.options().key.empty();
    const std::string came_by = connection.control().channel->remote();
    for (const std::string &uri : terms.listens)
        if (uri.starts_with("tcp:") || uri.substr(0, 4) == came_by.substr(0, 4))
            addresses_.learn(uri, claimed);
    shard.connected(connection);
    live_ = &connection;
    const bool known = last_incarnation_ == identity.incarnation;
    addresses_.alive(!known);
    wanted_since_ = 0;
    last_failure_ = {};
    shard.loop.disarm(redial_);
    shard.loop.disarm(away_);
    attempt_over();
    connection.go_live();
    const uint32_t flags = known ? XFER_RECONNECTED : last_incarnation_ ? XFER_RESTARTED : 0;
    const bool silent = left_idle_ && known;
    last_incarnation_ = identity.incarnation;
    left_idle_ = false;
    admission.up(identity.incarnation);
    for (Endpoint &ep : eps_) {
        const bool unheard = !ep.down_event;
        const uint32_t successor = succession(ep, identity.id);
        introduce(ep);
        if (ep.receives.load()) shard.messages.identity_known(ep);
        ep.state.store(XFER_EP_READY);
        ep.connections.add();
        if (unheard || !silent) report_up(ep, successor ? successor : flags);
    }
    if (eps_.empty()) shard.inbound.announce(*this, flags);
    shard.log().info("peer {}: connected to {}", short_name(identity.id),
                     connection.control().channel->remote());
    flow.attach(connection);
    ask_waiting();
    if (shard.draining()) drain();
}

// All lanes are down: nothing of it lands any more.
void Peer::ended(Session &connection) {
    const bool lived = connection.live();
    if (live_ == &connection) went_down(connection);
    connection.take_back(requests_);
    const Failure why = connection.why;
    const bool ours = connection.side == Side::ours;
    if (lived && !connection.left_idle() && why.status != kDuplicate)
        addresses_.connection_ended(connection.uri, shard.now() - connection.live_since(),
                                    shard.now(), shard.engine.random_u64());
    const uint64_t number = connection.number, retry_ns = connection.retry_ns();
    shard.defer_delete(connection);
    hear({Input::lost, number, 0, 0, {}});
    if (!ours) admission.lost(connection);
    // Also one that began at a peer of which only the address was known.
    if (ours && !lived) {
        attempt_over();
        if (!live_ && !shard.closing()) attempt_failed(connection.uri, why, retry_ns);
    }
    if (connections_.empty()) give_slot();
    ask_waiting();
    flow.pump();  // what one that was superseded has given back
    schedule_dial();
    shard.peers.review(*this);
}

void Peer::went_down(Session &connection) {
    connection.notifications.lost();  // while one who closed his last handle can be given another
    live_ = nullptr;
    flow.detach(connection);
    shard.disconnected(connection);
    left_idle_ = connection.left_idle();
    if (left_idle_) shard.loop.arm(away_, shard.now() + idle_limit(shard));
    connection.take_back(requests_);
    connection.messages.lost();
    shard.log().info("peer {}: connection ended: {}: {}",
                     short_name(connection.handshake.peer().id),
                     xfer_status_name(connection.why.status), connection.why.message);
    if (!left_idle_ && connection.why.status != kDuplicate && !catch_bad_alloc([&] {
            note_error(connection.why, connection.control().channel->remote());
        }))
        note_error(connection.why, {});
    if (!left_idle_) admission.down(connection.handshake.peer().incarnation);
    for (Endpoint &ep : eps_) {
        ep.state.store(XFER_EP_IDLE);
        if (!left_idle_) shard.outbox.notify_peer_down(ep, connection.why);
    }
}

// The user was not told of an idle end, since the peer comes back unnoticed. One that does not
// would leave its handle with us for ever, if nobody has kept it; or with a user who has it by
// XFER_ENGINE_OWN_PEERS, and closes it when the peer is down.
void Peer::stayed_away() {
    if (live_) return;
    if (wanted()) return shard.loop.arm(away_, shard.now() + idle_limit(shard));
    admission.down(last_incarnation_);
    for (Endpoint &ep : eps_)
        if (ep.is_lent() || ep.of_accept())
            shard.outbox.notify_peer_down(ep, {XFER_ECLOSED, 0, 0, "it stays away"});
}

// Who asked for no more than a connection hears why there is none once no address is left to try;
// but not of a peer that is only busy, or that has a better connection with us.
void Peer::attempt_failed(const std::string &uri, const Failure &why, uint64_t retry_ns) {
    last_failure_ = why;
    note_error(why, uri);
    addresses_.failed(uri, shard.now(), retry_ns, shard.engine.random_u64(),
                      why.status == XFER_EIDENTITY);
    shard.log().info("peer {}: attempt {} at {} failed: {}: {}", id ? short_name(*id) : "unknown",
                     addresses_.failures(), uri, xfer_status_name(why.status), why.message);
    if (!addresses_.empty() && addresses_.next().at <= shard.now())
        return;  // the next one, at once
    const Status status = why.status;
    const bool all_others = status == XFER_EIDENTITY && addresses_.all_of_others();
    if (status == XFER_EAUTH || status == XFER_EVERSION || status == XFER_EACCESS)
        return fail_waiting(why);
    if (all_others) fail_misled(why);
    if (status == kDuplicate || retry_ns) return;
    for (Request &request : requests_)
        if (request.type() == XFER_EVENT_CONNECT) finish(request, status);
}

void Peer::note_error(const Failure &why, std::string_view where) {
    last_error_ = {why, where, shard.now()};
    shard.last_error = last_error_;
}

void Peer::drain() {
    if (live_) live_->drain();
}

bool Peer::busy() {
    return !connections_.empty() || flow.busy() || !requests_.empty();
}

Endpoint *Peer::event_endpoint() {
    return eps_.empty() ? nullptr : &eps_.front();
}

Endpoint &Peer::unnamed() {
    if (!unnamed_) {
        unnamed_ = Ref<Endpoint>::adopt(new Endpoint(shard.engine, {}, 0));
        unnamed_->shard.store(&shard);
        unnamed_->peer = this;
    }
    return *unnamed_;
}

void Peer::report_gone(ConstBytes ref) {
    for (Endpoint &ep : eps_)
        shard.outbox.notify(ep, XFER_EVENT_REGION_GONE, {ref.begin(), ref.end()});
}

uint64_t Peer::keep_alive(uint64_t now) {
    return live_ ? live_->keep_alive(now) : kNever;
}

bool Peer::awaited() {
    for (const Endpoint &ep : eps_)
        if (ep.receives.load() > 0) return true;
    return false;
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
