// SPDX-License-Identifier: Apache-2.0
// The operations of one peer: they wait while there is no connection or no credit, leave in order,
// and end exactly once. Small transfers have a queue and a lane of their own and never wait for
// bulk.
#pragma once

#include "core/transfer/notify_sender.h"
#include "core/transfer/transfer.h"

namespace xfer {

class Connection;
class MessageSender;
class ShardCore;

// What waits for the connection beside transfers: messages (core/message/message_sender.h).
class SendQueue {
public:
    virtual bool waiting() const = 0;
    virtual void pump(Connection &connection) = 0;
    virtual void reset() = 0;  // the connection has ended

protected:
    ~SendQueue() = default;
};

class Flow {
public:
    Flow(ShardCore &owner, MessageSender &sender, SendQueue &sends)
        : shard(owner), messages(sender), notifications(*this), sends_(sends) {}
    ~Flow() { XFER_CHECK(all_.empty() && leaving_.empty()); }

    void submit(Operation &operation);
    void add(Operation &operation);  // what was not submitted here: the pull of a receive
    // Cancel, deadline, close: as soon as buffers are quiet.
    void end(Operation &operation, Status why);
    void end_all(const Endpoint *ep, Status why,
                 const Failure &cause = {});  // null: of all endpoints
    void turn_has_come(Operation &operation);
    // What an endpoint has here and has never sent, on its way to another flow, perhaps of another
    // loop.
    void give_up(const Endpoint &ep, List<Operation, InFlow> &out);
    void adopt(List<Operation, InFlow> &operations);  // resume() follows
    void resume();

    void attach(Connection &connection);  // it is ready
    void detach(Connection &lost);
    void pump();                       // sends what there is credit for
    void done(Op &op, Status status);  // a path's answer
    void noted(const Frame &frame);

    bool waiting() {
        const bool any = !small_.empty() || !bulk_.empty() || !awaiting_.empty();
        return any || notifications.waiting() || sends_.waiting();
    }
    bool busy() const { return !all_.empty(); }
    // Something has ended but for adapters that know its memory.
    bool leaves_adapters() const { return !leaving_.empty(); }
    bool quiet();  // nothing of it is under way, though more may wait

    // ---- for its operations
    ShardCore &shard;
    MessageSender &messages;
    NotifySender notifications;
    Connection *connection() const { return connection_; }  // null: there is none
    uint64_t now() const;
    void queue(Transfer &transfer) { queue_of(transfer).push_back(transfer); }
    void queue_first(Transfer &transfer) { queue_of(transfer).push_front(transfer); }
    void await_export(Transfer &pull, uint64_t due);  // until then, or the next pump
    void on_operation_timer(Operation &operation);
    void complete(Operation &operation);
    void left_adapters(Operation &operation);  // what complete() had to wait for

private:
    using Queue = List<Transfer, InQueue>;
    Queue &queue_of(const Transfer &transfer);
    void start(Operation &operation);
    void start_ready();
    template <typename Meant, typename End>
    void end_each(Meant meant, End end);
    void arm(Operation &operation);
    uint64_t limit(const Operation &operation) const;

    SendQueue &sends_;  // `messages`
    Connection *connection_ = nullptr;
    void tell(Operation &operation);

    List<Operation, InFlow> all_, leaving_;
    Queue small_, bulk_;
    Queue awaiting_;                  // pulls of messages that an adapter may come to reach
    List<Operation, InQueue> ready_;  // ordered, and their turn has come
    bool starting_ = false;
    List<Operation, InEnding> ending_;  // collected by end_each
};

}  // namespace xfer
