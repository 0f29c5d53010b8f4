// SPDX-License-Identifier: Apache-2.0
// A put or get of one range that the thread which submits it copies by itself, before the call
// returns: into or out of memory that it shares with the peer, or by the kernel. It needs no turn
// of the loop, and without an event no operation. What can't be done so, or has to wait for
// anything, is submitted as an operation (design/0053).
#pragma once

#include <optional>

#include "core/base/counters.h"
#include "core/transfer/transfer.h"

namespace xfer {

class Connection;

struct DirectCopy {
    Endpoint &ep;
    OpKind kind;
    Dir dir;
    Remote remote;
    Piece piece;

    // How the bytes moved; nothing: not all of them did. Under the turn lock of the endpoint's
    // loop.
    std::optional<Moved> run(Connection &connection) const;
    void count(ShardCounters &counters, uint64_t took_ns) const;
    void tell(xfer_event_t &event) const;  // that it is applied
};

}  // namespace xfer
