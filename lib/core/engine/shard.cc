// SPDX-License-Identifier: Apache-2.0
#include "core/engine/shard.h"

#include <utility>

#include "core/engine/engine.h"
#include "core/peer/peer.h"
#include "core/transfer/direct_copy.h"
#include "core/transfer/flow.h"
#include "util/memory.h"

namespace xfer {

namespace {

// To read the clock takes as long as to copy what is shorter: of these one in so many is timed, and
// the others are counted as having taken as long.
constexpr uint64_t kUntimed = 4 << 10;
constexpr uint32_t kTimedEvery = 64;

}  // namespace

Shard::Shard(Engine &owner, Loop &loop_of, uint32_t number, OwnLoop *own)
    : ShardCore(owner, loop_of, number,
                {regions_, messages_, connections_, peers_, inbound_, limit_, migration_, staging_,
                 request_staging_, copier_}),
      whole_(owner),
      own_loop_(own),
      driven_by_polls_(owner.options().dispatch == XFER_DISPATCH_POLL &&
                       owner.options().io_threads == 0),
      dispatches_(owner.options().io_threads == 0),
      staging_(loop_of, copier_),
      request_staging_(loop_of, copier_),
      copier_(loop_of, owner.device(),
              std::min(kDeviceStallMs, owner.options().stall_ms) * kNsPerMs, device_stalls_),
      drain_limit_(*this) {
    loop.set_wake_sink(*this);
}

// Its loop may be gone already; begin_close() has let go of it.
Shard::~Shard() = default;

// ---- messages

bool Shard::post(Message &message) {
    return driven_by_polls_ ? visit(message, false) : enqueue(message);
}

bool Shard::post_brief(Message &message) {
    return visit(message, true);
}

// Behind what was posted before. The lock is tried, never waited for: who has it looks at the
// mailbox. A visitor does all that its message asks for, but for the events, and nothing else:
// where a turn is due already, or it holds back to one, it leaves all to that.
bool Shard::visit(Message &message, bool brief) {
    if (!own_loop_ || own_loop_->on_thread()) return enqueue(message);
    const EngineLoop::Inside inside(*own_loop_, std::try_to_lock);
    if (!inside) return enqueue(message);
    const bool due = own_loop_->has_deferred() || !mailbox_.empty();
    drain_mailbox();
    if (mailbox_.closed()) return false;
    held_back_ = false;
    {
        const Visited visited(*this, driven_by_polls_ || !due);
        message.arrive(*this);
    }
    // A poll is the next turn: what was sent ends there, and what was held back leaves with many.
    const bool leaves =
        driven_by_polls_ ? held_back_ && (!brief || ++held_ >= kHeldSubmits) : !held_back_ && !due;
    if (leaves) send_deferred();
    return true;
}

// Where the loop's driver tells the events, the end of the turn is left to it.
void Shard::send_deferred() noexcept {
    held_ = 0;
    const Visited visited(*this, true);
    own_loop_->run_deferred();
    if (std::exchange(put_off_, false)) loop.defer(*this);
}

// A callback is as good as a thread that submits: nothing else of the loop is under way. Where the
// loop's driver tells the events, it has to be woken for one, and does what was submitted until
// then together.
bool Shard::copy_now(const DirectCopy &copy, EventNode *told) {
    if (!own_loop_) return false;
    if (own_loop_->on_thread()) return outbox.dispatching() && copy_inside(copy, told);
    if (told && engine.events().dispatches()) return false;
    const auto held = own_loop_->try_hold();
    return held && copy_inside(copy, told);
}

// With nothing of its endpoint under way there is nothing to be ordered behind.
bool Shard::copy_inside(const DirectCopy &copy, EventNode *told) {
    Endpoint &ep = copy.ep;
    if (closing_ || draining_ || ep.shard.load() != this || ep.closing || !ep.peer) return false;
    if (ep.outstanding.load() != (told ? 1 : 0)) return false;
    Session *live = ep.peer->live();
    if (!live) return false;
    const bool brief = copy.piece.length <= kUntimed, timed = !brief || copies_ == 0;
    const uint64_t begun = timed ? loop.clock() : 0;
    if (!copy.run(*live)) return false;
    const uint64_t took = timed ? loop.clock() - begun : copy_ns_;
    if (brief) {
        copies_ = (copies_ + 1) % kTimedEvery;
        copy_ns_ = took;
    }
    copy.count(counters, took);
    if (told) {
        copy.tell(told->event);
        ep.outstanding.fetch_sub(1);
        outbox.hand_in(*told);
    }
    if (ep.room_wanted.load()) {
        tell_room(ep);
        loop.wake();
    }
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

// ---- operations, on their way to the peer of their endpoint and back to the user

void Shard::submit(Operation &operation) {
    Endpoint &ep = *operation.ep;
    if (ShardCore *home = ep.shard.load(); home != this) {
        operation.set_out();
        if (home->post(operation)) return;
    }
    const bool traveled = std::exchange(operation.travels, false);
    if (ep.closing || closing_ || !ep.peer)
        refuse_now(operation);
    else
        ep.peer->submit(operation);
    if (traveled) arrived();
}

// What came from another loop has held a drain; from here on this loop does, while it is busy.
void Shard::arrived() {
    check_drained();
    outbox.hand_over();
    engine.draining().release(*this);
}

// The endpoint was closed while this was on its way.
void Shard::refuse_now(Operation &operation) {
    operation.reset();
    operation.status = XFER_ECANCELED;
    operation.ended();
    operation.ep->outstanding.fetch_sub(1);
    outbox.post(operation);
}

void Shard::submit(Request &request) {
    Endpoint &ep = *request.ep;
    if (ShardCore *home = ep.shard.load(); home != this) {
        if (!std::exchange(request.travels, true)) engine.draining().hold();
        if (home->post(request)) return;
    }
    const bool traveled = std::exchange(request.travels, false);
    if (ep.closing || closing_ || !ep.peer)
        refuse_now(request);
    else
        ep.peer->requests.submit(request);
    if (traveled) arrived();
}

void Shard::refuse_now(Request &request) {
    request.event.status = XFER_ECANCELED;
    request.event.flags = XFER_FENCED;
    request.ep->outstanding.fetch_sub(1);
    outbox.post(request);
}

// The endpoint may have moved to another loop while this was under way: all of the endpoint is that
// loop's, also the end of this. While something of it is under way that loop does not end.
void Shard::finish(Operation &operation) {
    Endpoint &ep = *operation.ep;
    if (ShardCore *home = ep.shard.load(); home != this) {
        operation.over = true;
        operation.set_out();
        if (home->post(operation)) return;
    }
    const bool traveled = std::exchange(operation.travels, false);
    if (const auto kind = operation.kind()) {
        const uint64_t took = now() - operation.started;
        const uint64_t moved = operation.moved.get();
        const Status told = operation.event.status;  // of a receive maybe XFER_ETRUNC
        counters[*kind].end(told, moved, took);
        if (OpCounters *own = ep.counters.find(*kind)) own->end(told, moved, took);
    }
    ep.counters.pending.sub();
    auto *next = static_cast<Operation *>(ep.order.remove(operation));
    operation.settle(ep.first_failure);
    if (operation.tells())
        outbox.post(operation);
    else
        outbox.end_quietly(operation);
    if (next) next->flow->turn_has_come(*next);
    operation_ended(ep);
    if (traveled) arrived();
}

void Shard::operation_ended(Endpoint &ep) {
    ep.outstanding.fetch_sub(1);
    tell_room(ep);
    if (engine.slots().waiters.load()) loop.defer(*this);
    if (draining_ && ep.peer) ep.peer->drain();
    if (draining_) loop.defer(*this);
    less_busy(ep);
}

// Without memory the next one that ends tells it.
void Shard::tell_room(Endpoint &ep) {
    if (ep.room_wanted.load() && ep.room_wanted.exchange(false) &&
        !catch_bad_alloc([&] { outbox.notify(ep, XFER_EVENT_ROOM, {}); }))
        ep.room_wanted.store(true);
}

void Shard::less_busy(Endpoint &ep) {
    if (--ep.busy == 0 && ep.closing) finish_close(ep);
}

void Shard::left_adapters(const Flow &flow) {
    loop.defer(*this);  // it may have held a drain
    if (flow.busy() || flow.leaves_adapters()) return;
    for (Peer &peer : peers.all())
        if (&peer.flow == &flow) return peers.review(peer);
}

void Shard::explain_timeout(Operation &operation) {
    if (operation.left_behind) return;
    const Peer &peer = *operation.ep->peer;
    if (peer.live() || operation.status != XFER_OK) return;
    operation.blame(peer.dialer.why_down());
}

// ---- endpoints

void Shard::close(Endpoint &ep) {
    if (ep.closing) return;
    ep.closing = true;
    ep.ended.store(true);
    ++ep.busy;  // the last of them must not finish the close from inside end_all
    engine.submissions().end_all(*this, &ep, XFER_ECANCELED, TicketInput::end);
    messages.end_receives(ep);
    if (ep.peer) ep.peer->end_all(ep, XFER_ECANCELED);
    less_busy(ep);
}

// What was accepted before the end is told before it, also if it is still on its way to us.
void Shard::finish_close(Endpoint &ep) {
    if (ep.outstanding.load() > 0 || ep.receives.load() > 0 || ep.on_streams.load() > 0) {
        lingering_.push_back(ep);
        return loop.defer(*this);
    }
    Peer *peer = ep.peer;
    if (peer) peer->handles.remove(ep);
    ep.state.store(XFER_EP_CLOSED);
    if (ep.is_lent()) {
        if (peer) inbound.announce_again(*peer);
        if (ep.closed.load()) return ep.release();
        // The engine closes, and the user, who was told of no end, may be using the handle.
        return lent_.push_back(ep);
    }
    xfer_event_t &event = ep.closed_event.event;
    event.kind = XFER_EVENT_CLOSED;
    event.user = ep.user.load();
    event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    event.object = &ep;
    outbox.post(ep.closed_event);
}

// ---- what lives here

uint64_t Shard::keep_alive() {
    uint64_t next = kNever;
    for (Peer &peer : peers.all())
        next = std::min(next, peer.keep_alive(now()));
    return next;
}

void Shard::on_end_receives(Endpoint &ep) {
    messages.on_end_receives(ep);
}

void Shard::on_identity_known(Endpoint &ep) {
    engine.receive_queue().identity_known(ep);
}

void Shard::region_added(Region &region) {
    for (Peer &peer : peers.all())
        peer.added(region);
}

void Shard::region_ended(Region &region) {
    for (Peer &peer : peers.all())
        peer.retire(region);
}

void Shard::cancel_receives(const CancelScope &scope) {
    engine.receive_queue().cancel(scope);
}

void Shard::look_after_peers() {
    limit.wake();
}

void Shard::defer_delete(Connection &connection) {
    connection.ListNode<InHolder>::unlink();
    connection.peer = nullptr;
    deferred_deletes_.push_back(connection);
    loop.defer(*this);
}

// ---- events

void Shard::release_handles() {
    while (Endpoint *ep = lent_.pop_front())
        ep->release();
}

void Shard::run() {
    if (visited_ && dispatches_) {
        put_off_ = true;
        return;
    }
    held_ = 0;
    deferred_deletes_.destroy_all();
    peers.destroy_unused();
    List<Endpoint, Lingering> lingering;
    lingering.append(lingering_);
    while (Endpoint *ep = lingering.pop_front())
        finish_close(*ep);
    outbox.end_quiet();
    if (engine.slots().waiters.load()) limit.look_for_room();
    check_drained();
    outbox.deliver();
    check_ended();
}

// ---- time and the end

// The drain has taken as long as it may.
void Shard::on_timer(Timer &) {
    engine.draining().finish(XFER_ETIMEDOUT, *this);
}

void Shard::connected(Connection &connection) {
    connections.add(connection);
    limit.connected(*connection.peer);
    counters.connections.add();
    heartbeat.arm();
}

void Shard::disconnected(Connection &connection) {
    connections.remove(connection);
    limit.disconnected(*connection.peer);
    if (connection.left_idle()) limit.leaving(false);
    counters.connections.sub();
    counters.connection_ends.add();
}

void Shard::begin_close() {
    if (closing_) return;
    closing_ = true;
    heartbeat.stop();
    limit.stop();
    loop.disarm(drain_limit_);
    if (index == 0) engine.receive_queue().close();
    if (index == 0) engine.counters().close(*this);
    if (index == 0) regions.stop_leases();
    const Failure why{XFER_ECLOSED, 0, 0, "the engine closes"};
    inbound.close(why);
    for (Peer &peer : peers.all())
        close(peer, why);
    loop.defer(*this);
}

void Shard::begin_drain(uint64_t limit) {
    if (closing_) return;
    draining_ = true;
    inbound.close({XFER_ECLOSED, 0, 0, "the engine drains"});
    engine.submissions().end_all(*this, nullptr, XFER_ECLOSED, TicketInput::finish);
    for (Peer &peer : peers.all())
        peer.drain();
    if (limit) loop.arm(drain_limit_, now() + limit);
    loop.defer(*this);
}

void Shard::check_drained() {
    if (!draining_) return;
    bool busy = !inbound.empty() || (index == 0 && engine.receive_queue().copies()) ||
                engine.submissions().any_on(*this);
    for (Peer &peer : peers.all())
        busy |= peer.busy();
    if (busy == drain_held_) return;
    drain_held_ = busy;
    if (busy) return engine.draining().hold();
    outbox.hand_over();  // another loop may tell that all is drained
    engine.draining().release(*this);
}

void Shard::close(Peer &peer, const Failure &why) {
    for (Endpoint &ep : peer.handles.all())
        close(ep);
    if (Endpoint *candidate = peer.admission.candidate()) close(*candidate);
    peer.close(why);
}

void Shard::check_ended() {
    if (!closing_ || ended_ || !inbound.empty() || !outbox.empty()) return;
    if (index == 0 && engine.receive_queue().copies()) return;
    if (!lingering_.empty() || !peers.empty() || !deferred_deletes_.empty()) return;
    if (!regions.leave_adapters()) return;
    if (!mailbox_.close()) return loop.wake();
    ended_ = true;
    fabrics.clear();  // their devices are watched by this loop
    copier_.stop();   // as are its threads
    staging_.stop();
    request_staging_.stop();
    regions.clear();  // they hold the engine, which holds us
    whole_.shard_ended(*this);
}

}  // namespace xfer
