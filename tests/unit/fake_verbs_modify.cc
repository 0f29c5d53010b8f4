// SPDX-License-Identifier: Apache-2.0
// The states of an RC queue pair, and what each transition needs and takes.
#include <cerrno>
#include <cstring>

#include "fake_verbs_objects.h"

namespace xfer::rdma {
namespace {

struct Transition {
    ibv_qp_state from, to;
    int needs, takes;  // IBV_QP_STATE is in all
};

constexpr int kAnyTime = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
                         IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int kBasics = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceiving = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kSending =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kBasics, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kBasics},
    {IBV_QPS_INIT, IBV_QPS_RTR, kReceiving,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kSending, kAnyTime},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kAnyTime},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kAnyTime},
};

const Transition *find_transition(ibv_qp_state from, ibv_qp_state to) {
    static constexpr Transition kEnd{IBV_QPS_UNKNOWN, IBV_QPS_ERR, 0, 0};
    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) return &kEnd;
    for (const Transition &transition : kTransitions)
        if (transition.from == from && transition.to == to) return &transition;
    return nullptr;
}

constexpr uint32_t kNumbers = 1 << 24;  // of queue pairs, and sequence numbers

// Judges the values of one call; the first violation counts.
class AttributeCheck {
public:
    AttributeCheck(const FakeAdapterOptions &options, const ibv_qp_attr &attributes, int mask)
        : options_(options), attributes_(attributes), mask_(mask) {}

    bool sound() {
        basics();
        route();
        receiving();
        sending();
        return why_ == nullptr;
    }
    Violation violation() const { return violation_; }
    const char *why() const { return why_; }

private:
    void rule(int attribute, bool kept, Violation violation, const char *why) {
        if (!(mask_ & attribute) || kept || why_) return;
        violation_ = violation;
        why_ = why;
    }
    void basics() {
        rule(IBV_QP_PORT, attributes_.port_num == 1, Violation::address, "no such port");
        rule(IBV_QP_PKEY_INDEX, attributes_.pkey_index == 0, Violation::address,
             "no such partition key");
        const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        rule(IBV_QP_ACCESS_FLAGS, !(attributes_.qp_access_flags & ~known), Violation::access_flags,
             "flags that are not for a queue pair");
    }
    void route() {
        const ibv_ah_attr &to = attributes_.ah_attr;
        rule(IBV_QP_AV, to.port_num == 1, Violation::address, "a route by no such port");
        if (options_.layer == LinkLayer::ethernet)
            rule(IBV_QP_AV, to.is_global, Violation::address, "no GID on Ethernet");
        else
            rule(IBV_QP_AV, to.dlid != 0, Violation::address, "no LID on InfiniBand");
        if (!to.is_global) return;
        rule(IBV_QP_AV, to.grh.sgid_index == 0, Violation::address, "no such GID of ours");
        rule(IBV_QP_AV, to.grh.hop_limit > 0, Violation::address, "a hop limit of 0");
    }
    void receiving() {
        rule(IBV_QP_PATH_MTU,
             attributes_.path_mtu >= IBV_MTU_256 && attributes_.path_mtu <= options_.mtu,
             Violation::mtu, "larger than that of the port, or none");
        rule(IBV_QP_DEST_QPN, attributes_.dest_qp_num < kNumbers, Violation::attributes,
             "a queue pair number of more than 24 bits");
        rule(IBV_QP_RQ_PSN, attributes_.rq_psn < kNumbers, Violation::attributes,
             "a sequence number of more than 24 bits");
        rule(IBV_QP_MAX_DEST_RD_ATOMIC, attributes_.max_dest_rd_atomic <= options_.limits.reads_in,
             Violation::reads, "more as target than the device takes");
        rule(IBV_QP_MIN_RNR_TIMER, attributes_.min_rnr_timer < 32, Violation::attributes,
             "a timer of more than 5 bits");
    }
    void sending() {
        rule(IBV_QP_SQ_PSN, attributes_.sq_psn < kNumbers, Violation::attributes,
             "a sequence number of more than 24 bits");
        rule(IBV_QP_MAX_QP_RD_ATOMIC, attributes_.max_rd_atomic <= options_.limits.reads_out,
             Violation::reads, "more as initiator than the device has");
        rule(IBV_QP_TIMEOUT, attributes_.timeout < 32, Violation::attributes,
             "a timeout of more than 5 bits");
        rule(IBV_QP_RETRY_CNT, attributes_.retry_cnt < 8, Violation::attributes,
             "a retry count of more than 3 bits");
        rule(IBV_QP_RNR_RETRY, attributes_.rnr_retry < 8, Violation::attributes,
             "a retry count of more than 3 bits");
    }

