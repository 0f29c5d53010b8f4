// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/transfer.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/transfer/flow.h"
#include "util/memory.h"

namespace xfer {

void Transfer::arrive(Shard &shard) {
    if (over) return shard.finish(*this);
    if (passes) set_out();
    if (passes && shard.engine.post_from(shard.index + 1, *this)) return;
    passes = false;
    shard.submit(*this);
}

void Transfer::set_out() {
    if (!std::exchange(travels, true)) ep->engine.draining().hold();
}

void Transfer::on_timer(Timer &) {
    flow->on_transfer_timer(*this);
}

void Transfer::begin(uint64_t now) {
    next = {};
    stopped = fencing = maybe_applied = false;
    waits_turn = left_behind = over = false;
    status = XFER_OK;
    origin = XFER_ORIGIN_NONE;
    native = 0;
    reason.clear();
    moved.set(0);
    runs.clear();
    for (Remote &remote : remotes)
        remote.refused = XFER_OK;
    progress = now;
    begin_anew();
    if (role == Role::pulls) return;  // its time has run since the receive was posted
    started = now;
    deadline = timeout_ms ? now + timeout_ms * kNsPerMs : kNever;
}

void Transfer::begin_anew() {
    notification = 0;
    closed_notification = noted = answered = false;
}

void Transfer::cut(Op &op, Cursor &from, std::vector<Piece> &scratch) {
    op.dir = list.dir(from);
    op.checked = op.checked && op.dir != Dir::atomic;
    op.remote = remotes[list.remote(from)].access;
    op.atomic = atomic;
    op.list = &list;
    op.begin = from;
    op.transfer = this;
    scratch.clear();
    op.bytes = static_cast<uint32_t>(list.draw(from, op.max_bytes, op.max_pieces, scratch));
    op.pieces = static_cast<uint32_t>(scratch.size());
    op.end = from;
}

void Transfer::fail(const Op &op, Status why) {
    fail_entries(op, why);
    if (why == XFER_EPEERLOST) return lose(static_cast<Rail *>(op.rail)->why_lost());
    if (status != XFER_OK) return;
    status = why;
    origin = op.unmapped ? XFER_ORIGIN_OS : XFER_ORIGIN_PEER;
    if (op.unmapped) native = EFAULT;
}

void Transfer::lose(const Failure &why) {
    if (status != XFER_OK) return;
    blame(why);
    status = XFER_EPEERLOST;
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

void Transfer::ended() {
    if (status == XFER_OK) reason.clear();
    explain(reason);
}

void Transfer::blame(const Failure &cause) {
    if (status != XFER_OK) return;
    origin = cause.origin;
    native = cause.native;
    reason = cause.message;
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

OpKind Transfer::kind() const {
    if (event.kind == XFER_EVENT_PUT) return OpKind::put;
    if (event.kind == XFER_EVENT_SEND) return OpKind::send;
    if (event.kind == XFER_EVENT_NOTIFIED) return OpKind::notify;
    if (event.kind == XFER_EVENT_RECV) return OpKind::recv;
    if (event.kind == XFER_EVENT_ATOMIC) return OpKind::atomic;
    return event.kind == XFER_EVENT_GET ? OpKind::get : OpKind::batch;
}

void Transfer::cancel() {
    flow->end(*this, XFER_ECANCELED);
}

}  // namespace xfer
