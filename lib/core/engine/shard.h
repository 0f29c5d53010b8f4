// SPDX-License-Identifier: Apache-2.0
// One loop's part of an engine: the peers whose identity falls to it, everything under them, and
// its own copy of the region table. All of it is touched by that loop alone; other threads come in
// by the mailbox.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/counters.h"
#include "core/base/last_error.h"
#include "core/base/limits.h"
#include "core/base/mailbox.h"
#include "core/connection/connection_table.h"
#include "core/engine/op_pool.h"
#include "core/engine/outbox.h"
#include "core/message/cross_shard.h"
#include "core/peer/connection_limit.h"
#include "core/peer/connection_migration.h"
#include "core/peer/heartbeat.h"
#include "core/peer/inbound.h"
#include "core/peer/peer_table.h"
#include "core/region/shard_regions.h"
#include "util/log.h"

namespace xfer {

class Batch;

class Shard final : public WakeSink, public TimerSink, public Task {
public:
    Shard(Engine &engine, Loop &loop, uint32_t index);
    ~Shard();

    // ---- any thread
    bool post(Message &message);  // false: this shard has ended
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
    Engine &engine;
    Loop &loop;
    const uint32_t index;
    ShardCounters counters;

    // ---- what lives on the loop
    LastError last_error;  // of its peers
    PeerTable peers{*this};
    Inbound inbound{*this};
    ShardRegions regions{*this};
    ConnectionTable connections;
    ConnectionLimit limit{*this};
    Heartbeat heartbeat{*this};
    Outbox outbox{*this};
    ConnectionMigration migration{*this};
    CrossShard messages{*this};
    OpPool ops;

    // ---- the loop: calls of the user, as messages
    void submit(Operation &operation);
    void submit(Request &request);
    void cancel(Batch &batch);
    CancelIndex &cancel_index() { return cancel_index_; }
    void open(Endpoint &ep);
    void close(Endpoint &ep);
    void close(Peer &peer, const Failure &why);  // with its endpoints
    void begin_close();
    void release_handles();  // those that nobody can use any more: the engine's CLOSED was told
    void begin_drain(uint64_t limit);  // in nanoseconds from now, 0: none

    // ---- the loop: for what lives on it
    uint64_t now() { return loop.now(); }
    const Log &log() const;
    bool closing() const { return closing_; }
    bool draining() const { return draining_; }
    uint64_t next_number() { return ++last_number_; }
    Transport *transport_for(const Uri &uri);
    std::unique_ptr<Channel> make_loopback(ChannelSink &sink);
    std::vector<Piece> scratch;
    void served(Connection &connection, Dir dir, uint64_t bytes);

    void finish(Operation &operation);  // it has ended: tells it, on the loop of its endpoint
    void operation_ended(Endpoint &ep);
    void explain_timeout(Operation &operation);
    void less_busy(Endpoint &ep);  // what counted there has ended
    void arrived();                // what came from another loop, and held a drain meanwhile

    void defer_delete(Connection &connection);  // destroyed when no callback of its channels runs
    void connected(Connection &connection);
    void disconnected(Connection &connection);

    std::vector<std::unique_ptr<Transport>> transports;

    void on_wake() override;
    void on_timer(Timer &timer) override;
    void run() override;

private:
    bool arrive_now(Message &message);
    void drain_mailbox();
    void refuse_now(Operation &operation);
    void finish_close(Endpoint &ep);
    void check_ended();
    void check_drained();

    Mailbox mailbox_;
    OwningList<Connection, InHolder> deferred_deletes_;
    List<Endpoint, Lingering> lingering_;  // closed but for operations on their way here
    List<Endpoint, Lingering> lent_;       // closed, of PEER events without a PEER_DOWN
    uint64_t last_number_ = 0;
    CancelIndex cancel_index_;  // of all that is here but for receives that wait
    Timer drain_limit_;
    bool closing_ = false, ended_ = false;
    bool draining_ = false;
    bool drain_held_ = true;  // by what is under way here
};

}  // namespace xfer
