// SPDX-License-Identifier: Apache-2.0
// What every room knows of the loop that it is on: its clock, its pools, its mailbox and its way of
// events to the user. What the rooms above have on it is named here, and used where its class is
// known: in its own room, and above. Shard (core/engine/shard.h) is the whole.
#pragma once

#include <memory>
#include <vector>

#include "core/base/cancel_index.h"
#include "core/base/counters.h"
#include "core/base/engine_core.h"
#include "core/base/heartbeat.h"
#include "core/base/last_error.h"
#include "core/base/mailbox.h"
#include "core/base/op_pool.h"
#include "core/base/outbox.h"
#include "loop/loop.h"
#include "transport/attached_path.h"
#include "transport/transport.h"

namespace xfer {

class Connection;
class ConnectionLimit;
class ConnectionMigration;
class ConnectionTable;
class Copier;
class CrossShard;
struct DirectCopy;
class Flow;
class Inbound;
class Operation;
class Peer;
class PeerTable;
class Region;
class Request;
class RequestStaging;
class ShardRegions;
class Staging;

// What the rooms above have on a loop.
struct ShardRooms {
    ShardRegions &regions;
    CrossShard &messages;
    ConnectionTable &connections;
    PeerTable &peers;
    Inbound &inbound;
    ConnectionLimit &limit;
    ConnectionMigration &migration;
    Staging &staging;
    RequestStaging &request_staging;
    Copier &copier;
};

class ShardCore : public Task, public ShardRooms {
public:
    virtual ~ShardCore() = default;

    // ---- any thread
    EngineCore &engine;
    Loop &loop;
    const uint32_t index;
    ShardCounters counters;
    virtual bool post(Message &message) = 0;  // false: this shard has ended
    // The same, of what takes little time: the calling thread does it, if nobody is in the loop.
    virtual bool post_brief(Message &message) = 0;
    // Does it at once, if it has to wait for nothing, and tells its end by `told`; null: nobody is
    // told. False: it is to be submitted.
    virtual bool copy_now(const DirectCopy &copy, EventNode *told) = 0;
    // The same, and nothing arrives meanwhile, also if who calls drives the loop: it may hold locks
    // that what arrives would take.
    bool enqueue(Message &message) {
        return enqueue(message, [] {});
    }
    template <typename Then>  // as Mailbox::post has it
    bool enqueue(Message &message, Then then) {
        const Mailbox::Posted posted = mailbox_.post(message, then);
        if (posted == Mailbox::Posted::first) loop.wake();
        return posted != Mailbox::Posted::closed;
    }

    // ---- the loop: what lives on it
    LastError last_error;  // of its peers
    Outbox outbox{*this};
    Heartbeat heartbeat{*this};
    OpPool ops;
    CancelIndex cancel_index;  // of all that is here but for receives that wait
    std::vector<Piece> scratch;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::unique_ptr<Fabric>> fabrics;

    uint64_t now() { return loop.now(); }
    const Log &log() const { return engine.log(); }
    bool closing() const { return closing_; }
    bool draining() const { return draining_; }
    // A thread that submits is here, and sends by itself what need not wait; hold_back(): this
    // does, for something of its peer is under way, and they leave together in the next turn.
    bool visited() const { return visited_; }
    void hold_back() { held_back_ = true; }
    uint64_t next_number() { return ++last_number_; }
    Transport *transport_for(const Uri &uri) const {
        for (const auto &transport : transports)
            if (transport->serves(uri)) return transport.get();
        return nullptr;
    }

    // ---- the loop: to the rooms above
    virtual void submit(Operation &operation) = 0;
    virtual void submit(Request &request) = 0;
    virtual void finish(Operation &operation) = 0;  // tells its end, on the loop of its endpoint
    virtual void explain_timeout(Operation &operation) = 0;
    virtual void close(Endpoint &ep) = 0;
    virtual void close(Peer &peer, const Failure &why) = 0;  // with its endpoints
    virtual void operation_ended(Endpoint &ep) = 0;
    virtual void less_busy(Endpoint &ep) = 0;          // what counted there has ended
    virtual void left_adapters(const Flow &flow) = 0;  // something of its peer, which may be unused
    virtual void arrived() = 0;  // what came from another loop held a drain meanwhile
    virtual void connected(Connection &connection) = 0;
    virtual void disconnected(Connection &connection) = 0;
    // Destroyed when no callback of its channels runs.
    virtual void defer_delete(Connection &connection) = 0;
    virtual uint64_t keep_alive() = 0;  // looks at each peer; when to do so again
    // Peers are told, and connections let go of it.
    virtual void region_added(Region &region) = 0;
    virtual void region_ended(Region &region) = 0;
    virtual void cancel_receives(const CancelScope &scope) = 0;
    // A message of the endpoint has arrived, on the first loop, or back from there.
    virtual void on_end_receives(Endpoint &ep) = 0;
    virtual void on_identity_known(Endpoint &ep) = 0;

    // ---- any thread: heartbeats, and peers that wait for a slot, are looked at
    virtual void look_after_peers() = 0;

    // ---- the engine's end
    virtual void begin_drain(uint64_t limit) = 0;  // in nanoseconds from now, 0: none
    virtual void begin_close() = 0;
    // Those that nobody can use any more: the engine's CLOSED was told.
    virtual void release_handles() = 0;

protected:
    ShardCore(EngineCore &owner, Loop &own_loop, uint32_t number, const ShardRooms &rooms);

    Mailbox mailbox_;
    bool closing_ = false, draining_ = false;
    bool visited_ = false, held_back_ = false;

private:
    uint64_t last_number_ = 0;
};

}  // namespace xfer
