// SPDX-License-Identifier: Apache-2.0
#include "core/engine/shard.h"

#include <algorithm>

#include "core/engine/engine.h"
#include "transport/builtin.h"
#include "util/memory.h"

namespace xfer {

Shard::Shard(Engine &owner, Loop &own_loop, uint32_t number)
    : engine(owner),
      loop(own_loop),
      index(number),
      heartbeat_(*this),
      drain_limit_(*this),
      room_(*this) {
    scratch.reserve(kMaxPieces);
    loop.set_wake_sink(*this);
}

// Its loop may be gone already; begin_close() has let go of it.
Shard::~Shard() = default;

const Log &Shard::log() const {
    return engine.log();
}

// ---- messages

bool Shard::post(Message &message) {
    OwnLoop *turned = engine.turned();
    if (turned && !turned->on_thread()) {
        const EngineLoop::Inside inside(*turned, std::try_to_lock);
        if (inside) return arrive_now(message);
    }
    return enqueue(message);
}

// Behind what was posted before.
bool Shard::arrive_now(Message &message) {
    drain_mailbox();
    if (mailbox_.closed()) return false;
    message.arrive(*this);
    return true;
}

void Shard::on_wake() {
    drain_mailbox();
    check_ended();
}

void Shard::drain_mailbox() {
    MessageList messages;
    mailbox_.take(messages);
    while (Message *message = messages.pop_front())
        message->arrive(*this);
}

void Shard::open(Endpoint &ep) {
    if (closing_) return close(ep);
    std::unique_ptr<Peer> spare = std::move(ep.spare);
    Peer *known = ep.expected ? find_peer(*ep.expected) : find_peer(ep);
    if (known && catch_bad_alloc([&] { known->add(ep); })) return;
    if (!known && ep.expected) spare->expect(*ep.expected);
    take_in(std::move(spare)).attach(ep);
}

void Shard::close(Endpoint &ep) {
    if (ep.closing) return;
    ep.closing = true;
    ep.ended.store(true);
    ++ep.busy;  // the last of them must not finish the close from inside end_all
    end_receives(ep);
    if (ep.peer) ep.peer->end_all(ep, XFER_ECANCELED);
    if (--ep.busy == 0) finish_close(ep);
}

// What was accepted before the end is told before it, also if it is still on its way to us.
void Shard::finish_close(Endpoint &ep) {
    if (ep.outstanding.load() > 0 || ep.receives.load() > 0) {
        lingering_.push_back(ep);
        return loop.defer(*this);
    }
    Peer *peer = ep.peer;
    if (peer) peer->remove(ep);
    ep.state.store(XFER_EP_CLOSED);
    if (ep.is_lent()) {
        if (peer) announce_again(*peer);
        if (ep.closed.load()) return ep.release();
        // The engine closes, and the user, who was told of no end, may be using the handle.
        return lent_.push_back(ep);
    }
    xfer_event_t &event = ep.closed_event.event;
    event.kind = XFER_EVENT_CLOSED;
    event.user = ep.user.load();
    event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    event.object = &ep;
    post_event(ep.closed_event);
}

// ---- regions

void Shard::add(Region &region, RegionTable::Places &places) {
    regions_.add(region, places);
    if (index == 0 && region.lease_ms) lease(region);
    for (Peer &peer : peers_)
        peer.added(region);
}

void Shard::lease(Region &grant) {
    if (grant.lease_ms && !closing_)
        loop.arm(grant.lease, now() + grant.lease_ms * kNsPerMs);
    else
        loop.disarm(grant.lease);
}

// A peer may have got the ref, by the user's own means, before the region's message came to this
// loop. The engine knows it already, and it stays until its end has come here as a message, too.
Region *Shard::find_region(RegionId id) {
    Region *region = regions_.find(id.value);
    return region ? region : engine.find_entered(id);
}

Region *Shard::find_region(std::string_view name) {
    Region *region = regions_.find(name);
    if (!region) region = engine.find_entered(name);
    return region && region->access ? region : nullptr;
}

void Shard::served(Connection &connection, Dir dir, uint64_t bytes) {
    connection.touch();
    if (dir == Dir::atomic) return counters.served_atomic.add();
    (dir == Dir::put ? counters.served_put : counters.served_get).add(bytes);
}

// ---- what lives here

Transport *Shard::transport_for(const Uri &uri) {
    for (auto &transport : transports)
        if (transport->serves(uri)) return transport.get();
    return nullptr;
}

std::unique_ptr<Link> Shard::make_loopback(LinkSink &sink) {
    auto link = builtin_loopback(loop, engine.options().transports);
    if (link) link->set_sink(sink);
    return link;
}

Op &Shard::take_op() {
    if (free_ops_.empty()) {
        op_blocks_.push_back(std::make_unique<Op[]>(kLaneOps));
        for (uint32_t i = 0; i < kLaneOps; ++i)
            free_ops_.push_back(op_blocks_.back()[i]);
    }
    return *free_ops_.pop_front();
}

Peer *Shard::find_peer(const EngineId &id) {
    return by_id_.find(id);
}

Peer *Shard::find_peer(const Endpoint &ep) {
    Peer *found = nullptr;
    ep.each_listed([&](const std::string &uri) {
        const Address *address = found ? nullptr : by_address_.find(uri);
        if (address) found = address->peer;
    });
    return found;
}

Peer &Shard::take_in(std::unique_ptr<Peer> peer) {
    peers_.push_back(*peer);
    if (peer->id) by_id_.insert(*peer);
    peer->addresses_.enter(by_address_);
    return *peer.release();
}

Peer &Shard::peer_of(const EngineId &id) {
    if (Peer *known = find_peer(id)) return *known;
    auto peer = std::make_unique<Peer>(*this);
    peer->name(id);
    return take_in(std::move(peer));
}

void Shard::review(Peer &peer) {
    if (!peer.unused()) return;
    peer.ListNode<InShard>::unlink();
    peer.TreeNode<ById>::unlink();
    peer.addresses_.leave();
    dead_peers_.push_back(peer);
    loop.defer(*this);
}

void Shard::defer_delete(Connection &connection) {
    connection.ListNode<InHolder>::unlink();
    connection.peer = nullptr;
    deferred_deletes_.push_back(connection);
    loop.defer(*this);
}

// ---- events

void Shard::post_event(EventNode &node) {
    if (node.event.status < 0 && node.event.status > -64) counters.errors[-node.event.status].add();
    outbox_.push_back(node);
    ++outbox_count_;
    loop.defer(*this);
}

// Later, since whoever has ended it may still look at it.
void Shard::end_quietly(EventNode &node) {
    quiet_ends_.push_back(node);
    loop.defer(*this);
}

void Shard::deliver() {
    if (outbox_.empty()) return;
    if (!engine.dispatches_on(*this)) {
        engine.hand_over(outbox_, outbox_count_);
        outbox_count_ = 0;
        return;
    }
    for (uint32_t i = 0; i < kEventsPerTurn && !outbox_.empty(); ++i) {
        EventNode &node = *outbox_.pop_front();
        --outbox_count_;
        engine.dispatch(node);
    }
    if (!outbox_.empty()) loop.defer(*this);
}

void Shard::release_handles() {
    while (Endpoint *ep = lent_.pop_front())
        ep->release();
}

void Shard::hand_over_events() {
    if (!engine.dispatches_on(*this)) deliver();
}

void Shard::run() {
    deferred_deletes_.destroy_all();
    dead_peers_.destroy_all();
    List<Endpoint, Lingering> lingering;
    lingering.append(lingering_);
    while (Endpoint *ep = lingering.pop_front())
        finish_close(*ep);
    while (EventNode *node = quiet_ends_.pop_front())
        node->released();
    look_for_room();
    check_drained();
    deliver();
    check_ended();
}

void Shard::notify(Endpoint &ep, uint32_t type, std::vector<uint8_t> data, Status status,
                   uint32_t flags) {
    post_event(std::make_unique<Notice>(ep, type, std::move(data)), status, flags);
}

void Shard::post_event(std::unique_ptr<Notice> notice, Status status, uint32_t flags) {
    if (!notice->admit()) return;
    notice->event.status = status;
    notice->event.flags = flags;
    post_event(*notice.release());
}

void Shard::notify_peer_up(Endpoint &ep, const Identity &identity, const std::vector<uint8_t> &blob,
                           uint32_t flags) {
    std::vector<uint8_t> data(sizeof(xfer_id_t));
    std::copy(identity.id.begin(), identity.id.end(), data.begin());
    store(data.data() + 16, identity.incarnation);
    data.insert(data.end(), blob.begin(), blob.end());
    notify(ep, XFER_EVENT_PEER_UP, std::move(data), XFER_OK, flags);
}

void Shard::notify_peer_down(Endpoint &ep, const Failure &why) {
    const Status status = why.status < 0 ? why.status : XFER_EPEERLOST;
    if (!ep.down_event) return;
    ep.down_event->blame(why);
    post_event(std::move(ep.down_event), status, 0);
}

// ---- time and the end

void Shard::on_timer(Timer &timer) {
    if (&timer == &drain_limit_) return engine.draining().finish(XFER_ETIMEDOUT, *this);
    if (&timer == &room_) return dial_next();
    // A loop that was kept from its work heard nobody meanwhile; the silence was its own.
    if (now() > timer.due + look_every(heartbeat())) listens_since_ = now();
    heartbeat_asked_ = false;
    loop.arm(heartbeat_, now() + heartbeat_step());
    uint64_t next = kNever;
    for (Peer &peer : peers_)
        next = std::min(next, peer.keep_alive(now()));
    if (heartbeat_asked_) return;
    if (next == kNever)
        loop.disarm(heartbeat_);
    else
        loop.arm(heartbeat_, next);
}

uint64_t Shard::heartbeat() const {
    return engine.options().heartbeat_ms * kNsPerMs;
}

uint64_t Shard::heartbeat_step() const {
    return std::min(look_every(heartbeat()), engine.options().idle_ms * kNsPerMs);
}

// Nobody was listened for while all rested.
void Shard::arm_heartbeat() {
    heartbeat_asked_ = true;
    const uint64_t due = now() + heartbeat_step();
    if (closing_ || (heartbeat_.armed() && heartbeat_.due <= due)) return;
    listens_since_ = now();
    loop.arm(heartbeat_, due);
}

void Shard::connected(Connection &connection) {
    live_.emplace(connection.number, &connection);
    store_.insert(*connection.peer);
    counters.connections.add();
    arm_heartbeat();
}

void Shard::disconnected(Connection &connection) {
    live_.erase(connection.number);
    ends_[connection.number % kRecentEnds] = {connection.number, connection.why.origin,
                                              connection.why.native};
    store_.remove(*connection.peer);
    if (connection.left_idle()) leaving(false);
    counters.connections.sub();
    counters.connection_ends.add();
}

Connection *Shard::find_live(uint64_t number) const {
    const auto at = live_.find(number);
    return at == live_.end() ? nullptr : at->second;
}

void Shard::begin_close() {
    if (closing_) return;
    closing_ = true;
    listeners_.clear();
    loop.disarm(heartbeat_);
    loop.disarm(drain_limit_);
    loop.disarm(room_);
    if (index == 0) engine.receive_queue().close();
    if (index == 0) engine.counters().close(*this);
    if (index == 0) regions_.each([this](Region &region) { loop.disarm(region.lease); });
    const Failure why{XFER_ECLOSED, 0, 0, "the engine closes"};
    for (Connection &half_open : half_open_connections_)
        half_open.close(why);
    for (Peer &peer : peers_)
        close(peer, why);
    loop.defer(*this);
}

void Shard::begin_drain(uint64_t limit) {
    if (closing_) return;
    draining_ = true;
    listeners_.clear();
    for (Connection &half_open : half_open_connections_)
        half_open.close({XFER_ECLOSED, 0, 0, "the engine drains"});
    for (Peer &peer : peers_)
        peer.drain();
    if (limit) loop.arm(drain_limit_, now() + limit);
    loop.defer(*this);
}

void Shard::check_drained() {
    if (!draining_) return;
    bool busy = !half_open_connections_.empty();
    for (Peer &peer : peers_)
        busy |= peer.busy();
    if (busy == drain_held_) return;
    drain_held_ = busy;
    if (busy) return engine.draining().hold();
    hand_over_events();  // another loop may tell that all is drained
    engine.draining().release(*this);
}

void Shard::close(Peer &peer, const Failure &why) {
    for (Endpoint &ep : peer.endpoints())
        close(ep);
    if (Endpoint *candidate = peer.admission.candidate()) close(*candidate);
    peer.close(why);
}

void Shard::check_ended() {
    if (!closing_ || ended_ || !half_open_connections_.empty() || !outbox_.empty()) return;
    if (!quiet_ends_.empty()) return;
    if (!lingering_.empty()) return;
    if (!peers_.empty() || !dead_peers_.empty() || !deferred_deletes_.empty()) return;
    if (!mailbox_.close()) return loop.wake();
    ended_ = true;
    regions_.clear();  // they hold the engine, which holds us
    engine.shard_ended(*this);
}

}  // namespace xfer
