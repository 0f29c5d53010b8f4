// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/flow.h"

#include <algorithm>
#include <utility>

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/successor.h"
#include "util/memory.h"

namespace xfer {

Flow::Queue &Flow::queue_of(Transfer &transfer) {
    return transfer.list.bytes() <= kSmall ? small_ : bulk_;
}

void Flow::submit(Transfer &transfer) {
    transfer.flow = this;
    transfer.begin(shard_.now());
    ++transfer.ep->busy;
    if (transfer.role != Transfer::Role::pulls && transfer.counted()) {
        shard_.counters[transfer.kind()].submitted.add();
        transfer.ep->counters.find(transfer.kind())->submitted.add();
    }
    shard_.counters.queued.add();
    transfer.ep->counters.queued.add();
    if (transfer.role != Transfer::Role::pulls) transfer.ep->order.add(transfer);
    all_.push_back(transfer);
    shard_.cancel_index().add(transfer);
    shard_.heartbeat.arm();
    if (transfer.waits_turn)
        arm(transfer);
    else
        start(transfer);
}

void Flow::start(Transfer &transfer) {
    const bool moves = transfer.role == Transfer::Role::moves && !transfer.notifies;
    const bool nothing = moves && transfer.list.entries() == 0;
    if (nothing || transfer.role == Transfer::Role::flushes) return complete(transfer);
    enqueue(transfer);
    arm(transfer);
}

// One that has nothing to do ends at once, and so the turn of the next one comes: in a loop, not
// ever deeper.
void Flow::turn_has_come(Transfer &transfer) {
    transfer.progress = shard_.now();
    ready_.push_back(transfer);
    start_ready();
    if (connection_) connection_->pump_soon();  // what it waited for may have been another flow's
}

void Flow::start_ready() {
    if (std::exchange(starting_, true)) return;
    while (Transfer *next = ready_.pop_front())
        start(*next);
    starting_ = false;
}

void Flow::enqueue(Transfer &transfer) {
    if (transfer.role == Transfer::Role::sends) return messages.enqueue(transfer);
    (transfer.notifies ? held_ : queue_of(transfer)).push_back(transfer);
}

// A message waits for the peer's application as long as its sender says.
uint64_t Flow::limit(const Transfer &transfer) const {
    if (transfer.waits_turn) return transfer.deadline;  // those that it waits for have limits
    const bool patient = transfer.role == Transfer::Role::sends && transfer.deadline != kNever;
    if (patient && connection_) return transfer.deadline;
    const uint64_t stall = transfer.progress + shard_.engine.options().stall_ms * kNsPerMs;
    return std::min(transfer.deadline, stall);
}

void Flow::arm(Transfer &transfer) {
    if (const uint64_t due = limit(transfer); due != kNever) shard_.loop.arm(transfer.timer, due);
}

uint64_t Flow::now() const {
    return shard_.now();
}

void Flow::on_transfer_timer(Transfer &transfer) {
    if (transfer.fencing) {
        for (Op &op : transfer.inflight) {
            if (op.sent) transfer.maybe_applied = true;  // else its channel was lost before it left
            orphan(transfer, op);
        }
        if (transfer.role == Transfer::Role::sends) transfer.maybe_applied = true;
        return complete(transfer);
    }
    if (shard_.now() < limit(transfer)) return arm(transfer);
    transfer.flow->shard_.explain_timeout(transfer);
    end(transfer, XFER_ETIMEDOUT);
}

void Flow::attach(Connection &connection) {
    connection_ = &connection;
    pump();
}

void Flow::detach(Connection &lost) {
    connection_ = nullptr;
    notify_sender_ = {};
    messages.reset();
    end_each([](const Transfer &each) { return each.letter.number != 0 || each.notification != 0; },
             [&](Transfer &each) { recover(each, lost); });
}

// What was begun on this connection can't go on with another: its owner was told that it failed.
void Flow::recover(Transfer &transfer, Connection &lost) {
    if (transfer.letter.number) return lose(transfer, lost);
    bool touched = transfer.closed_notification || transfer.answered || transfer.stopped;
    for (const Op &op : transfer.inflight)
        touched = touched || op.sent;  // what was posted and never left comes back
    if (transfer.closed_notification) transfer.maybe_applied = true;
    transfer.begin_anew();
    transfer.ListNode<InQueue>::unlink();
    if (!touched) return held_.push_back(transfer);
    transfer.lose(lost.why);
    stop(transfer);
    if (transfer.inflight_count == 0) complete(transfer);
}

void Flow::pump() {
    if (!connection_ || !connection_->usable()) return;
    if (!all_.empty()) connection_->lanes.open_local_path();
    const bool fresh = connection_->takes_new();
    if (fresh) begin_notifications();
    if (fresh) messages.pump(*connection_);
    const auto may = [&](Queue &queue) {
        return !queue.empty() && connection_ && (fresh || queue.front().begun());
    };
    for (Queue *queue : {&small_, &bulk_})
        while (may(*queue) && feed(queue->front())) {}
    connection_->flush();
}

bool Flow::quiet() {
    for (Transfer &transfer : all_)
        if (transfer.begun()) return false;
    return true;
}

// Which path takes it is asked for each chunk: large transfers go by several at once, and one that
// has ended is no part of the choice.
bool Flow::feed(Transfer &transfer) {
    while (!transfer.drawn()) {
        if (refuse(transfer)) continue;
        Lane &lane = connection_->lanes.lane_for(transfer.list.bytes());
        if (!lane.has_room()) return false;
        Op *op = nullptr;
        if (!catch_bad_alloc([&] { op = &next(transfer, lane.rail.caps); }))
            return end(transfer, XFER_ENOMEM), true;
        if (transfer.notifies && op->dir == Dir::put) {
            op->remote.notification = transfer.notification;
            op->remote.notification_key = transfer.notify_key;
        }
        transfer.inflight.push_back(*op);
        if (transfer.inflight_count++ == 0) count_inflight(transfer, true);
        op->last = transfer.unsent.empty() && transfer.list.at_end(transfer.next);
        lane.post(*op);
    }
    transfer.ListNode<InQueue>::unlink();
    try_complete(transfer);
    return true;
}

// The endpoint's own are counted by the loop that it is on.
void Flow::count_inflight(const Transfer &transfer, bool begins) {
    const auto count = [&](Counter &counter) { begins ? counter.add() : counter.sub(); };
    count(shard_.counters.inflight);
    if (!transfer.left_behind) count(transfer.ep->counters.inflight);
}

// True if something was skipped.
bool Flow::refuse(Transfer &transfer) {
    Op *unsent = transfer.unsent.empty() ? nullptr : &transfer.unsent.front();
    Remote &remote = transfer.remotes[transfer.list.remote(unsent ? unsent->begin : transfer.next)];
    if (remote.refused == XFER_OK)
        remote.refused = connection_->refusal(remote.owner, remote.incarnation);
    if (remote.refused == XFER_OK) return false;
    // What meant an address: the engine that was there before is gone.
    if (remote.refused == XFER_EIDENTITY && !transfer.left_behind && is_by_address(*transfer.ep))
        remote.refused = XFER_ESTALE;
    if (transfer.status == XFER_OK) transfer.status = remote.refused;
    if (unsent) {
        transfer.fail_entries(*unsent, remote.refused);
        shard_.ops.give(*transfer.unsent.pop_front());
        return true;
    }
    const uint64_t first = transfer.list.entry_index(transfer.next);
    transfer.list.skip_remote(transfer.next);
    transfer.fail_entries(first, transfer.list.entry_index(transfer.next) - 1, remote.refused);
    return true;
}

// What was cut for a path that has ended is a range, and is cut again for the one that takes it.
Op &Flow::next(Transfer &transfer, const Caps &caps) {
    Op &op = shard_.ops.take();
    op.checked = transfer.checked || shard_.engine.options().checksum;
    op.max_bytes = caps.max_bytes;
    op.max_pieces = caps.max_pieces;
    if (transfer.unsent.empty()) {
        transfer.cut(op, transfer.next, shard_.scratch);
        return op;
    }
    Op &range = transfer.unsent.front();
    op.max_bytes = std::min(op.max_bytes, range.bytes);
    transfer.cut(op, range.begin, shard_.scratch);
    range.bytes -= op.bytes;
    if (range.begin == range.end) shard_.ops.give(*transfer.unsent.pop_front());
    return op;
}

void Flow::done(Op &op, Status status) {
    auto *transfer = static_cast<Transfer *>(op.transfer);
    if (!transfer) return shard_.ops.give(op);
    op.ListNode<InTransfer>::unlink();
    if (--transfer->inflight_count == 0) count_inflight(*transfer, false);
    if (transfer->fencing && !op.canceled && transfer->inflight_count) fence(*transfer);
    // On another connection these can't go on.
    const bool begun = static_cast<Rail *>(op.rail)->lane.connection.closing() &&
                       (transfer->notifies ? transfer->answered : transfer->letter.number != 0);
    if (status == XFER_EPEERLOST && !op.sent && !transfer->stopped && !begun) {
        transfer->unsent.push_back(op);
        if (!transfer->ListNode<InQueue>::linked()) queue_of(*transfer).push_front(*transfer);
        return;
    }
    transfer->progress = shard_.now();  // not when it never left: a channel may refuse it for ever
    transfer->answered = true;
    if (status == XFER_OK && op.dir == Dir::atomic) {
        transfer->apply(op);
        shard_.ops.give(op);
        return try_complete(*transfer);
    }
    // What was blanked on its way out has another sum than it left with.
    if (op.canceled && (status == XFER_OK || status == XFER_ECHECKSUM))
        transfer->fail_entries(op, transfer->status);  // some of it may have left as zeros
    else if (status == XFER_OK)
        transfer->moved.add(op.bytes);
    else
        fail(*transfer, op, status);
    shard_.ops.give(op);
    if (transfer->drawn()) try_complete(*transfer);
}

// ---- notifications

void Flow::begin_notifications() {
    while (!held_.empty() && notify_sender_.room()) {
        Transfer &transfer = held_.front();
        if (!catch_bad_alloc([&] { transfer.notification = notify_sender_.begin(transfer); })) {
            end(transfer, XFER_ENOMEM);
            continue;
        }
        transfer.ListNode<InQueue>::unlink();
        // One without data is said at once: what has begun is told to the owner, even if canceled.
        if (transfer.drawn())
            try_complete(transfer);
        else
            queue_of(transfer).push_back(transfer);
    }
}

void Flow::close_notification(Transfer &transfer, Status status) {
    transfer.closed_notification = true;
    Frame frame;
    frame.type = FrameType::notify;
    frame.seq = transfer.notification;
    frame.region = transfer.notify_key;
    frame.status = status;
    ConstBytes data;
    if (status == XFER_OK) data = transfer.notify_data;
    frame.length = static_cast<uint32_t>(data.size());
    connection_->send(frame, data);
}

// All of it was drawn. When the last answer is here its notification is closed, and when the peer
// holds that it has ended well.
void Flow::try_complete(Transfer &transfer) {
    if (transfer.inflight_count) return;
    if (!transfer.notifies || transfer.status != XFER_OK || transfer.noted)
        return complete(transfer);
    if (!transfer.closed_notification) close_notification(transfer, XFER_OK);
}

void Flow::noted(const Frame &frame) {
    Transfer *transfer = frame.seq ? notify_sender_.find(frame.seq) : nullptr;
    // Of one that is over and forgotten, it comes late.
    const bool sound = transfer ? transfer->closed_notification : notify_sender_.begun(frame.seq);
    if (!notify_sender_.had(frame.region) || !sound)
        return connection_->close({XFER_EPROTO, 0, 0, "the peer notes what it was not told"});
    if (transfer) {
        transfer->noted = true;
        transfer->progress = shard_.now();
        if (transfer->drawn()) try_complete(*transfer);
    }
    if (connection_) pump();
}

// ---- the end

void Flow::fail(Transfer &transfer, Op &op, Status status) {
    transfer.fail(op, status);
    if (status == XFER_EPEERLOST && op.sent && op.dir != Dir::get) transfer.maybe_applied = true;
    if (status == XFER_EPEERLOST || op.unmapped)
        stop(transfer);
    else
        transfer.remotes[transfer.list.remote(op.begin)].refused = status;
}

// Nothing more of it is drawn; what was drawn and never left is withdrawn.
void Flow::stop(Transfer &transfer) {
    transfer.stopped = true;
    transfer.ListNode<InQueue>::unlink();
    while (Op *op = transfer.unsent.pop_front()) {
        transfer.fail_entries(*op, XFER_ECANCELED);
        shard_.ops.give(*op);
    }
}

void Flow::orphan(Transfer &transfer, Op &op) {
    transfer.fail_entries(op, transfer.status);
    op.ListNode<InTransfer>::unlink();
    op.transfer = nullptr;
    op.list = nullptr;
    if (--transfer.inflight_count == 0) count_inflight(transfer, false);
}

void Flow::end(Transfer &transfer, Status why) {
    if (transfer.fencing) return;
    stop(transfer);
    if (transfer.status == XFER_OK) transfer.status = why;
    transfer.fencing = true;
    if (transfer.role == Transfer::Role::sends && transfer.letter.number && connection_)
        return messages.withdraw(*connection_, transfer);
    for (Op &op : transfer.inflight) {
        const bool quiet = static_cast<Rail *>(op.rail)->cancel(op);
        if (quiet && op.dir == Dir::get) orphan(transfer, op);  // nothing lands at the owner
    }
    if (transfer.inflight_count == 0) return complete(transfer);
    fence(transfer);
}

// How long the owner's word is waited for counts from when no channel uses local memory any more.
void Flow::fence(Transfer &transfer) {
    for (const Op &op : transfer.inflight)
        if (!op.canceled) return shard_.loop.disarm(transfer.timer);
    shard_.loop.arm(transfer.timer, shard_.now() + kFenceNs);
}

// Collected first, and ended from there while all stay in `all_`: an end calls out, and whoever is
// called finds the flow as busy as it is. What ends by another's end leaves by itself.
template <typename Meant, typename End>
void Flow::end_each(Meant meant, End end) {
    XFER_CHECK(ending_.empty());
    for (Transfer &transfer : all_)
        if (meant(transfer)) ending_.push_back(transfer);
    while (Transfer *transfer = ending_.pop_front())
        end(*transfer);
}

void Flow::end_all(const Endpoint *ep, Status why, const Failure &cause) {
    end_each([&](const Transfer &each) { return (!ep || each.ep == ep) && !each.fencing; },
             [&](Transfer &each) {
                 each.blame(cause);
                 end(each, why);
             });
}

// What was begun on a connection of ours ends here, and is told where its endpoint is by then.
void Flow::give_up(const Endpoint &ep, List<Transfer, InFlow> &out) {
    for (Transfer &transfer : all_) {
        if (transfer.ep != &ep) continue;
        if (transfer.inflight_count || transfer.notification || transfer.letter.number) {
            if (transfer.inflight_count && !transfer.left_behind)
                transfer.ep->counters.inflight.sub();
            transfer.left_behind = true;
            continue;
        }
        transfer.ListNode<InFlow>::unlink();
        transfer.ListNode<InQueue>::unlink();
        CancelIndex::remove(transfer);
        shard_.loop.disarm(transfer.timer);
        out.push_back(transfer);
    }
}

void Flow::adopt(List<Transfer, InFlow> &transfers) {
    while (Transfer *transfer = transfers.pop_front()) {
        transfer->flow = this;
        all_.push_back(*transfer);
        shard_.cancel_index().add(*transfer);
        if (transfer->waits_turn)
            arm(*transfer);
        else
            ready_.push_back(*transfer);
    }
}

void Flow::resume() {
    shard_.heartbeat.arm();
    start_ready();
    pump();
}

void Flow::complete(Transfer &transfer) {
    shard_.loop.disarm(transfer.timer);
    transfer.ListNode<InFlow>::unlink();
    transfer.ListNode<InQueue>::unlink();
    transfer.ListNode<InEnding>::unlink();
    CancelIndex::remove(transfer);
    if (transfer.notification) {
        // The owner's application may have been told that it has ended well.
        if (transfer.status != XFER_OK && transfer.closed_notification)
            transfer.maybe_applied = true;
        if (transfer.status != XFER_OK && connection_ && connection_->usable())
            close_notification(transfer, transfer.status);
        notify_sender_.end(transfer.notification);
    }
    if (transfer.role == Transfer::Role::sends) messages.forget(transfer);
    const bool here = connection_ && connection_->number == transfer.letter.connection;
    if (transfer.role == Transfer::Role::pulls && here && connection_->usable())
        connection_->message_receiver.taken(transfer.letter.number, transfer.status);
    if (!transfer.list.at_end(transfer.next))
        transfer.fail_entries(transfer.list.entry_index(transfer.next), transfer.list.entries() - 1,
                              XFER_ECANCELED);
    xfer_event_t &event = transfer.event;
    event.status = transfer.status;
    event.flags = transfer.maybe_applied ? XFER_MAYBE_APPLIED : XFER_FENCED;
    event.origin = transfer.origin;
    event.native_code = transfer.native;
    event.bytes = transfer.moved.get();
    event.index = transfer.runs.empty() ? 0 : transfer.runs.first();
    if (event.kind == XFER_EVENT_ATOMIC)
        event.index = transfer.status == XFER_OK ? transfer.before : 0;
    transfer.ended();
    shard_.counters.queued.sub();
    if (connection_) connection_->pump_soon();
    transfer.flow = nullptr;
    shard_.finish(transfer);
}

}  // namespace xfer
