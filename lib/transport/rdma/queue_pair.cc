// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/queue_pair.h"

#include <algorithm>
#include <cerrno>

namespace xfer::rdma {

namespace {

constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms; no request here waits for a receive
constexpr uint8_t kRnrRetries = 6;    // 7 would be for ever
constexpr uint8_t kHopLimit = 64;
constexpr uint64_t kMaxRequest = uint64_t{1} << 30;  // bytes: what all devices take

// A device that does not say how many inline bytes it has refuses too many.
ibv_qp *create(const Verbs &verbs, ibv_pd *domain, ibv_qp_init_attr &attributes) {
    const ibv_qp_cap wanted = attributes.cap;
    uint32_t inline_bytes = wanted.max_inline_data;
    while (true) {
        attributes.cap = wanted;
        attributes.cap.max_inline_data = inline_bytes;
        ibv_qp *const made = verbs.create_qp(domain, &attributes);
        if (made || errno != EINVAL || inline_bytes == 0) return made;
        inline_bytes /= 2;
    }
}

// How many of the list the device has taken. `bad`: the first that it has not; what is none of the
// list says nothing, and so all of it may be under way.
uint32_t taken_of(Chain &chain, const ibv_send_wr *bad) {
    uint32_t before = 0;
    for (const ibv_send_wr *at = chain.first(); at; at = at->next, ++before)
        if (at == bad) return before;
    return before;
}

}  // namespace

QueuePair::QueuePair(const Verbs &verbs, const Port &port, ibv_qp *pair, const ibv_qp_cap &granted,
                     const QueuePairOptions &options, uint32_t generation, uint32_t sequence_number)
    : verbs_(verbs),
      port_(port),
      pair_(pair),
      options_(options),
      generation_(generation),
      sequence_number_(sequence_number & 0xffffff),
      ledger_(granted.max_send_wr - 1, generation) {
    limits_.requests = ledger_.capacity();
    limits_.pieces = limits_.read_pieces = std::max(granted.max_send_sge, 1u);
    limits_.bytes = kMaxRequest;
    limits_.inline_bytes = granted.max_inline_data;
}

// One slot more than chains may have, for the marker.
Result<std::unique_ptr<QueuePair>> QueuePair::make(const Verbs &verbs, const Port &port,
                                                   ibv_cq *queue, const QueuePairOptions &options,
                                                   uint32_t generation, uint32_t sequence_number) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr =
        std::max(2u, std::min(options.requests + 1, port.limits.send_requests));
    attributes.cap.max_send_sge = std::max(1u, std::min(options.pieces, port.limits.send_pieces));
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = options.inline_bytes;
    const uint32_t asked = attributes.cap.max_send_wr;
    ibv_qp *const pair = create(verbs, port.domain, attributes);
    if (!pair) return verbs_failure(errno, Text(port.name) + ": no queue pair can be made");
    // Whatever more is granted, the completion queue has room for what was asked.
    attributes.cap.max_send_wr = std::clamp(attributes.cap.max_send_wr, 2u, asked);
    std::unique_ptr<QueuePair> made;
    try {
        made.reset(
            new QueuePair(verbs, port, pair, attributes.cap, options, generation, sequence_number));
    } catch (...) {
        verbs.destroy_qp(pair);
        throw;
    }
    if (Failure why = made->to_init(); why.status != XFER_OK) return why;
    return {std::move(made)};
}

QueuePair::~QueuePair() {
    [[maybe_unused]] const Failure why = destroy();
}

QueuePairParameters QueuePair::parameters() const {
    QueuePairParameters made;
    made.address = port_.address;
    made.number = pair_->qp_num;
    made.sequence_number = sequence_number_;
    made.reads_in = port_.limits.reads_in;
    return made;
}

// ---- its states

Failure QueuePair::modify(ibv_qp_attr &attributes, int mask, const char *to) {
    const int result = verbs_.modify_qp(pair_, &attributes, mask | IBV_QP_STATE);
    if (result == 0) return {};
    return verbs_failure(verbs_errno(result),
                         Text(port_.name) + ": a queue pair can't be moved to " + to);
}

