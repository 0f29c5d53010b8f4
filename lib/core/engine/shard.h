// SPDX-License-Identifier: Apache-2.0
// One loop's part of an engine: the peers whose identity falls to it, everything under them, and
// its own copy of the region table. All of it is touched by that loop alone; other threads come in
// by the mailbox.
#pragma once

#include <memory>

#include "core/base/shard_core.h"
#include "core/connection/connection_table.h"
#include "core/connection/request_staging.h"
#include "core/connection/staging.h"
#include "core/engine/device_stalls.h"
#include "core/message/cross_shard.h"
#include "core/peer/connection_limit.h"
#include "core/peer/connection_migration.h"
#include "core/peer/inbound.h"
#include "core/peer/peer_table.h"
#include "core/region/shard_regions.h"

namespace xfer {

class Engine;
class OwnLoop;

class Shard final : public ShardCore, public WakeSink, public TimerSink {
public:
    // `own`: the loop, if other threads may enter it.
    Shard(Engine &engine, Loop &loop, uint32_t index, OwnLoop *own);
    ~Shard() override;

    bool post(Message &message) override;
    bool post_brief(Message &message) override;
    bool copy_now(const DirectCopy &copy, EventNode *told) override;

    // ---- calls of the user, as messages
    void submit(Operation &operation) override;
    void submit(Request &request) override;
    void close(Endpoint &ep) override;
    void close(Peer &peer, const Failure &why) override;
    void begin_drain(uint64_t limit) override;
    void begin_close() override;
    void release_handles() override;

    // ---- for what lives on the loop
    void finish(Operation &operation) override;
    void operation_ended(Endpoint &ep) override;
    void explain_timeout(Operation &operation) override;
    void less_busy(Endpoint &ep) override;
    void left_adapters(const Flow &flow) override;
    void arrived() override;
    uint64_t keep_alive() override;
    void on_end_receives(Endpoint &ep) override;
    void on_identity_known(Endpoint &ep) override;
    void region_added(Region &region) override;
    void region_ended(Region &region) override;
    void cancel_receives(const CancelScope &scope) override;
    void look_after_peers() override;
    void connected(Connection &connection) override;
    void disconnected(Connection &connection) override;
    void defer_delete(Connection &connection) override;

    void on_wake() override;
    void on_timer(Timer &timer) override;
    void run() override;

private:
    // While it is there, a thread that submits acts for the loop's.
    class Visited {
    public:
        Visited(Shard &shard, bool sends) : shard_(shard) { shard.visited_ = sends; }
        Visited(const Visited &) = delete;
        Visited &operator=(const Visited &) = delete;
        ~Visited() { shard_.visited_ = false; }

    private:
        Shard &shard_;
    };

    bool visit(Message &message, bool brief);
    bool copy_inside(const DirectCopy &copy, EventNode *told);
    void send_deferred() noexcept;
    void drain_mailbox();
    void refuse_now(Operation &operation);
    void refuse_now(Request &request);
    void tell_room(Endpoint &ep);
    void finish_close(Endpoint &ep);
    void check_ended();
    void check_drained();

    Engine &whole_;
    OwnLoop *const own_loop_;
    const bool driven_by_polls_;
    const bool dispatches_;  // who drives the loop tells the events
    bool put_off_ = false;   // this turn's end
    uint32_t held_ = 0;      // what visitors have held back since the last one
    PeerTable peers_{*this};
    Inbound inbound_{*this};
    ShardRegions regions_{*this};
    ConnectionTable connections_;
    ConnectionLimit limit_{*this};
    ConnectionMigration migration_{*this};
    Staging staging_;
    RequestStaging request_staging_;
    DeviceStalls device_stalls_{*this};
    Copier copier_;  // its threads are joined first
    CrossShard messages_{*this};
    OwningList<Connection, InHolder> deferred_deletes_;
    List<Endpoint, Lingering> lingering_;  // closed but for operations on their way here
    List<Endpoint, Lingering> lent_;       // closed, of PEER events without a PEER_DOWN
    Timer drain_limit_;
    uint32_t copies_ = 0;   // of few bytes, since one was timed,
    uint64_t copy_ns_ = 0;  // and how long that took
    bool ended_ = false;
    bool drain_held_ = true;  // by what is under way here
};

}  // namespace xfer
