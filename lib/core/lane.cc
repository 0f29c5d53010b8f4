// SPDX-License-Identifier: Apache-2.0
#include "core/connection.h"
#include "core/peer.h"
#include "core/shard.h"
#include "util/memory.h"

namespace xfer {

void Lane::post(Op &op) {
    op.lane = this;
    op.sent = op.canceled = false;
    ++ops;
    bytes += op.bytes;
    unflushed = true;
    XFER_CHECK(link->post(op));
}

void Lane::on_up() {
    connection.in_turn([&] { connection.on_up(*this); });
}

void Lane::on_hello(ConstBytes message) {
    connection.in_turn([&] { connection.on_hello(*this, message); });
}

// Control frames belong on the control channel; a peer that sends them elsewhere broke the
// protocol.
void Lane::on_control(const Frame &frame, ConstBytes body) {
    if (number == 0) return connection.in_turn([&] { connection.on_control(frame, body); });
    connection.close({XFER_EPROTO, 0, 0, "a control frame on a data lane"});
}

void Lane::on_done(Op &op, Status status) {
    --ops;
    bytes -= op.bytes;
    connection.peer->flow.done(op, status);
    connection.pump_soon();
}

Status Lane::on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                       std::vector<iovec> &out) {
    Status status = XFER_ENOMEM;
    if (!in_memory([&] { status = connection.serving.access(dir, access, pieces, out); }))
        out.clear();
    return status;
}

void Lane::on_served(Dir dir, uint64_t moved) {
    connection.shard.served(connection, dir, moved);
}

void Lane::on_quiet(uint64_t region) {
    connection.on_quiet(region);
}

void Lane::on_down(const Failure &why) {
    connection.on_lane_down(*this, why);
}

}  // namespace xfer