    const FakeAdapterOptions &options_;
    const ibv_qp_attr &attributes_;
    const int mask_;
    Violation violation_{};
    const char *why_ = nullptr;
};

// Those of `mask`, over what the queue pair has.
void apply(ibv_qp_attr &to, const ibv_qp_attr &from, int mask) {
    if (mask & IBV_QP_PKEY_INDEX) to.pkey_index = from.pkey_index;
    if (mask & IBV_QP_PORT) to.port_num = from.port_num;
    if (mask & IBV_QP_ACCESS_FLAGS) to.qp_access_flags = from.qp_access_flags;
    if (mask & IBV_QP_AV) to.ah_attr = from.ah_attr;
    if (mask & IBV_QP_PATH_MTU) to.path_mtu = from.path_mtu;
    if (mask & IBV_QP_DEST_QPN) to.dest_qp_num = from.dest_qp_num;
    if (mask & IBV_QP_RQ_PSN) to.rq_psn = from.rq_psn;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    if (mask & IBV_QP_MIN_RNR_TIMER) to.min_rnr_timer = from.min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT) to.timeout = from.timeout;
    if (mask & IBV_QP_RETRY_CNT) to.retry_cnt = from.retry_cnt;
    if (mask & IBV_QP_RNR_RETRY) to.rnr_retry = from.rnr_retry;
    if (mask & IBV_QP_SQ_PSN) to.sq_psn = from.sq_psn;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) to.max_rd_atomic = from.max_rd_atomic;
}

}  // namespace

bool FakeTable::may_modify(FakeAdapter &adapter, const FakeQueuePair &pair,
                           const ibv_qp_attr &attributes, int mask) {
    FakeFabric &fabric = adapter.fabric_;
    const ibv_qp_state from = pair.phase,
                       to = mask & IBV_QP_STATE ? attributes.qp_state : pair.phase;
    const std::string way = std::to_string(from) + " to " + std::to_string(to);
    const Transition *transition = find_transition(from, to);
    if (!transition || ((mask & IBV_QP_CUR_STATE) && attributes.cur_qp_state != from)) {
        fabric.violate(Violation::transition, "from state " + way);
        return false;
    }
    const int missing = transition->needs & ~mask,
              extra = mask & ~(transition->needs | transition->takes | IBV_QP_STATE);
    if (missing || extra) {
        fabric.violate(Violation::attributes, "from state " + way + " without the attributes " +
                                                  std::to_string(missing) + ", with " +
                                                  std::to_string(extra));
        return false;
    }
    AttributeCheck check(adapter.options_, attributes, mask);
    if (!check.sound()) {
        fabric.violate(check.violation(), check.why());
        return false;
    }
    if (((mask & IBV_QP_RETRY_CNT) && attributes.retry_cnt == 7) ||
        ((mask & IBV_QP_TIMEOUT) && attributes.timeout == 0))
        fabric.violate(Violation::endless, "a dead peer would never be noticed");
    return true;
}

int FakeTable::modify_qp(ibv_qp *handle, ibv_qp_attr *attributes, int mask) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &pair = *static_cast<FakeQueuePair *>(handle);
    if (!fabric.alive(&pair)) return EINVAL;
    const ibv_qp_state to = mask & IBV_QP_STATE ? attributes->qp_state : pair.phase;
    FakeFabric::Plan &plan = fabric.modify_plans_[to];
    if (FakeFabric::fires(plan)) {
        fabric.meet(to);
        return errno = plan.error;
    }
    if (!may_modify(adapter, pair, *attributes, mask)) return errno = EINVAL;

    apply(pair.attributes, *attributes, mask);
    pair.phase = pair.state = to;
    if (mask & IBV_QP_RQ_PSN) pair.receive_psn = attributes->rq_psn;
    if (mask & IBV_QP_SQ_PSN) pair.send_psn = attributes->sq_psn;
    if (to == IBV_QPS_RTS) pair.was_ready = true;
    if (to != IBV_QPS_RESET) {
        fabric.posted();
        return 0;
    }
    if (pair.has_open_requests())
        fabric.violate(Violation::busy_pair, "reset with requests that are not over");
    forget_completions(fabric, pair);
    if (pair.was_ready && fabric.personality_.reset_is_final) pair.mute = true;
    return 0;
}

}  // namespace xfer::rdma
