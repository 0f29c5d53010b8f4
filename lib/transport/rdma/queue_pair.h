// SPDX-License-Identifier: Apache-2.0
// A reliable connected queue pair of a port, with the ledger of its send queue, and receives where
// they are asked for. It is connected once, and never reset to be used again: after an error, or
// when a post list was taken in part, it goes to ERR, is drained, and is destroyed; another takes
// its place. (lib/design/0057)
//
//     create → parameters() to the peer, connect(peer's) → post()... → fail() → on_drained() →
//     destroy()
//
// The first receives are posted before connect(): the peer may send as soon as it is connected.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "transport/rdma/chain.h"
#include "transport/rdma/completion_queue.h"
#include "transport/rdma/ledger.h"
#include "transport/rdma/parameters.h"
#include "transport/rdma/port.h"
#include "transport/rdma/post_list.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

// What is asked for; what is granted may be less, or more.
struct QueuePairOptions {
    uint32_t send_requests = 128;
    uint32_t send_pieces = 16;  // scatter/gather elements of a request
    uint32_t inline_bytes = 220;
    bool remote_access = true;  // to what is registered; else it sends and receives alone
    uint32_t receives = 0;      // of one scatter/gather element; a device with fewer is refused
    uint8_t ack_timeout = 14;   // 4.096 us × 2^this, until a packet is sent again; 1 to 31
    uint8_t retries = 6;        // of a packet; 7 is taken as 6, as some devices then never give up
    uint8_t rnr_retries = 6;    // as above, where the peer has no receive
    uint8_t service_level = 0;  // on InfiniBand
    uint8_t traffic_class = 0;  // on RoCE
};

// What one post list may be, and what the queue pair has.
struct QueuePairCaps {
    uint32_t send_requests = 0;  // of chains, all together; one more is kept for drains
    uint32_t send_pieces = 0;
    uint32_t inline_bytes = 0;
    uint32_t granted_requests = 0;  // as the device said
    uint32_t receives = 0;          // posted at once
    uint8_t reads_out = 0;          // 0 until it is connected, and then if there can be none
    ibv_mtu mtu = IBV_MTU_256;      // likewise
};

class QueuePair;
// On the loop's thread. The queue pair is not destroyed inside of these.
class QueuePairSink {
public:
    // Each chain of which anything was posted, once, in order. post() may be called inside.
    virtual void on_chain_ended(QueuePair &pair, const ChainEnd &end) = 0;
    // A message of so many bytes, no more than the receive has, lies in the buffer, which is no
    // longer the adapter's. In the order in which they were posted; also after fail(), of what had
    // come before. post_receive() and post() may be called inside. Buffers that nothing came in are
    // not told one by one: on_drained() gives them back, or destroy().
    virtual void on_received(QueuePair & /*pair*/, uint32_t /*buffer*/, uint32_t /*bytes*/) {}
    // A completion told an error; the queue pair takes nothing more, and is to be failed.
    virtual void on_error(QueuePair &pair, const Failure &why) = 0;
    // After fail(): every request and receive has ended, and the adapter touches none of their
    // memory.
    virtual void on_drained(QueuePair &pair) = 0;

protected:
    ~QueuePairSink() = default;
};

// How a post list was taken.
struct Posted {
    // full, too_large, degraded: nothing was posted. granted: it went to the adapter, and `why`
    // tells whether that took all of it.
    Admitted admitted = Admitted::granted;
    // Of the requests; the others never will be. A chain of which any was ends by on_chain_ended().
    // Where the driver did not say, all count as taken, and a chain may even end as done.
    uint32_t taken = 0;
    // Of ibv_post_send, if it is not XFER_OK. With nothing taken, the queue pair is as it was:
    // XFER_EAGAIN if completions that are to come may help, else XFER_EIO. With some of it taken,
    // XFER_EDEGRADED: the queue pair is to be failed.
    Failure why;
};

