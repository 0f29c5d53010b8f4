// SPDX-License-Identifier: Apache-2.0
// Operations on their way into a shard, to the peer of their endpoint, and out of it, to the user.
#include <utility>

#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "util/memory.h"

namespace xfer {

void Shard::submit(Transfer &transfer) {
    Endpoint &ep = *transfer.ep;
    if (Shard *home = ep.shard.load(); home != this) {
        transfer.set_out();
        if (home->post(transfer)) return;
    }
    const bool traveled = std::exchange(transfer.travels, false);
    if (ep.closing || closing_ || !ep.peer)
        refuse_now(transfer);
    else
        ep.peer->submit(transfer);
    if (traveled) arrived();
}

// What came from another loop has held a drain; from here on this loop does, while it is busy.
void Shard::arrived() {
    check_drained();
    outbox.hand_over();
    engine.draining().release(*this);
}

// The endpoint was closed while this was on its way.
void Shard::refuse_now(Transfer &transfer) {
    transfer.begin(now());
    transfer.event.status = transfer.status = XFER_ECANCELED;
    transfer.event.flags = XFER_FENCED;
    transfer.event.bytes = 0;
    if (transfer.list.entries())
        transfer.runs.assign(0, transfer.list.entries() - 1, XFER_ECANCELED);
    transfer.ep->outstanding.fetch_sub(1);
    outbox.post(transfer);
}

void Shard::submit(Request &request) {
    Endpoint &ep = *request.ep;
    if (Shard *home = ep.shard.load(); home != this)
        if (home->post(request)) return;
    if (!ep.closing && !closing_ && ep.peer) return ep.peer->submit(request);
    request.event.status = XFER_ECANCELED;
    request.event.flags = XFER_FENCED;
    ep.outstanding.fetch_sub(1);
    outbox.post(request);
}

void Shard::cancel(Batch &batch) {
    if (batch.flow) batch.flow->end(batch, XFER_ECANCELED);
}

// The endpoint may have moved to another loop while this was under way: all of the endpoint is that
// loop's, also the end of this. While something of it is under way that loop does not end.
void Shard::finish(Transfer &transfer) {
    Endpoint &ep = *transfer.ep;
    if (Shard *home = ep.shard.load(); home != this) {
        transfer.over = true;
        transfer.set_out();
        if (home->post(transfer)) return;
    }
    const bool traveled = std::exchange(transfer.travels, false);
    if (transfer.counted()) {
        const uint64_t took = now() - transfer.started;
        const uint64_t moved = transfer.moved.get();
        counters[transfer.kind()].end(transfer.status, moved, took);
        if (OpCounters *own = ep.counters.find(transfer.kind()))
            own->end(transfer.status, moved, took);
    }
    ep.counters.queued.sub();
    const bool pulls = transfer.role == Transfer::Role::pulls;
    Transfer *next = pulls ? nullptr : ep.order.remove(transfer);
    if (transfer.role == Transfer::Role::flushes) {
        ep.first_failure.tell(transfer.event, transfer.reason);
        transfer.explain(transfer.reason);
    } else if (!pulls) {
        ep.first_failure.note(transfer.event, transfer.reason);
    }
    if (transfer.quiet && transfer.event.status == XFER_OK)
        outbox.end_quietly(transfer);
    else
        outbox.post(transfer);
    if (next) next->flow->turn_has_come(*next);
    operation_ended(ep);
    if (traveled) arrived();
}

void Shard::operation_ended(Endpoint &ep) {
    ep.outstanding.fetch_sub(1);
    // Without memory the next one that ends tells it.
    if (ep.room_wanted.exchange(false) &&
        !catch_bad_alloc([&] { outbox.notify(ep, XFER_EVENT_ROOM, {}); }))
        ep.room_wanted.store(true);
    if (engine.slots().waiters.load()) loop.defer(*this);
    if (draining_ && ep.peer) ep.peer->drain();
    if (draining_) loop.defer(*this);
    if (--ep.busy == 0 && ep.closing) finish_close(ep);
}

void Shard::explain_timeout(Transfer &transfer) {
    if (transfer.left_behind) return;
    const Peer &peer = *transfer.ep->peer;
    if (peer.live() || transfer.status != XFER_OK) return;
    transfer.blame(peer.why_down());
}

}  // namespace xfer
