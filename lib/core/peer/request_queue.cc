// SPDX-License-Identifier: Apache-2.0
#include "core/peer/request_queue.h"

#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/peer/peer.h"

namespace xfer {
namespace {

// Why a lookup failed while there was a connection.
Text about_lookup(const Request &request, Status status) {
    Text text;
    if (status == XFER_ENOTFOUND)
        text = "the peer has no region \"";
    else if (status == XFER_ETIMEDOUT && request.wait)
        text = "in time the peer had no region \"";
    else if (status == XFER_ETIMEDOUT)
        text = "in time the peer did not answer about region \"";
    else if (status == XFER_EVERSION)
        text = "a later version than ours has made the ref of region \"";
    else if (status == XFER_EOVERLOAD)
        text = "as many lookups as may wait at the peer do, and it does not hold that of region \"";
    else
        return text;
    return text + request.name + "\"";  // the name last, as it may be longer than there is room
}

}  // namespace

void RequestQueue::submit(Request &request) {
    ShardCore &shard = peer_.shard;
    request.peer = &peer_;
    ++request.ep->busy;
    if (!request.deadline) {
        request.stalls_since = shard.now();
        request.deadline =
            request.timeout_ms ? shard.now() + request.timeout_ms * kNsPerMs : kNever;
    }
    request.arm();
    Session *live = peer_.live();
    if (live && request.type() == XFER_EVENT_CONNECT) {
        waiting_.push_back(request);
        return finish(request, XFER_OK);
    }
    shard.cancel_index.add(request);
    if (live && live->takes_new()) return live->ask(request);
    waiting_.push_back(request);
    peer_.dialer.schedule();
}

void RequestQueue::finish(Request &request, Status status, uint32_t origin) {
    ShardCore &shard = peer_.shard;
    if (request.on && status != XFER_OK && origin == 0) request.on->forget(request);
    shard.loop.disarm(request.timer);
    request.ListNode<InRequests>::unlink();
    CancelIndex::remove(request);
    request.event.status = status;
    request.event.origin = origin;
    request.event.flags = XFER_FENCED;
    if (status == XFER_OK && !request.answer.empty()) {
        request.event.data = request.answer.data();
        request.event.data_length = request.answer.size();
    }
    Session *live = peer_.live();
    if (status != XFER_OK && !live && !origin) {
        const Failure down = peer_.dialer.why_down();
        request.event.origin = down.origin;
        request.event.native_code = down.native;
        request.reason = down.message;
    }
    if (status != XFER_OK) {
        if (request.reason.empty() && request.type() == XFER_EVENT_LOOKUP)
            request.reason = about_lookup(request, status);
        request.explain(request.reason);
    }
    if (live) live->pump_soon();
    shard.outbox.post(request);
    shard.operation_ended(*request.ep);
}

void RequestQueue::ask_waiting() {
    Session *live = peer_.live();
    if (!live || !live->takes_new()) return;
    for (Request &request : waiting_)
        if (request.type() != XFER_EVENT_CONNECT) {
            request.ListNode<InRequests>::unlink();
            live->ask(request);
        }
    end_connects(XFER_OK);  // last: an end calls out, and finds the others asked
}

void RequestQueue::end_connects(Status status) {
    for (Request &request : waiting_)
        if (request.type() == XFER_EVENT_CONNECT) finish(request, status);
}

void RequestQueue::end_misled_connects(Status status) {
    for (Request &request : waiting_)
        if (request.type() == XFER_EVENT_CONNECT && !peer_.follows(*request.ep))
            finish(request, status);
}

void RequestQueue::end_all(const Endpoint &ep, Status why) {
    const auto end = [&](RequestList &list) {
        for (Request &request : list)
            if (request.ep.get() == &ep) finish(request, why);
    };
    end(waiting_);
    for (Session &connection : peer_.connections())
        end(connection.asked());
}

void RequestQueue::fail(const Endpoint *ep, const Failure &why) {
    for (Request &request : waiting_) {
        if (ep && request.ep.get() != ep) continue;
        request.reason = why.message;
        finish(request, why.status, why.origin);
    }
}

void RequestQueue::move(const Endpoint &ep, RequestList &into) {
    const auto take = [&](RequestList &list) {
        for (Request &request : list) {
            if (request.ep.get() != &ep) continue;
            peer_.shard.loop.disarm(request.timer);
            request.ListNode<InRequests>::unlink();
            CancelIndex::remove(request);
            request.on = nullptr;
            request.stalls_since = peer_.shard.now();
            into.push_back(request);
        }
    };
    take(waiting_);
    for (Session &connection : peer_.connections())
        take(connection.asked());
}

void RequestQueue::adopt(RequestList &from) {
    for (Request &request : from) {
        request.peer = &peer_;
        peer_.shard.cancel_index.add(request);
        request.arm();
    }
    waiting_.append(from);
}

}  // namespace xfer
