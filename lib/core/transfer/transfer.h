// SPDX-License-Identifier: Apache-2.0
// A batch, or a single put, get or atomic, on its way: filled by the caller's thread, then owned by
// the loop of its peer until its event was taken.
#pragma once

#include <vector>

#include "core/base/counters.h"
#include "core/base/event.h"
#include "core/base/mailbox.h"
#include "core/peer/endpoint.h"
#include "core/transfer/cancel_request.h"
#include "core/transfer/entry_runs.h"
#include "core/transfer/submit_order.h"
#include "transport/transport.h"

namespace xfer {

class Flow;
struct InFlow;  // list tags of a Transfer
struct InQueue;
struct InEnding;

// What one ref of a batch names, and whether its owner has refused it.
struct Remote {
    EngineId owner{};
    uint64_t incarnation = 0;
    Access access;
    Status refused = XFER_OK;
};

class Transfer : public Cancelable,
                 public Message,
                 public TimerSink,
                 public ListNode<InFlow>,
                 public ListNode<InQueue>,
                 public ListNode<InEnding>,
                 public Ordered {
public:
    Transfer() : timer(*this) {}

    void arrive(Shard &shard) override;
    void on_timer(Timer &timer) override;

    // Set before the submit.
    Endpoint *ep = nullptr;
    PieceList list;
    std::vector<Remote> remotes;
    uint32_t timeout_ms = 0;  // 0: none
    bool notifies = false;
    bool checked = false;
    bool quiet = false;    // no event if it ends well
    bool passes = false;   // every loop first, behind what was begun before it
    bool travels = false;  // between loops, where it holds a drain
    uint64_t notify_key = 0;
    std::vector<uint8_t> notify_data;  // for the owner's application, if it ends well

    Atomic atomic;               // of an atomic: what it does,
    uint64_t *result = nullptr;  // and where the value before goes, beside the event; null: nowhere
    uint64_t before = 0;

    // Moves bytes of regions; sends a message; pulls one that a receive of ours has matched; or
    // waits for all before it, which is to be ordered and have nothing to do.
    enum class Role : uint8_t { moves, sends, pulls, flushes };
    Role role = Role::moves;
    struct Letter {
        const uint8_t *data = nullptr;  // of a send
        uint64_t length = 0, tag = 0;
        bool sync = false;
        uint64_t number = 0;      // on its connection; 0: it is not on one yet
        uint64_t connection = 0;  // whose number that is; 0: a receive that has no message yet
        bool pulled = false;      // the peer has asked for its bytes
        uint32_t leaving = 0;   // lanes by which they are on their way out: its end waits for them
        bool answered = false;  // it has ended but for that
    } letter;

    // The loop's, during the flight.
    Flow *flow = nullptr;
    Cursor next;  // what was not drawn yet
    List<Op, InTransfer> inflight;
    List<Op, InTransfer> unsent;  // drawn for a connection that ended before they left
    uint32_t inflight_count = 0;
    bool stopped = false;  // no more is drawn
    bool fencing = false;  // ended for the user; waits for the owner's word
    bool maybe_applied = false;
    Status status = XFER_OK;
    uint32_t origin = XFER_ORIGIN_NONE;
    int32_t native = 0;
    Text reason;                // one sentence, or nothing
    Counter moved;              // bytes; read from any thread
    uint64_t notification = 0;  // its number on the connection, 0: not begun
    bool answered = false;      // some of it, there
    bool closed_notification = false, noted = false;
    bool left_behind = false;  // its endpoint has moved to another peer meanwhile
    bool over = false;         // and it has ended: on its way to the loop of its endpoint
    uint64_t started = 0, progress = 0, deadline = 0;  // nanoseconds
    EntryRuns runs;
    Timer timer;

    void set_out();  // to another loop
    void begin(uint64_t now);
    // The chunk from there on, which moves, as far as the op may be long.
    void cut(Op &op, Cursor &from, std::vector<Piece> &scratch);
    void fail(const Op &op, Status why);  // its first failure is what it ends with
    void lose(const Failure &why);        // the connection has ended, for that reason
    void apply(const Op &op);             // an atomic was done, whatever became of it here
    void blame(const Failure &cause);     // for what it is about to fail with
    void fail_entries(const Op &op, Status why);
    void fail_entries(uint64_t first, uint64_t last, Status why);
    void begin_anew();     // nothing of it was ever sent
    virtual void ended();  // its event is filled in
    // Some of it was sent, and not given back.
    bool begun() const {
        return inflight_count || moved.get() || !unsent.empty() || notification || letter.number;
    }
    bool drawn() const { return stopped || (unsent.empty() && list.at_end(next)); }
    bool counted() const { return role != Role::flushes; }
    OpKind kind() const;
    const Endpoint *begun_with() const override { return ep; }
    void cancel() override;

protected:
    ~Transfer() = default;
};

}  // namespace xfer