Failure QueuePair::to_init() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = port_.pkey_index;
    attributes.port_num = port_.number;
    // What a peer may do with which memory, the keys of that say.
    attributes.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return modify(attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

Failure QueuePair::connect(const QueuePairParameters &other) {
    auto agreed = agree(port_, other);
    if (!agreed) return agreed.error();
    reads_out_ = agreed->reads_out;
    if (Failure why = to_receive(other, *agreed); why.status != XFER_OK) return why;
    return to_send(*agreed);
}

Failure QueuePair::to_receive(const QueuePairParameters &other, const AgreedParameters &agreed) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = agreed.mtu;
    attributes.dest_qp_num = other.number;
    attributes.rq_psn = other.sequence_number;
    attributes.max_dest_rd_atomic = port_.limits.reads_in;
    attributes.min_rnr_timer = kMinRnrTimer;
    attributes.ah_attr.port_num = port_.number;
    attributes.ah_attr.dlid = other.address.lid;
    attributes.ah_attr.is_global = agreed.by_gid;
    if (agreed.by_gid) {
        attributes.ah_attr.grh.dgid = other.address.gid;
        attributes.ah_attr.grh.sgid_index = port_.gid_index;
        attributes.ah_attr.grh.hop_limit = kHopLimit;
    }
    return modify(attributes,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                  "RTR");
}

Failure QueuePair::to_send(const AgreedParameters &agreed) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = options_.timeout;
    attributes.retry_cnt = options_.retries;
    attributes.rnr_retry = kRnrRetries;
    attributes.sq_psn = sequence_number_;
    attributes.max_rd_atomic = agreed.reads_out;
    return modify(attributes,
                  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC,
                  "RTS");
}

// ---- its send queue

Ledger::Verdict QueuePair::post(Chain &chain, void *user) {
    if (failed_) return Ledger::Verdict::degraded;
    const Ledger::Verdict verdict = ledger_.reserve(chain.requests());
    if (verdict != Ledger::Verdict::reserved) return verdict;
    ibv_send_wr *bad = nullptr;
    const bool refused = ibv_post_send(pair_, chain.first(), &bad) != 0;
    const uint64_t id = ledger_.id();
    const uint32_t taken = refused ? taken_of(chain, bad) : chain.requests();
    ledger_.posted({chain.requests(), user}, taken);
    if (refused && taken == chain.requests()) ledger_.completed(id, false);
    return verdict;
}

bool QueuePair::completed(const ibv_wc &completion) {
    const RequestId id = RequestId::of(completion.wr_id);
    if (id.kind != RequestKind::marker)
        return ledger_.completed(completion.wr_id, completion.status == IBV_WC_SUCCESS);
    if (id.generation != (generation_ & 0xffffff) || !failed_) return false;
    flushed_ = true;
    ledger_.flushed();
    return true;
}

// Requests are flushed in their order: behind the marker nothing is under way.
void QueuePair::fail() {
    if (failed_ || !pair_) return;
    failed_ = true;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    // One that can't be moved, as its device is gone, has to be destroyed.
    if (modify(attributes, 0, "ERR").status == XFER_OK) post_marker();
}

void QueuePair::post_marker() {
    ibv_send_wr marker{}, *bad = nullptr;
    marker.wr_id = RequestId{RequestKind::marker, generation_, 0}.word();
    marker.opcode = IBV_WR_RDMA_WRITE;
    marker.send_flags = IBV_SEND_SIGNALED;
    ibv_post_send(pair_, &marker, &bad);  // refused: destroy() ends what is left
}

Failure QueuePair::destroy() {
    if (!pair_) return {};
    const int result = verbs_.destroy_qp(pair_);
    if (result)
        return verbs_failure(verbs_errno(result),
                             Text(port_.name) + ": a queue pair can't be destroyed");
    pair_ = nullptr;
    failed_ = flushed_ = true;
    ledger_.flushed();
    return {};
}

}  // namespace xfer::rdma
