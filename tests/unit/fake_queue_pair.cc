// SPDX-License-Identifier: Apache-2.0
#include "fake_queue_pair.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace xfer::rdma {

namespace {

FakeQueuePort *the_port = nullptr;

// What each step must say, no more and no less.
int mask_of(ibv_qp_state to) {
    switch (to) {
    case IBV_QPS_INIT:
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    case IBV_QPS_RTR:
        return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    case IBV_QPS_RTS:
        return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC;
    default:
        return IBV_QP_STATE;
    }
}

bool may_move(ibv_qp_state from, ibv_qp_state to) {
    if (to == IBV_QPS_ERR) return true;
    return (from == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
           (from == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
           (from == IBV_QPS_RTR && to == IBV_QPS_RTS);
}

}  // namespace

FakeQueuePort::FakeQueuePort() {
    REQUIRE(!std::exchange(the_port, this));
    verbs_.create_qp = [](ibv_pd *domain, ibv_qp_init_attr *attributes) {
        return of(domain->context).create(attributes);
    };
    verbs_.modify_qp = [](ibv_qp *pair, ibv_qp_attr *attributes, int mask) {
        return of(pair->context).modify(attributes, mask);
    };
    verbs_.destroy_qp = [](ibv_qp *pair) { return of(pair->context).destroy(); };
    context_.ops.post_send = [](ibv_qp *pair, ibv_send_wr *first, ibv_send_wr **bad) {
        return of(pair->context).post(first, bad);
    };
    domain_.context = &context_;
    queue.context = &context_;
    port.context = &context_;
    port.domain = &domain_;
    port.name = "fake0:1";
    port.gid_index = 3;
    port.pkey_index = 2;
    port.address = {LinkLayer::ethernet, 0, {}, IBV_MTU_4096};
    port.address.gid.raw[15] = 1;
    port.limits = {100, 64, 4, 1'000, UINT64_MAX, 16, 8, false, false};
    port.active = true;
}

FakeQueuePort::~FakeQueuePort() {
    CHECK_FALSE(pair_);
    the_port = nullptr;
}

FakeQueuePort &FakeQueuePort::of(ibv_context *context) {
    REQUIRE(the_port);
    CHECK(context == &the_port->context_);
    return *the_port;
}

bool FakeQueuePort::fails() {
    if (++calls_ != failing_) return false;
    errno = error_;
    return true;
}

// ---- its life

ibv_qp *FakeQueuePort::create(ibv_qp_init_attr *attributes) {
    if (fails()) return nullptr;
    CHECK(attributes->qp_type == IBV_QPT_RC);
    CHECK(attributes->sq_sig_all == 0);
    CHECK(attributes->send_cq == &queue);
    CHECK(attributes->cap.max_send_wr <= port.limits.send_requests);
    CHECK(attributes->cap.max_send_sge <= port.limits.send_pieces);
    REQUIRE_FALSE(pair_);
    if (attributes->cap.max_inline_data > inline_bytes) return errno = EINVAL, nullptr;
    attributes->cap.max_inline_data = inline_bytes;
    granted_ = attributes->cap;
    pair_ = std::make_unique<ibv_qp>();
    pair_->context = &context_;
    pair_->qp_num = 0x4711;
    state_ = IBV_QPS_RESET;
    used_ = owed_ = 0;
    return pair_.get();
}

int FakeQueuePort::modify(ibv_qp_attr *attributes, int mask) {
    if (fails()) return error_;
    const ibv_qp_state to = attributes->qp_state;
    CHECK(mask == mask_of(to));
    CHECK(may_move(state_, to));
    if (to == IBV_QPS_RTS) CHECK(attributes->retry_cnt < 7);
    if (to == IBV_QPS_RTS) CHECK(attributes->rnr_retry < 7);
    seen_[to] = *attributes;
    state_ = to;
    if (to == IBV_QPS_ERR) flush();
    return 0;
}

int FakeQueuePort::destroy() {
    if (fails()) return error_;
    pair_.reset();
    posted_.clear();
    completions_.clear();
    return 0;
}

// ---- its send queue

int FakeQueuePort::post(ibv_send_wr *first, ibv_send_wr **bad) {
    CHECK((state_ == IBV_QPS_RTS || state_ == IBV_QPS_ERR));
    static ibv_send_wr foreign;
    for (ibv_send_wr *at = first; at; at = at->next) {
        const bool full = used_ == granted_.max_send_wr;
        CHECK_FALSE(full);  // who counts slots never meets that
        if (full || takes_ == 0u) {
            takes_.reset();
            *bad = bad_ == Bad::right ? at : bad_ == Bad::null ? nullptr : &foreign;
            return ENOMEM;
        }
        if (takes_) --*takes_;
        CHECK(static_cast<uint32_t>(at->num_sge) <= granted_.max_send_sge);
        uint64_t bytes = 0;
        for (int i = 0; i < at->num_sge; ++i)
            bytes += at->sg_list[i].length;
        if (at->send_flags & IBV_SEND_INLINE) CHECK(bytes <= granted_.max_inline_data);
        ++used_;
        log_.push_back(*at);
        posted_.push_back({at->wr_id, bool(at->send_flags & IBV_SEND_SIGNALED)});
    }
    if (state_ == IBV_QPS_ERR) flush();
    return 0;
}

void FakeQueuePort::complete(const Posted &request, ibv_wc_status status) {
    ++owed_;
    if (status == IBV_WC_SUCCESS && !request.signaled) return;
    ibv_wc told;
    std::memset(&told, 0xee, sizeof told);
    told.wr_id = request.id;
    told.status = status;
    completions_.emplace_back(told, std::exchange(owed_, 0u));
}

void FakeQueuePort::carry_out(bool well) {
    REQUIRE_FALSE(posted_.empty());
    const Posted first = posted_.front();
    posted_.pop_front();
    complete(first, well ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
    if (well) return;
    state_ = IBV_QPS_ERR;
    flush();
}

void FakeQueuePort::flush() {
    for (; !posted_.empty(); posted_.pop_front())
        complete(posted_.front(), IBV_WC_WR_FLUSH_ERR);
}

std::optional<ibv_wc> FakeQueuePort::poll() {
    if (completions_.empty()) return std::nullopt;
    const auto [told, slots] = completions_.front();
    completions_.pop_front();
    used_ -= slots;
    return told;
}

}  // namespace xfer::rdma
