// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/cancel_request.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/transfer/stream_submission.h"
#include "util/memory.h"

namespace xfer {

// The first loop has the receives that wait, and the drain. All else of an endpoint is on the
// endpoint's loop, or, once it has moved, on its way there; what was begun with any, or with none,
// may be on each.
void CancelRequest::arrive(ShardCore &shard) {
    if (shard.index == 0 && !again_) {
        shard.cancel_receives(scope_);
        if (!ep_) engine_->draining().cancel(scope_, shard);
    }
    if (ep_ && !ep_->moved.load()) {
        ShardCore *home = ep_->shard.load();
        if (home != &shard && home->post(*this)) return;
        cancel_in(shard);
    } else {
        cancel_in(shard);
        if (pass_on(shard)) return;
    }
    engine_->cancel_requests().give_back(*this);
}

void CancelRequest::cancel_in(ShardCore &shard) {
    shard.cancel_index.cancel(scope_);
    engine_->submissions().cancel(shard, scope_);
}

// From loop to loop, twice: what moves to a loop that was passed already, because its peer was
// found to be another one, is there before the second round.
bool CancelRequest::pass_on(ShardCore &from) {
    if (engine_->post_from(from.index + 1, *this)) return true;
    if (std::exchange(again_, true) || engine_->shard_count() == 1) return false;
    return engine_->post_from(0, *this);
}

CancelRequests::CancelRequests(EngineCore &engine) : engine_(engine) {
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

void CancelRequests::enter() {
    const uint64_t operations = operations_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (catch_bad_alloc([&] { cover(operations); })) return;
    leave();
    throw std::bad_alloc();
}

void CancelRequests::leave() {
    operations_.fetch_sub(1, std::memory_order_relaxed);
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

void CancelRequests::post(Endpoint *ep, uint64_t user, uint64_t mask) {
    CancelRequest &request = take();
    request.engine_ = &engine_;
    if (ep) request.ep_ = Ref(*ep);
    request.scope_ = {ep, user, mask};
    request.again_ = false;
    if (!engine_.first_shard().post_brief(request)) give_back(request);
}

void CancelRequests::give_back(CancelRequest &request) {
    const Ref<Endpoint> last = std::move(request.ep_);  // let go of without the lock
    if (!request.pooled_) return delete &request;
    const std::lock_guard lock(mutex_);
    free_.push_front(request);
}

}  // namespace xfer
