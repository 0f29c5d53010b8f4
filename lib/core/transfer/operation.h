// SPDX-License-Identifier: Apache-2.0
// What is submitted to a peer: filled by the caller's thread, then owned by the loop of the peer
// until its event was taken. What all operations have stands here; what one does at each step of
// its way is its class's: Transfer (bytes of regions), Send (a message), Receive (the pull of one),
// Flush.
#pragma once

#include <atomic>
#include <optional>

#include "core/base/cancel_index.h"
#include "core/base/counters.h"
#include "core/base/endpoint.h"
#include "core/base/event.h"
#include "core/base/mailbox.h"
#include "core/base/submit_order.h"
#include "loop/loop.h"
#include "util/status.h"

namespace xfer {

class Connection;
class Flow;
struct InFlow;  // list tags of an Operation
struct InQueue;
struct InEnding;

class Operation : public Cancelable,
                  public Message,
                  public TimerSink,
                  public Ordered,
                  public ListNode<InFlow>,
                  public ListNode<InQueue>,
                  public ListNode<InEnding> {
public:
    // Set before the submit.
    Endpoint *ep = nullptr;
    uint32_t timeout_ms = 0;  // 0: none
    bool quiet = false;       // no event if it ends well
    bool passes = false;      // every loop first, behind what was begun before it
    bool travels = false;     // between loops, where it holds a drain

    // The loop's, during the flight.
    Flow *flow = nullptr;
    std::atomic<const ShardCore *> on{nullptr};  // whose flow that is; read by any loop
    bool fencing = false;                        // ended for the user; waits for the owner's word
    bool maybe_applied = false;
    bool left_behind = false;  // its endpoint has moved to another peer meanwhile
    bool over = false;         // and it has ended: on its way to the loop of its endpoint
    Status status = XFER_OK;
    uint32_t origin = XFER_ORIGIN_NONE;
    int32_t native = 0;
    Text reason;                                       // one sentence, or nothing
    Counter moved;                                     // bytes; read from any thread
    uint64_t started = 0, progress = 0, deadline = 0;  // nanoseconds
    Timer timer{*this};

    void set_out();  // to another loop
    void start_clock(uint64_t now);
    void await_fence();                  // its buffers are quiet; the owner's word is waited for
    void lose(const Failure &why);       // the connection has ended, for that reason
    void blame(const Failure &cause);    // for what it is about to fail with
    std::optional<OpKind> kind() const;  // that it is counted as; nothing: it is not counted

    const Endpoint *begun_with() const override { return ep; }
    void arrive(ShardCore &shard) override;
    void on_timer(Timer &timer) override;
    void cancel() override;

    // ---- the steps that differ
    virtual bool brief() const { return true; }  // its submit moves kSmall bytes at most
    virtual void reset();                        // before its flight
    virtual bool start() = 0;  // waits for its connection; false: there is nothing to do
    // Some of it was sent, and not given back.
    virtual bool begun() const = 0;
    // Its endpoint moves to another peer. True: it has begun here, and ends here.
    virtual bool stays() = 0;
    // It ends with `status`, as soon as its buffers are quiet.
    virtual void withdraw() = 0;
    virtual void connection_lost(Connection &lost) = 0;
    virtual void fence_expired() {}      // the owner's word did not come in time
    virtual void look_for_progress() {}  // where no answer shows it
    // It has ended but for adapters that know its memory. False: Flow::left_adapters() follows.
    virtual bool leave_adapters() { return true; }
    // It waits for the peer's application as long as its deadline says, however long nothing moves.
    virtual bool patient() const { return false; }
    virtual void ended();                         // fills in its event
    virtual void settle(FirstFailure &failures);  // on the loop of its endpoint
    // Its end is an event.
    virtual bool tells() const { return !quiet || event.status != XFER_OK; }

protected:
    ~Operation() = default;
};

}  // namespace xfer
