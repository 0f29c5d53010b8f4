// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/operation.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/transfer/flow.h"

namespace xfer {

void Operation::arrive(ShardCore &shard) {
    if (over) return shard.finish(*this);
    if (passes) set_out();
    if (passes && shard.engine.post_from(shard.index + 1, *this)) return;
    passes = false;
    shard.submit(*this);
}

void Operation::set_out() {
    if (!std::exchange(travels, true)) ep->engine.draining().hold();
}

void Operation::on_timer(Timer &) {
    flow->on_operation_timer(*this);
}

void Operation::cancel() {
    flow->end(*this, XFER_ECANCELED);
}

void Operation::start_clock(uint64_t now) {
    started = now;
    deadline = timeout_ms ? now + timeout_ms * kNsPerMs : kNever;
}

void Operation::reset() {
    fencing = maybe_applied = left_behind = over = false;
    status = XFER_OK;
    origin = XFER_ORIGIN_NONE;
    native = 0;
    reason.clear();
    moved.set(0);
}

void Operation::await_fence() {
    flow->shard.loop.arm(timer, flow->shard.now() + kFenceNs);
}

void Operation::lose(const Failure &why) {
    if (status != XFER_OK) return;
    blame(why);
    status = XFER_EPEERLOST;
}

void Operation::blame(const Failure &cause) {
    if (status != XFER_OK) return;
    origin = cause.origin;
    native = cause.native;
    reason = cause.message;
}

void Operation::ended() {
    if (status == XFER_OK) reason.clear();
    event.status = status;
    event.flags = maybe_applied ? XFER_MAYBE_APPLIED : XFER_FENCED;
    event.origin = origin;
    event.native_code = native;
    event.bytes = moved.get();
}

void Operation::settle(FirstFailure &failures) {
    failures.note(event, reason);
}

std::optional<OpKind> Operation::kind() const {
    switch (event.kind) {
    case XFER_EVENT_PUT:
        return OpKind::put;
    case XFER_EVENT_GET:
        return OpKind::get;
    case XFER_EVENT_BATCH:
        return OpKind::batch;
    case XFER_EVENT_NOTIFIED:
        return OpKind::notify;
    case XFER_EVENT_SEND:
        return OpKind::send;
    case XFER_EVENT_RECV:
        return OpKind::recv;
    case XFER_EVENT_ATOMIC:
        return OpKind::atomic;
    default:
        return std::nullopt;
    }
}

}  // namespace xfer
