// SPDX-License-Identifier: Apache-2.0
#include "core/connection/rail.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/connection/request_staging.h"
#include "core/connection/staging.h"
#include "util/memory.h"

namespace xfer {

void Rail::start(Path &ready) {
    path = &ready;
    caps = ready.caps();
}

bool Rail::has_room() const {
    return path && lane.state == Lane::State::ready && ops < caps.max_ops && bytes < window;
}

void Rail::post(Op &op) {
    op.rail = this;
    ++ops;
    bytes += op.bytes;
    if (op.device != kHostMemory && !op.bounce) {
        ++lane.connection.staged;
        if (!lane.connection.shard.staging.stage(op)) return;
        --lane.connection.staged;
    }
    hand_over(op);
}

void Rail::hand_over(Op &op) {
    unflushed = true;
    if (path->post(op)) return;
    // Its credit is what it takes, whatever was counted here.
    caps.max_ops = ops - 1;
    refused_.push_back(op);
    lane.connection.shard.loop.defer(lane.connection);
}

// ---- memory of a device

// What its path can't take any more has never been sent. What it takes leaves with the others of
// this turn.
void Rail::on_staged(Op &op, Status status) {
    op.unmapped = status != XFER_OK;
    if (status == XFER_OK && op.unwanted) status = XFER_ECANCELED;
    const bool takes = path && !lane.connection.closing();
    if (status == XFER_OK && !takes) status = XFER_EPEERLOST;
    status == XFER_OK ? hand_over(op) : finish(op, status);
    lane.connection.shard.loop.defer(lane.connection);
    leave_staging();
}

void Rail::on_landed(Op &op, Status status) {
    op.unmapped = status != XFER_OK;
    finish(op, status);
    leave_staging();
}

void Rail::drop(Op &op) {
    refused_.push_back(op);
    --lane.connection.staged;
    lane.connection.shard.loop.defer(lane.connection);
}

// With the answers of others that were over in this turn.
void Rail::answer_soon() {
    if (!path) return;
    unflushed = true;
    lane.connection.shard.loop.defer(lane.connection);
}

void Rail::leave_request_copy(Dir dir) {
    if (dir == Dir::put && --copies == 0) lane.connection.lanes.on_copied(lane);
    answer_soon();
    leave_staging();
}

// Last: the connection may end with it.
void Rail::leave_staging() {
    Connection &connection = lane.connection;
    if (--connection.staged == 0 && connection.closing()) connection.finish();
}

// ----

bool Rail::cancel(Op &op) {
    if (op.staging != Op::Staging::none) {
        if (!lane.connection.shard.staging.forget(op)) return !(op.unwanted = true);
        drop(op);
        return op.canceled = true;
    }
    for (auto *list : {&refused_, &lost_})
        for (const Op &other : *list)
            if (&other == &op) return op.canceled = true;
    return path->cancel(op);
}

void Rail::flush() {
    unflushed = false;
    path->flush();
}

void Rail::give_back() {
    while (Op *op = refused_.pop_front())
        finish(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    if (lane.connection.closing()) settle();
}

void Rail::settle() {
    while (Op *op = lost_.pop_front())
        finish(*op, XFER_EPEERLOST);  // also if canceled: it may have left
}

// Another lane may explain the end of the connection.
const Failure &Rail::why_lost() const {
    return lane.connection.closing() ? lane.connection.why : why_;
}

void Rail::on_done(Op &op, Status status) {
    if (status == XFER_EPEERLOST && !lane.connection.closing()) return lost_.push_back(op);
    const bool lands = op.bounce && op.dir == Dir::get && op.transfer && !op.canceled;
    if (status != XFER_OK || !lands) return finish(op, status);
    ++lane.connection.staged;
    lane.connection.shard.staging.land(op);
}

void Rail::leave(Op &op) {
    --ops;
    bytes -= op.bytes;
}

void Rail::finish(Op &op, Status status) {
    leave(op);
    if (op.bounce) lane.connection.shard.staging.release(op);
    if (status == XFER_OK) {
        carried.add(op.bytes);
        lane.count_carried(op.moved, op.bytes);
    }
    Connection &connection = lane.connection;
    connection.sink.on_done(op, status);
    connection.pump_soon();
    if (lane.one_sided.has_declined() || connection.attached.has_declined())
        connection.shard.loop.defer(connection);
}

Status Rail::on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                       std::vector<iovec> &out, StagedRequest *&staged) {
    // A first lane is open until the attached one is over.
    if (lane.connection.closing()) return XFER_ECLOSED;
    Status status = XFER_ENOMEM;
    Memory memory;
    ConnectionSink &sink = lane.connection.sink;
    const bool asked =
        catch_bad_alloc([&] { status = sink.access(dir, access, pieces, out, memory); });
    if (asked && status == XFER_OK && memory.kind != XFER_MEM_HOST) {
        staged = lane.connection.shard.request_staging.stage(*this, dir, access, memory, out);
        if (!staged) status = XFER_ENOMEM;
    }
    if (status != XFER_OK) out.clear();
    return status;
}

void Rail::on_served(Dir dir, uint64_t moved, NotificationId notification) {
    served.add(moved);
    lane.connection.touch();
    ShardCounters &counters = lane.connection.shard.counters;
    if (dir == Dir::atomic) return counters.served_atomic.add();
    (dir == Dir::put ? counters.served_put : counters.served_get).add(moved);
    if (notification.value) lane.connection.sink.on_notified_put(notification, moved);
}

void Rail::on_quiesced(Target target) {
    lane.connection.on_quiesced(target);
}

void Rail::on_unmapped(Target target) {
    lane.connection.sink.on_unmapped(target);
}

void Rail::on_notification_begun(NotificationId notification, uint64_t key) {
    lane.connection.sink.on_notification_begun(notification, key);
}

// Its channel says so next, if it has ended, too.
void Rail::on_down(const Failure &why) {
    why_ = why;
    path = nullptr;
    unflushed = false;
    if (lane.connection.staged) lane.connection.shard.staging.drop_waiting(*this);
}

}  // namespace xfer