// Thread: the loop's.
class QueuePair final : CompletionSink {
public:
    // In INIT. Nothing is left of one that fails. Everything but the port outlives it. Random
    // numbers are those of wire/proof.h.
    static Result<std::unique_ptr<QueuePair>> create(const Verbs &verbs, const Port &port,
                                                     CompletionQueue &completions,
                                                     const QueuePairOptions &options,
                                                     QueuePairSink &sink);
    // Destroys it, if destroy() did not; then nothing is told. What the adapter refuses to destroy
    // is left to the end of its device.
    ~QueuePair();
    QueuePair(const QueuePair &) = delete;
    QueuePair &operator=(const QueuePair &) = delete;

    QueuePairParameters parameters() const;
    const QueuePairCaps &caps() const { return caps_; }
    const Ledger &ledger() const { return ledger_; }
    uint32_t free_slots() const { return ledger_.slots() - ledger_.outstanding(); }
    ChainLimits limits(uint32_t requests) const;  // of a chain of at most so many
    // For the events of the device, that name it so.
    ibv_qp *handle() const { return pair_; }

    // To RTR and RTS. One that fails can only be destroyed.
    Failure connect(const QueuePairParameters &peer);

    // Posts the list, which is not empty, by one doorbell: all of it or, where there are no slots
    // for that, nothing. Its wr_ids are set here, and which of its chains have a completion of
    // their own. Degraded unless it is connected.
    Posted post(PostList &list);

    // A message of the peer is to come into these bytes, of which the adapter may write until they
    // are told by on_received(), or the queue pair is drained or destroyed. `buffer` is the
    // caller's, told with it. Also before connect(). XFER_EAGAIN: nothing is posted; as many are
    // as were granted, or completions that are to come may help. XFER_EIO: nothing is posted.
    // XFER_EDEGRADED: the queue pair takes nothing more, and is to be failed; where it is this call
    // that made it so, the adapter may have these bytes until then.
    Failure post_receive(uint32_t buffer, uint64_t address, uint32_t length, uint32_t lkey);
    uint32_t receives_out() const { return receives_out_; }

    // To ERR: what is posted is flushed, and on_drained() told, perhaps inside. Where an adapter
    // does not do so, the owner does not wait for ever, and destroys. Again: nothing.
    void fail();
    bool is_drained() const { return drained_; }

    // When its ledger is empty, or after fail(). Chains that were not told of end here, as unknown,
    // by on_chain_ended(), and receives untold: the adapter touches their memory no more. A failure
    // (XFER_EBUSY: what refers to it has to end before) leaves it as it was, to be tried again.
    Failure destroy();

private:
    enum class State : uint8_t { init, broken, connected, failed };

    QueuePair(const Verbs &verbs, const Port &port, CompletionQueue &completions,
              const QueuePairOptions &options, QueuePairSink &sink);
    Failure open();
    Failure make();
    Failure too_few_receives() const;
    Failure initialise();
    Failure become_ready_to_send();
    ibv_ah_attr route_to(const QueuePairParameters &peer) const;
    Failure modify(ibv_qp_attr &attributes, int mask, const char *what);
    void number(PostList &list) const;
    void thin_completions(PostList &list) const;
    void record(const PostList &list, uint32_t taken);
    bool post_drain();
    void finish_drain();
    void end_sends();
    void tell_ended();
    void tell_error(const Failure &why);
    void detach();
    void on_sent(uint32_t sequence, ibv_wc_status status);
    void on_receive_ended(uint32_t buffer, const ibv_wc &completion);
    void on_completion(const RequestId &id, const ibv_wc &completion) override;

    const Verbs &verbs_;
    const Port port_;
    CompletionQueue &completions_;
    const QueuePairOptions options_;
    QueuePairSink &sink_;
    ibv_qp *pair_ = nullptr;
    QueuePairCaps caps_;
    uint32_t number_ = 0;    // in the completion queue
    uint32_t reserved_ = 0;  // there
    uint32_t psn_ = 0;
    State state_ = State::init;
    bool told_error_ = false;
    bool drain_out_ = false, drained_ = false;
    uint32_t receives_out_ = 0;  // posted, and nothing told of them
    Ledger ledger_{1};
};

}  // namespace xfer::rdma
