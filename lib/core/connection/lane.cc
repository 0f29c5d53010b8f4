// SPDX-License-Identifier: Apache-2.0
#include "core/connection/lane.h"

#include <algorithm>

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/peer.h"
#include "util/memory.h"

namespace xfer {

void Lane::start() {
    const bool own = connection.handshake.peer().id == connection.shard.engine.identity().id;
    if (link->is_local()) distance = own ? Scope::process : Scope::host;
    max_ops = std::min(connection.handshake.peer_terms().max_ops, kLaneOps);
    window = number == kLocalLane ? kLocalWindow : kLaneWindow;
    link->start(max_ops, kLaneOps);
}

void Lane::open() {
    state = State::ready;
    start();
    link->hear();
}

void Lane::post(Op &op) {
    op.lane = this;
    op.sent = op.canceled = op.unmapped = false;
    op.moved = Moved::frames;
    ++ops;
    bytes += op.bytes;
    unflushed = true;
    if (link->post(op)) return;
    // Its credit is what it takes, whatever was counted here.
    max_ops = ops - 1;
    refused_.push_back(op);
    connection.shard.loop.defer(connection);
}

bool Lane::cancel(Op &op) {
    for (auto *ops : {&refused_, &lost_})
        for (const Op &other : *ops)
            if (&other == &op) return op.canceled = true;
    return link->cancel(op);
}

void Lane::give_back() {
    while (Op *op = refused_.pop_front())
        finish(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    while (Op *op = connection.closing() ? lost_.pop_front() : nullptr)
        finish(*op, XFER_EPEERLOST);  // also if canceled: it may have left
    if (state == State::ready && max_ops == 0)
        link->close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, "a lane that takes no operations"});
}

void Lane::on_up() {
    connection.in_turn([&] { connection.on_up(*this); });
}

void Lane::on_hello(ConstBytes message) {
    connection.in_turn([&] { connection.on_hello(*this, message); });
}

void Lane::on_control(const Frame &frame, ConstBytes body) {
    connection.in_turn([&] { connection.on_control(*this, frame, body); });
}

// What is lost with a link waits for the end of the connection, which another lane may explain.
void Lane::on_done(Op &op, Status status) {
    if (status == XFER_EPEERLOST && !connection.closing()) return lost_.push_back(op);
    finish(op, status);
}

void Lane::finish(Op &op, Status status) {
    --ops;
    bytes -= op.bytes;
    if (status == XFER_OK) {
        Carried &way = carried[static_cast<size_t>(op.moved)];
        ++way.requests;
        way.bytes += op.bytes;
        last_moved = op.moved;
    }
    connection.peer->flow.done(op, status);
    connection.pump_soon();
}

Status Lane::on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                       std::vector<iovec> &out) {
    Status status = XFER_ENOMEM;
    if (!catch_bad_alloc([&] { status = connection.target_side.access(dir, access, pieces, out); }))
        out.clear();
    return status;
}

Status Lane::on_reach(const Access &access, Reach &out) {
    return connection.target_side.reach(access, out);
}

void Lane::on_served(Dir dir, uint64_t moved) {
    ++served.requests;
    served.bytes += moved;
    connection.shard.served(connection, dir, moved);
}

void Lane::on_quiet(Target target) {
    connection.on_quiet(target);
}

void Lane::on_unmapped(Target target) {
    connection.target_side.unmapped(target);
}

void Lane::on_notification_begun(NotificationId notification, uint64_t key) {
    connection.notify_receiver.unseen(notification, key);
}

void Lane::on_down(const Failure &why) {
    connection.on_lane_down(*this, why);
}

}  // namespace xfer
