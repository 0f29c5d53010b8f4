// SPDX-License-Identifier: Apache-2.0
// Receives, and messages that have come before theirs. All of it lives on the engine's first loop,
// whichever loops the connections are on, so that matching needs no lock and happens in one order.
// What has matched and is not here in full is pulled on the loop of its connection.
#pragma once

#include <atomic>
#include <map>
#include <utility>

#include "core/message/envelope.h"
#include "core/message/held_messages.h"
#include "core/message/receive.h"
#include "core/message/tag_matcher.h"

namespace xfer {

class EngineCore;

class ReceiveQueue {
public:
    explicit ReceiveQueue(EngineCore &engine) : engine_(engine) {}
    ~ReceiveQueue();

    // ---- any thread: receives that are on their way, or wait
    // Counts one, until its end is told. XFER_EAGAIN: there are too many.
    Status begin(Receive &receive);
    void ended() { receives_.fetch_sub(1); }

    // ---- from the user
    void post(Receive &receive);
    bool peek(const Posted &wanted, xfer_message_info_t &info);  // false: none waits
    void cancel(const CancelScope &scope);
    // One that waits. A copy into it that has begun goes on: then it is too late for that.
    void end(Receive &receive, Status why);
    // Takes out those from `ep`, for it is closed. False: of some a copy goes on, and behind the
    // last of them CrossShard::on_end_receives() follows.
    bool take(Endpoint &ep);
    void close();
    bool copies() const { return !copies_.empty(); }

    // ---- from connections
    void arrive(const Arrival &arrival);
    void cancel(const ShardCore &shard, uint64_t connection, uint64_t number);
    void lost(const ShardCore &shard, uint64_t connection);
    void identity_known(Endpoint &ep);  // who it is

    // Into memory of a device.
    void copied(Envelope &envelope, Status status, int32_t error);

private:
    struct GiveBack {
        void operator()(Envelope *envelope) const;
        ReceiveQueue *queue = nullptr;
    };
    using Own = std::unique_ptr<Envelope, GiveBack>;
    using Source = std::pair<uint32_t, uint64_t>;  // shard and connection

    bool wait(Receive &receive);  // false: its message was here
    void await(ShardCore &home);
    void deliver(Receive &receive, Own envelope);
    void deliver(Receive &receive, const Arrival &arrival);
    void pull(Receive &receive, const Arrival &arrival, uint64_t bytes);
    void fail(Receive &receive, const Arrival &arrival);  // memory lacks
    bool is_copied(const Receive &receive, const Arrival &arrival) const;
    void copy(Receive &receive, const Arrival &arrival);
    bool copy(Receive &receive, Own envelope);     // false: it has ended
    bool stop_copy(Receive &receive, Status why);  // false: it has begun
    void hand_on();
    void go_on_closing(const Ref<Endpoint> &named);
    void finish(Receive &receive, Status status);
    void take(const Endpoint &ep, List<Receive, InPosted> &into);
    bool copies_for(const Endpoint &ep);
    bool stop_copies(const Endpoint *ep);
    void keep(const Arrival &arrival);
    void answer(const Arrival &arrival, const MessageAnswer &answer);
    void completed(const Arrival &arrival, Status status = XFER_OK);
    Own take_envelope(const Arrival &arrival);  // throws std::bad_alloc
    void give_back(Envelope &envelope);
    void discard(Envelope &envelope);
    void forget(Receive &receive);
    ShardCore &shard();

    EngineCore &engine_;
    TagMatcher matcher_;
    List<Receive, InPosted> posted_;
    CancelIndex index_;                                             // of the same
    std::map<Source, List<Envelope, InConnection>> by_connection_;  // until it ends
    List<Envelope, InConnection> spare_;                            // for the next ones
    uint32_t spares_ = 0;
    HeldMessages held_;
    List<Envelope, InConnection> copies_;  // that go on
    List<Envelope, InReturned> returned_;  // by receives that were stopped just now
    bool cancels_ = false;
    bool closed_ = false;
    std::atomic<uint32_t> receives_{0};
};

}  // namespace xfer
