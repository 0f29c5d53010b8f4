// SPDX-License-Identifier: Apache-2.0
#include "core/cancel_request.h"

#include "core/engine.h"
#include "core/limits.h"
#include "core/shard.h"

namespace xfer {

// The first loop has the receives that wait. Pulls of those that name an endpoint, and all else of
// it, are on the endpoint's loop; pulls of the others may be on any.
void CancelRequest::arrive(Shard &shard) {
    if (shard.index == 0) engine_->receiving().cancel(ep_.get(), user_);
    if (ep_) {
        Shard *home = ep_->shard.load();
        if (home != &shard && home->post(*this)) return;
        shard.cancel(ep_.get(), user_);
    } else {
        shard.cancel(nullptr, user_);
        for (size_t next = shard.index + 1; next < engine_->shards().size(); ++next)
            if (engine_->shards()[next]->post(*this)) return;
    }
    engine_->cancel_requests().give_back(*this);
}

CancelRequests::CancelRequests(Engine &engine) : engine_(engine) {
    grow();  // for cancels that find nothing
}

void CancelRequests::grow() {
    blocks_.push_back(std::make_unique<CancelRequest[]>(kCancelRequests));
    for (uint32_t i = 0; i < kCancelRequests; ++i) {
        CancelRequest &request = blocks_.back()[i];
        request.pooled_ = true;
        free_.push_back(request);
    }
}

void CancelRequests::cover(uint64_t operations) {
    if (operations <= covered_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    while (covered_.load(std::memory_order_relaxed) < operations) {
        grow();
        covered_.fetch_add(kCancelRequests, std::memory_order_relaxed);
    }
}

CancelRequest &CancelRequests::take() {
    {
        const std::lock_guard lock(mutex_);
        if (CancelRequest *request = free_.pop_front()) return *request;
    }
    return *new CancelRequest;
}

void CancelRequests::post(Endpoint *ep, uint64_t user) {
    CancelRequest &request = take();
    request.engine_ = &engine_;
    if (ep) request.ep_ = Ref(*ep);
    request.user_ = user;
    if (!engine_.first_shard().post(request)) give_back(request);
}

void CancelRequests::give_back(CancelRequest &request) {
    const Ref<Endpoint> last = std::move(request.ep_);  // let go of without the lock
    if (!request.pooled_) return delete &request;
    const std::lock_guard lock(mutex_);
    free_.push_front(request);
}

}  // namespace xfer
