// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/flow.h"

#include <algorithm>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"

namespace xfer {

// ---- the begin

void Flow::submit(Operation &operation) {
    Endpoint &ep = *operation.ep;
    if (const auto kind = operation.kind()) {
        shard.counters[*kind].submitted.add();
        ep.counters.find(*kind)->submitted.add();
    }
    operation.start_clock(shard.now());
    ep.order.add(operation);
    add(operation);
}

void Flow::add(Operation &operation) {
    operation.flow = this;
    operation.on.store(&shard, std::memory_order_relaxed);
    operation.reset();
    operation.progress = shard.now();
    ++operation.ep->busy;
    shard.counters.pending.add();
    operation.ep->counters.pending.add();
    all_.push_back(operation);
    shard.cancel_index.add(operation);
    shard.heartbeat.arm();
    if (operation.waits_turn)
        arm(operation);
    else
        start(operation);
}

void Flow::start(Operation &operation) {
    if (!operation.start()) return complete(operation);
    arm(operation);
}

// One that has nothing to do ends at once, and so the turn of the next one comes: in a loop, not
// ever deeper.
void Flow::turn_has_come(Operation &operation) {
    operation.progress = shard.now();
    ready_.push_back(operation);
    start_ready();
    if (connection_) connection_->pump_soon();  // what it waited for may have been another flow's
}

void Flow::start_ready() {
    if (std::exchange(starting_, true)) return;
    while (Operation *next = ready_.pop_front())
        start(*next);
    starting_ = false;
}

Flow::Queue &Flow::queue_of(const Transfer &transfer) {
    return transfer.list.bytes() <= kSmall ? small_ : bulk_;
}

// ---- its connection

void Flow::attach(Connection &connection) {
    connection_ = &connection;
    pump();
}

void Flow::detach(Connection &lost) {
    connection_ = nullptr;
    notifications.reset();
    sends_.reset();
    end_each([](const Operation &each) { return each.begun(); },
             [&](Operation &each) { each.connection_lost(lost); });
}

void Flow::pump() {
    if (!connection_ || !connection_->usable()) return;
    awaiting_.append(bulk_);  // they came first
    bulk_.append(awaiting_);
    if (!all_.empty()) {
        connection_->lanes.local.open();
        connection_->attached.open(!bulk_.empty());
    }
    const bool fresh = connection_->takes_new();
    if (fresh) notifications.pump();
    if (fresh && sends_.waiting()) sends_.pump(*connection_);
    const auto first = [&](Queue &queue) -> Transfer * {
        for (Transfer &each : queue)
            if (connection_ && (fresh || each.begun())) return &each;
        return nullptr;
    };
    for (Queue *queue : {&small_, &bulk_})
        while (Transfer *next = first(*queue))
            if (!next->feed(*connection_)) break;
    connection_->flush();
    if (connection_ && connection_->usable()) notifications.close_left();
}

void Flow::await_export(Transfer &pull, uint64_t due) {
    pull.ListNode<InQueue>::unlink();
    awaiting_.push_back(pull);
    shard.loop.arm(pull.timer, std::min(due, limit(pull)));
}

void Flow::done(Op &op, Status status) {
    auto *transfer = static_cast<Transfer *>(op.transfer);
    if (!transfer) return shard.ops.give(op);
    transfer->done(op, status);
}

void Flow::noted(const Frame &frame) {
    notifications.noted(frame);
    if (connection_) pump();
}

bool Flow::quiet() {
    for (Operation &operation : all_)
        if (operation.begun()) return false;
    return true;
}

// ---- time

uint64_t Flow::now() const {
    return shard.now();
}

uint64_t Flow::limit(const Operation &operation) const {
    if (operation.waits_turn) return operation.deadline;  // those that it waits for have limits
    if (connection_ && operation.patient()) return operation.deadline;
    const uint64_t stall = operation.progress + shard.engine.options().stall_ms * kNsPerMs;
    return std::min(operation.deadline, stall);
}

void Flow::arm(Operation &operation) {
    if (const uint64_t due = limit(operation); due != kNever) shard.loop.arm(operation.timer, due);
}

void Flow::on_operation_timer(Operation &operation) {
    if (operation.fencing) {
        operation.fence_expired();
        return complete(operation);
    }
    operation.look_for_progress();
    if (shard.now() < limit(operation)) {
        arm(operation);
        return pump();  // it may have waited for an export
    }
    shard.explain_timeout(operation);
    end(operation, XFER_ETIMEDOUT);
}

// ---- endpoints that move

// What was begun on a connection of ours ends here, and is told where its endpoint is by then.
void Flow::give_up(const Endpoint &ep, List<Operation, InFlow> &out) {
    for (Operation &operation : all_) {
        if (operation.ep != &ep) continue;
        if (operation.stays()) {
            operation.left_behind = true;
            continue;
        }
        operation.ListNode<InFlow>::unlink();
        operation.ListNode<InQueue>::unlink();
        operation.on.store(nullptr, std::memory_order_relaxed);
        CancelIndex::remove(operation);
        shard.loop.disarm(operation.timer);
        out.push_back(operation);
    }
}

void Flow::adopt(List<Operation, InFlow> &operations) {
    while (Operation *operation = operations.pop_front()) {
        operation->flow = this;
        operation->on.store(&shard, std::memory_order_relaxed);
        all_.push_back(*operation);
        shard.cancel_index.add(*operation);
        if (operation->waits_turn)
            arm(*operation);
        else
            ready_.push_back(*operation);
    }
}

void Flow::resume() {
    shard.heartbeat.arm();
    start_ready();
    pump();
}

// ---- the end

void Flow::end(Operation &operation, Status why) {
    if (operation.fencing) return;
    if (operation.status == XFER_OK) operation.status = why;
    operation.fencing = true;
    operation.ListNode<InQueue>::unlink();
    operation.withdraw();
}

// Collected first, and ended from there while all stay in `all_`: an end calls out, and whoever is
// called finds the flow as busy as it is. What ends by another's end leaves by itself.
template <typename Meant, typename End>
void Flow::end_each(Meant meant, End end) {
    XFER_CHECK(ending_.empty());
    for (Operation &operation : all_)
        if (meant(operation)) ending_.push_back(operation);
    while (Operation *operation = ending_.pop_front())
        end(*operation);
}

void Flow::end_all(const Endpoint *ep, Status why, const Failure &cause) {
    end_each([&](const Operation &each) { return (!ep || each.ep == ep) && !each.fencing; },
             [&](Operation &each) {
                 each.blame(cause);
                 end(each, why);
             });
}

void Flow::complete(Operation &operation) {
    shard.loop.disarm(operation.timer);
    operation.ListNode<InQueue>::unlink();
    operation.ListNode<InEnding>::unlink();
    CancelIndex::remove(operation);
    operation.ListNode<InFlow>::unlink();
    if (operation.leave_adapters()) return tell(operation);
    leaving_.push_back(operation);  // where nothing changes its end any more
}

// It may have outlived its connection, and the last handle of its peer.
void Flow::left_adapters(Operation &operation) {
    operation.ListNode<InFlow>::unlink();
    tell(operation);
    shard.left_adapters(*this);
}

void Flow::tell(Operation &operation) {
    operation.ended();
    shard.counters.pending.sub();
    if (connection_) connection_->pump_soon();
    operation.flow = nullptr;
    operation.on.store(nullptr, std::memory_order_relaxed);
    shard.finish(operation);
}

}  // namespace xfer
