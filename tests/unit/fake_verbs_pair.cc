// SPDX-License-Identifier: Apache-2.0
// Queue pairs: made, asked, ended.
#include <algorithm>
#include <cerrno>

#include "fake_verbs_objects.h"

namespace xfer::rdma {

// With errno set where it does not.
bool FakeTable::grants(FakeAdapter &adapter, const ibv_qp_init_attr &attributes) {
    const DeviceLimits &limits = adapter.options_.limits;
    const ibv_qp_cap &cap = attributes.cap;
    if (adapter.objects_->pairs.live() >= limits.queue_pairs) {
        errno = ENOMEM;
        return false;
    }
    if (attributes.qp_type == IBV_QPT_RC && attributes.send_cq && attributes.recv_cq &&
        !attributes.srq && cap.max_send_wr > 0 && cap.max_send_wr <= limits.send_requests &&
        cap.max_recv_wr <= limits.send_requests && cap.max_send_sge <= limits.send_pieces &&
        cap.max_recv_sge <= limits.send_pieces)
        return true;
    adapter.fabric_.violate(Violation::capacity,
                            "a queue pair of " + std::to_string(cap.max_send_wr) + " sends of " +
                                std::to_string(cap.max_send_sge) + " pieces and " +
                                std::to_string(cap.max_recv_wr) + " receives of " +
                                std::to_string(cap.max_recv_sge) + ", or not an RC one");
    errno = EINVAL;
    return false;
}

ibv_qp *FakeTable::create_qp(ibv_pd *handle, ibv_qp_init_attr *attributes) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &domain = *static_cast<FakeDomain *>(handle);
    if (!fabric.alive(&domain)) {
        errno = EINVAL;
        return nullptr;
    }
    for (const ibv_cq *queue : {attributes->send_cq, attributes->recv_cq})
        if (queue && queue->context != handle->context) {
            fabric.violate(Violation::context, "a queue pair and its completion queue");
            errno = EINVAL;
            return nullptr;
        }
    if (fabric.fails(FakeCall::create_qp) || !grants(adapter, *attributes)) return nullptr;

    const FakeAdapterOptions &options = adapter.options_;
    FakeAdapter::Objects &objects = *adapter.objects_;
    ibv_qp_cap &cap = attributes->cap;
    if (options.granted_sends > 0) cap.max_send_wr = options.granted_sends;
    if (options.granted_receives > 0 && cap.max_recv_wr > 0)
        cap.max_recv_wr = options.granted_receives;
    cap.max_inline_data = std::min(cap.max_inline_data, options.inline_bytes);

    FakeQueuePair &pair = objects.pairs.add();
    pair.context = handle->context;
    pair.qp_context = attributes->qp_context;
    pair.pd = handle;
    pair.send_cq = attributes->send_cq;
    pair.recv_cq = attributes->recv_cq;
    pair.qp_num = objects.pair_numbers.take();
    pair.qp_type = attributes->qp_type;
    pair.state = IBV_QPS_RESET;
    pair.all_signaled = attributes->sq_sig_all;
    pair.cap = cap;
    pair.set_slots(cap.max_send_wr);
    objects.by_number[pair.qp_num] = &pair;
    fabric.pairs_.push_back(&pair);
    ++domain.users;
    for (ibv_cq *queue : {pair.send_cq, pair.recv_cq}) {
        fabric.alive(static_cast<FakeCompletionQueue *>(queue));
        ++static_cast<FakeCompletionQueue *>(queue)->users;
    }
    return &pair;
}

int FakeTable::query_qp(ibv_qp *handle, ibv_qp_attr *out, int, ibv_qp_init_attr *init) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    const auto &pair = *static_cast<FakeQueuePair *>(handle);
    if (!fabric.alive(&pair)) return EINVAL;
    if (fabric.fails(FakeCall::query_qp)) return errno;
    *out = pair.attributes;
    out->qp_state = out->cur_qp_state = pair.phase;
    out->cap = pair.cap;
    *init = {};
    init->qp_context = pair.qp_context;
    init->send_cq = pair.send_cq;
    init->recv_cq = pair.recv_cq;
    init->cap = pair.cap;
    init->qp_type = pair.qp_type;
    init->sq_sig_all = pair.all_signaled;
    return 0;
}

// Most drivers take the completions along; verbs permit them to stay.
void FakeTable::forget_completions(FakeFabric &fabric, FakeQueuePair &pair) {
    if (pair.unpolled > 0)
        fabric.violate(Violation::unpolled,
                       std::to_string(pair.unpolled) + " completions that nobody saw");
    const bool stay = fabric.personality_.late_completions;
    while (stay && (fabric.release(pair, false) || fabric.release(pair, true))) {}
    for (ibv_cq *queue : {pair.send_cq, pair.recv_cq}) {
        auto &entries = static_cast<FakeCompletionQueue *>(queue)->entries;
        const auto is_of = [&](const FakeCompletion &kept) { return kept.pair == &pair; };
        if (!stay) std::erase_if(entries, is_of);
        for (FakeCompletion &kept : entries)
            if (is_of(kept)) kept.pair = nullptr;
    }
    pair.held_sends.clear();
    pair.held_receives.clear();
    pair.receives.clear();
    pair.unpolled = pair.receives_out = 0;
    pair.freed = pair.reported = pair.posted = 0;
}

// Before RTR no device has touched its receives.
int FakeTable::destroy_qp(ibv_qp *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &pair = *static_cast<FakeQueuePair *>(handle);
    if (!fabric.alive(&pair)) return EINVAL;
    const bool untouched = pair.phase == IBV_QPS_RESET || pair.phase == IBV_QPS_INIT;
    if (pair.has_open_requests() && !untouched)
        fabric.violate(Violation::busy_pair,
                       "destroyed with " + std::to_string(pair.posted - pair.reported) +
                           " sends and " + std::to_string(pair.receives.size()) + " receives");
    forget_completions(fabric, pair);
    forget_events(fabric, pair.context, &pair, pair.async_unacked);
    for (ibv_cq *queue : {pair.send_cq, pair.recv_cq})
        --static_cast<FakeCompletionQueue *>(queue)->users;
    --static_cast<FakeDomain *>(pair.pd)->users;
    FakeAdapter::Objects &objects = *adapter.objects_;
    std::vector<FakeWindow *> windows;
    for (const auto &[key, window] : objects.bound)
        if (window->bound == &pair) windows.push_back(window);
    if (!windows.empty())
        fabric.violate(Violation::busy_pair, "destroyed under its windows: drivers wait for them");
    for (FakeWindow *window : windows)
        objects.unbind(*window);
    objects.by_number.erase(pair.qp_num);
    objects.pair_numbers.give_back(pair.qp_num);
    std::erase(fabric.pairs_, &pair);
    pair.set_slots(0);
    objects.pairs.bury(pair);
    return 0;
}

// What the program has not asked for, it is told.
void FakeFabric::enter_error(FakeQueuePair &pair, ibv_event_type event) {
    pair.phase = IBV_QPS_ERR;
    ibv_async_event told{};
    told.event_type = event;
    told.element.qp = &pair;
    tell(adapter_of(pair.context), told, pair.context);
}

}  // namespace xfer::rdma
