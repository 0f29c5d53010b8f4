// SPDX-License-Identifier: Apache-2.0
// The transfers of one peer: they queue while there is no connection or no credit, leave in order
// as chunks, and end exactly once. Small ones have a queue and a lane of their own and never wait
// for bulk.
#pragma once

#include "core/message/message_sender.h"
#include "core/transfer/notify_sender.h"
#include "core/transfer/transfer.h"

namespace xfer {

class Connection;
class Shard;

class Flow {
public:
    explicit Flow(Shard &shard) : messages(*this), shard_(shard) {}
    ~Flow() { XFER_CHECK(all_.empty()); }

    void submit(Transfer &transfer);
    void end(Transfer &transfer,
             Status why);  // cancel, deadline, close: as soon as buffers are quiet
    void end_all(const Endpoint *ep, Status why,
                 const Failure &cause = {});  // null: of all endpoints
    void turn_has_come(Transfer &transfer);
    // What an endpoint has here and has never sent, on its way to another flow, perhaps of another
    // loop.
    void give_up(const Endpoint &ep, List<Transfer, InFlow> &out);
    void adopt(List<Transfer, InFlow> &transfers);  // resume() follows
    void resume();

    void attach(Connection &connection);  // it is ready
    void detach(Connection &lost);
    void pump();                       // sends what there is credit for
    void done(Op &op, Status status);  // a channel's answer
    void noted(const Frame &frame);

    bool waiting() {
        return !small_.empty() || !bulk_.empty() || !held_.empty() || messages.waiting();
    }
    bool busy() { return !all_.empty(); }
    bool quiet();  // nothing of it is under way, though more may wait
    void on_transfer_timer(Transfer &transfer);

    MessageSender messages;          // messages
    void fence(Transfer &transfer);  // its buffers are quiet; the owner's word is waited for
    void complete(Transfer &transfer);
    Transfer *find_leaving(uint64_t connection, uint64_t number);  // a send
    uint64_t now() const;

private:
    using Queue = List<Transfer, InQueue>;
    Queue &queue_of(Transfer &transfer);
    bool feed(Transfer &transfer);    // false: there is no room for all of it
    bool refuse(Transfer &transfer);  // skips what is for another engine than the one connected
    Op &next(Transfer &transfer, const Caps &caps);
    void fail(Transfer &transfer, Op &op, Status status);
    void stop(Transfer &transfer);
    void orphan(Transfer &transfer, Op &op);
    void start(Transfer &transfer);
    void start_ready();
    void enqueue(Transfer &transfer);
    void count_inflight(const Transfer &transfer, bool begins);
    void recover(Transfer &transfer, Connection &lost);
    template <typename Meant, typename End>
    void end_each(Meant meant, End end);
    void begin_notifications();
    void close_notification(Transfer &transfer, Status status);
    void try_complete(Transfer &transfer);
    void arm(Transfer &transfer);
    uint64_t limit(const Transfer &transfer) const;
    void lose(Transfer &transfer, Connection &lost);

    Shard &shard_;
    Connection *connection_ = nullptr;
    List<Transfer, InFlow> all_;
    Queue small_, bulk_;
    Queue held_;   // they notify, and have not begun to
    Queue ready_;  // ordered, and their turn has come
    bool starting_ = false;
    List<Transfer, InEnding> ending_;  // collected by end_each
    NotifySender notify_sender_;
};

}  // namespace xfer
