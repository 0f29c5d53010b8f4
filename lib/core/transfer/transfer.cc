// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/transfer/flow.h"
#include "util/memory.h"

namespace xfer {

void Transfer::reset() {
    Operation::reset();
    next_ = {};
    stopped_ = answered_ = false;
    framed_ = awaits_until_ = 0;
    notification = Notification::none;
    runs.clear();
    for (Remote &remote : remotes)
        remote.refused = XFER_OK;
}

bool Transfer::start() {
    if (notifies)
        flow->notifications.hold(*this);
    else if (list.entries())
        flow->queue(*this);
    else
        return false;
    return true;
}

bool Transfer::begun() const {
    return inflight_count_ || moved.get() || !unsent_.empty() || notification != Notification::none;
}

bool Transfer::stays() {
    if (inflight_count_ && !left_behind) ep->counters.inflight.sub();
    return inflight_count_ || notification != Notification::none;
}

// ---- out

// Which path takes it is asked for each chunk: large transfers go by several at once, and one that
// has ended is no part of the choice.
bool Transfer::feed(Connection &connection) {
    while (!drawn()) {
        if (refuse(connection)) continue;
        const Cursor &next = unsent_.empty() ? next_ : unsent_.front().begin;
        const Access &access = remotes[list.remote(next)].access;
        if (await_export(connection, access)) return true;
        const Route route = connection.lanes.route_for(list.bytes(), access);
        if (!route.has_room()) return false;
        Op *op = nullptr;
        if (!catch_bad_alloc([&] { op = &draw(route.caps()); }))
            return flow->end(*this, XFER_ENOMEM), true;
        post(*op, route);
    }
    ListNode<InQueue>::unlink();
    try_complete();
    return true;
}

// A message that is long is worth the time in which adapters come to know it. Others go on
// meanwhile.
bool Transfer::await_export(const Connection &connection, const Access &access) {
    if (!access.target().message() || list.bytes() <= kSmall) return false;
    if (!connection.attached.awaits(access)) return false;
    if (!awaits_until_) awaits_until_ = flow->now() + kExportPatienceNs;
    if (flow->now() >= awaits_until_) return false;
    flow->await_export(*this, awaits_until_);
    return true;
}

void Transfer::post(Op &op, const Route &route) {
    op.last = unsent_.empty() && list.at_end(next_);
    if (notifies && op.dir == Dir::put) {
        op.remote.notification = notification_number;
        op.remote.notification_key = notify_key;
        const bool alone = op.last && inflight_count_ == 0 && !answered_ && status == XFER_OK;
        op.notifies = alone && op.bytes && route.lane().connection.handshake.agreed(kCountedNotify);
        op.notify_data = notify_data;
    }
    inflight_.push_back(op);
    if (inflight_count_++ == 0) count_inflight(true);
    route.post(op);
}

bool Transfer::refuse(const Connection &connection) {
    Op *unsent = unsent_.empty() ? nullptr : &unsent_.front();
    Remote &remote = remotes[list.remote(unsent ? unsent->begin : next_)];
    if (remote.refused == XFER_OK)
        remote.refused = connection.handshake.names(remote.owner, remote.incarnation);
    if (remote.refused == XFER_OK) return false;
    // What meant an address: the engine that was there before is gone.
    if (remote.refused == XFER_EIDENTITY && !left_behind && ep->is_by_address())
        remote.refused = XFER_ESTALE;
    if (status == XFER_OK) status = remote.refused;
    if (unsent) {
        fail_entries(*unsent, remote.refused);
        flow->shard.ops.give(*unsent_.pop_front());
        return true;
    }
    const uint64_t first = list.entry_index(next_);
    list.skip_remote(next_);
    fail_entries(first, list.entry_index(next_) - 1, remote.refused);
    return true;
}

// What was cut for a path that has ended is a range, and is cut again for the one that takes it.
Op &Transfer::draw(const Caps &caps) {
    ShardCore &shard = flow->shard;
    Op &op = shard.ops.take();
    op.checked = checked || shard.engine.options().checksum;
    op.max_bytes = caps.max_bytes;
    op.max_pieces = caps.max_pieces;
    if (unsent_.empty()) {
        cut(op, next_, shard.scratch);
        return op;
    }
    Op &range = unsent_.front();
    op.max_bytes = std::min(op.max_bytes, range.bytes);
    cut(op, range.begin, shard.scratch);
    range.bytes -= op.bytes;
    if (range.begin == range.end) shard.ops.give(*unsent_.pop_front());
    return op;
}

void Transfer::cut(Op &op, Cursor &from, std::vector<Piece> &scratch) {
    op.dir = list.dir(from);
    op.checked = op.checked && op.dir != Dir::atomic;
    op.notifies = false;
    op.remote = remotes[list.remote(from)].access;
    op.atomic = atomic;
    op.list = &list;
    op.device = list.device(from);
    op.begin = from;
    op.transfer = this;
    scratch.clear();
    op.bytes = static_cast<uint32_t>(list.draw(from, op.max_bytes, op.max_pieces, scratch));
    op.pieces = static_cast<uint32_t>(scratch.size());
    op.end = from;
}

// ---- answers

void Transfer::done(Op &op, Status answer) {
    detach(op);
    if (fencing && !op.canceled && inflight_count_) fence();
    const bool resumes = resumable() || !static_cast<Rail *>(op.rail)->lane.connection.closing();
    if (answer == XFER_EPEERLOST && !op.sent && !stopped_ && resumes) {
        // Only its notify waited. What has not begun is held, or waits for its turn.
        if (notification == Notification::begun && drawn()) ListNode<InQueue>::unlink();
        unsent_.push_back(op);
        if (!ListNode<InQueue>::linked()) flow->queue_first(*this);
        return;
    }
    progress = flow->now();  // not when it never left: a path may refuse it for ever
    answered_ = true;
    if (answer == XFER_OK && op.dir == Dir::atomic) {
        apply(op);
        flow->shard.ops.give(op);
        return try_complete();
    }
    // What was blanked on its way out has another sum than it left with.
    if (op.canceled && (answer == XFER_OK || answer == XFER_ECHECKSUM))
        fail_entries(op, status);  // some of it may have left as zeros
    else if (answer == XFER_OK)
        count(op);
    else
        fail(op, answer);
    flow->shard.ops.give(op);
    if (drawn()) try_complete();
}

// All of it was drawn. When the last answer is here its notification is closed, and when the peer
// holds that it has ended well.
void Transfer::try_complete() {
    const bool tells = notifies && status == XFER_OK && notification == Notification::begun;
    if (inflight_count_ && tells) return flow->notifications.await_left(*this);
    if (inflight_count_) return;
    if (!notifies || status != XFER_OK || notification == Notification::noted)
        return flow->complete(*this);
    if (notification == Notification::begun) flow->notifications.close(*this, XFER_OK);
}

void Transfer::count(const Op &op) {
    moved.add(op.bytes);
    if (op.dir == Dir::put && op.moved == Moved::frames) framed_ += op.bytes;
}

uint64_t Transfer::left() {
    uint64_t bytes = framed_;
    for (const Op &op : inflight_) {
        const bool as_it_was = op.left && !op.canceled && !op.unmapped;
        if (op.dir != Dir::put || !as_it_was || op.bytes == 0) return 0;
        bytes += op.bytes;
    }
    return bytes;
}

bool Transfer::told() {
    for (const Op &op : inflight_)
        hear_of_notify(op);
    return notification != Notification::begun;
}

void Transfer::hear_of_notify(const Op &op) {
    if (op.notifies && op.left && notification == Notification::begun)
        notification = Notification::closed;
}

void Transfer::detach(Op &op) {
    hear_of_notify(op);
    op.ListNode<InTransfer>::unlink();
    if (--inflight_count_ == 0) count_inflight(false);
}

// The endpoint's own are counted by the loop that it is on.
void Transfer::count_inflight(bool begins) {
    const auto count = [&](Counter &counter) { begins ? counter.add() : counter.sub(); };
    count(flow->shard.counters.inflight);
    if (!left_behind) count(ep->counters.inflight);
}

// Its deadline or its cancel came too late: what the owner says counts.
void Transfer::apply(const Op &op) {
    status = XFER_OK;
    origin = XFER_ORIGIN_NONE;
    native = 0;
    moved.set(op.bytes);
    before = op.before;
    if (result) std::memcpy(result, &op.before, sizeof op.before);
}

void Transfer::fail(const Op &op, Status why) {
    fail_entries(op, why);
    const bool lost = why == XFER_EPEERLOST;
    if (lost) {
        lose(static_cast<Rail *>(op.rail)->why_lost());
    } else if (status == XFER_OK) {
        status = why;
        origin = op.unmapped ? XFER_ORIGIN_OS : XFER_ORIGIN_PEER;
        if (op.unmapped && why == XFER_EIO) native = EFAULT;
        if (op.device_error) origin = XFER_ORIGIN_CUDA, native = op.device_error;
    }
    if (lost && op.sent && op.dir != Dir::get) maybe_applied = true;
    // So many bytes will not be applied, and its end says why.
    if (!lost && notification == Notification::closed) notification = Notification::begun;
    if (lost || op.unmapped)
        stop();
    else
        remotes[list.remote(op.begin)].refused = why;
}

void Transfer::fail_entries(const Op &op, Status why) {
    uint64_t last = list.entry_index(op.end);
    if (op.end.done == 0) --last;
    fail_entries(list.entry_index(op.begin), last, why);
}

// Where memory lacks to tell them apart, none of them is said to have ended well. There is always
// room for one run.
void Transfer::fail_entries(uint64_t first, uint64_t last, Status why) {
    if (catch_bad_alloc([&] { runs.add(first, last, why); })) return;
    runs.assign(0, list.entries() - 1, why);
}

// ---- the end

void Transfer::stop() {
    stopped_ = true;
    ListNode<InQueue>::unlink();
    while (Op *op = unsent_.pop_front()) {
        fail_entries(*op, XFER_ECANCELED);
        flow->shard.ops.give(*op);
    }
}

// Nobody waits for its answer any more.
void Transfer::abandon(Op &op) {
    fail_entries(op, status);
    op.transfer = nullptr;
    op.list = nullptr;
    detach(op);
}

void Transfer::withdraw() {
    stop();
    for (Op &op : inflight_) {
        const bool at_rest = static_cast<Rail *>(op.rail)->cancel(op);
        if (at_rest && op.dir == Dir::get) abandon(op);  // nothing lands at the owner
    }
    if (inflight_count_ == 0) return flow->complete(*this);
    fence();
}

// How long the owner's word is waited for counts from when no path uses local memory any more.
void Transfer::fence() {
    for (const Op &op : inflight_)
        if (!op.canceled) return flow->shard.loop.disarm(timer);
    await_fence();
}

void Transfer::fence_expired() {
    for (Op &op : inflight_) {
        if (op.sent) maybe_applied = true;  // else its path was lost before it left
        abandon(op);
    }
}

// A notification that was begun can't go on on another connection: its owner was told that it
// failed. All else does, as far as its chunks come back as never sent.
void Transfer::connection_lost(Connection &lost) {
    if (notification == Notification::none) return;
    const bool closed = told();
    bool touched = closed || answered_ || stopped_;
    for (const Op &op : inflight_)
        touched = touched || op.sent;  // what was posted and never left comes back
    if (closed) maybe_applied = true;
    notification = Notification::none;
    answered_ = false;
    if (touched) return end_lost(lost.why);
    ListNode<InQueue>::unlink();
    flow->notifications.hold(*this);
}

void Transfer::end_lost(const Failure &why) {
    lose(why);
    stop();
    if (inflight_count_ == 0) flow->complete(*this);
}

void Transfer::ended() {
    if (notification != Notification::none) flow->notifications.end(*this);
    if (!list.at_end(next_))
        fail_entries(list.entry_index(next_), list.entries() - 1, XFER_ECANCELED);
    Operation::ended();
    event.index = runs.empty() ? 0 : runs.first();
    if (event.kind == XFER_EVENT_ATOMIC) event.index = status == XFER_OK ? before : 0;
}

}  // namespace xfer
