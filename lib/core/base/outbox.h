// SPDX-License-Identifier: Apache-2.0
// The events of one loop on their way to the user. They leave at the end of the turn, in their
// order: by callback or poll where this loop dispatches, else into the engine's queue.
#pragma once

#include <memory>
#include <vector>

#include "core/base/event.h"
#include "wire/hello.h"

namespace xfer {

class Endpoint;
class Notice;
class ShardCore;

class Outbox {
public:
    explicit Outbox(ShardCore &shard) : shard_(shard) {}

    void post(EventNode &node);
    // False, and none is told, if the endpoint has too many that were not delivered.
    bool post(std::unique_ptr<Notice> notice, Status status, uint32_t flags);
    bool notify(Endpoint &ep, uint32_t type, std::vector<uint8_t> data, Status status = XFER_OK,
                uint32_t flags = 0);
    bool notify_peer_up(Endpoint &ep, const Identity &identity, const std::vector<uint8_t> &blob,
                        uint32_t flags);
    void notify_peer_down(Endpoint &ep, const Failure &why);
    void end_quietly(EventNode &node);  // without an event; not before this turn's end

    void hand_over();               // now, where another loop may tell what must come later
    void hand_in(EventNode &node);  // by a thread that submits, and holds the turn lock
    void deliver();                 // the turn ends: events, and before them
    void end_quiet();               // those that have none
    bool empty() const { return events_.empty() && quiet_ends_.empty(); }
    bool dispatching() const { return dispatching_; }  // a callback runs

private:
    ShardCore &shard_;
    EventList events_;
    EventList quiet_ends_;
    uint64_t count_ = 0;
    bool dispatching_ = false;
};

}  // namespace xfer
