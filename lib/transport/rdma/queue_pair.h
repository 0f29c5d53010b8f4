// SPDX-License-Identifier: Apache-2.0
// A reliable connected queue pair of one port, with the ledger of its send queue. It lives once:
// made, connected, and after a fault moved to ERR, flushed and destroyed; never reset and used
// again, which leaves some adapters dead. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "transport/rdma/chain.h"
#include "transport/rdma/ledger.h"
#include "transport/rdma/parameters.h"
#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

// What is asked for; a device may grant less of the inline bytes, and more of all else.
struct QueuePairOptions {
    uint32_t requests = 256;  // of the send queue
    uint32_t pieces = 16;     // scatter/gather elements of a request
    uint32_t inline_bytes = 220;
    // An end that does not answer is given up after about (retries + 1) × 4.096 us × 2^timeout.
    uint8_t timeout = 14, retries = 6;  // 7 retries would be for ever
};

class QueuePair {
public:
    // In the state INIT. `queue`: of the port's device, with room for completions() more.
    // `generation` tells its completions from those of others on that queue; `sequence_number` is
    // random. May throw. The failure leaves nothing.
    static Result<std::unique_ptr<QueuePair>> make(const Verbs &verbs, const Port &port,
                                                   ibv_cq *queue, const QueuePairOptions &options,
                                                   uint32_t generation, uint32_t sequence_number);
    // Best after destroy(), whose failure nobody hears then.
    ~QueuePair();
    QueuePair(const QueuePair &) = delete;
    QueuePair &operator=(const QueuePair &) = delete;

    const ibv_qp *handle() const { return pair_; }  // as events of the device name it
    QueuePairParameters parameters() const;         // for the other end
    // As granted: of a chain, which is at most as long as the queue.
    const ChainLimits &limits() const { return limits_; }
    uint32_t completions() const { return ledger_.capacity() + 1; }

    // To RTR and RTS, once. From then on the other end may reach what is registered here.
    Failure connect(const QueuePairParameters &other);
    uint8_t reads_out() const { return reads_out_; }

    const Ledger &ledger() const { return ledger_; }
    uint64_t next_id() const { return ledger_.id(); }  // that the next chain is built with
    // All of the chain, or nothing unless it is reserved. A device that takes a part of it degrades
    // the queue: fail() is next.
    Ledger::Verdict post(Chain &chain, void *user);

    // False: it is of no request of this queue pair. Of a completion with an error only the number
    // and the status are looked at.
    bool completed(const ibv_wc &completion);
    std::optional<Ledger::Chain> pop_done() { return ledger_.pop_done(); }
    std::optional<Ledger::Chain> pop_failed() { return ledger_.pop_failed(); }

    // To ERR: nothing more is sent, and what was posted is flushed. Once all of it has been, which
    // flushed() says, or it is destroyed, the chains that are left end as failed.
    void fail();
    bool flushed() const { return flushed_; }
    // The device touches no memory by it any more. What it could not destroy, as the failure says,
    // is tried again by the next call.
    Failure destroy();

private:
    QueuePair(const Verbs &verbs, const Port &port, ibv_qp *pair, const ibv_qp_cap &granted,
              const QueuePairOptions &options, uint32_t generation, uint32_t sequence_number);
    Failure modify(ibv_qp_attr &attributes, int mask, const char *to);
    Failure to_init();
    Failure to_receive(const QueuePairParameters &other, const AgreedParameters &agreed);
    Failure to_send(const AgreedParameters &agreed);
    void post_marker();

    const Verbs &verbs_;
    const Port &port_;
    ibv_qp *pair_;
    const QueuePairOptions options_;
    const uint32_t generation_, sequence_number_;
    ChainLimits limits_;
    Ledger ledger_;
    uint8_t reads_out_ = 0;
    bool failed_ = false, flushed_ = false;
};

}  // namespace xfer::rdma
