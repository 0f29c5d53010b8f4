// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/direct_copy.h"

#include "core/connection/connection.h"

namespace xfer {

std::optional<Moved> DirectCopy::run(Connection &connection) const {
    if (!connection.usable() || !connection.takes_new()) return std::nullopt;
    if (connection.handshake.names(remote.owner, remote.incarnation) != XFER_OK)
        return std::nullopt;
    Lane &lane = connection.lanes.control();
    const std::optional<Moved> moved = lane.copy_now(dir, remote.access, piece);
    if (moved) connection.note_use();
    return moved;
}

void DirectCopy::count(ShardCounters &counters, uint64_t took_ns) const {
    for (OpCounters *each : {&counters[kind], ep.counters.find(kind)}) {
        each->submitted.add();
        each->end(XFER_OK, piece.length, took_ns);
    }
}

void DirectCopy::tell(xfer_event_t &event) const {
    event.status = XFER_OK;
    event.flags = XFER_FENCED;
    event.origin = XFER_ORIGIN_NONE;
    event.bytes = piece.length;
}

}  // namespace xfer
