// SPDX-License-Identifier: Apache-2.0
// How a connection ends in peace: offers to end what nobody uses, and the drain.
#include "core/base/shard_core.h"
#include "core/connection/connection.h"

namespace xfer {

// An offer to end an idle connection, the answer to ours, or the peer's last words.
void Connection::on_leave(const Frame &frame) {
    if (frame.status == XFER_EBUSY)
        return apply({.kind = ConnectionInput::idle_close_denied, .now = shard.now()});
    if (frame.status != XFER_EAGAIN)
        return close({frame.status, XFER_ORIGIN_PEER, frame.status, "the peer said goodbye"});
    apply(
        {.kind = ConnectionInput::idle_close_offered, .idle = keepalive.idle() && sink.reachable()},
        Keepalive::went_idle());
}

void Connection::resume() {
    touch();
    lanes.local.open_asked();
    attached.open_asked();
    attached_lane.open();
    sink.ask_waiting();
    sink.pump();
}

void Connection::drain() {
    apply({.kind = ConnectionInput::drain, .idle = keepalive.idle()});
}

void Connection::on_drain(const Frame &frame) {
    apply({.kind = frame.seq ? ConnectionInput::peer_done : ConnectionInput::peer_drain});
    leave_when_quiet();
}

void Connection::leave_when_quiet() {
    if (!awaits_quiet(state_) || !sink.quiet()) return;
    apply({.kind = ConnectionInput::quiesced},
          {XFER_ECLOSED, XFER_ORIGIN_PEER, XFER_ECLOSED, "the peer drains"});
}

}  // namespace xfer
