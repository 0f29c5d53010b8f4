// SPDX-License-Identifier: Apache-2.0
// What a connection asks its peer, from the question to the answer: lookups and probes.
#include <cstring>

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/peer/peer.h"
#include "wire/ref.h"

namespace xfer {

namespace {

// Looked at here, so that no application is handed 96 bytes of which the first use says what they
// are. XFER_EVERSION: a ref of a later version, which ends that lookup and nothing else.
Status check_found(ConstBytes body) {
    xfer_ref_t ref;
    std::memcpy(&ref, body.data(), sizeof ref);
    const auto region = decode_ref(ref);
    return region ? XFER_OK : region.error().status;
}

Failure malformed_answer() {
    return {XFER_EPROTO, 0, 0, "a malformed answer to a lookup"};
}

}  // namespace

void Connection::note(Request &request) {
    request.seq = ++last_question_;
    request.asked = shard.loop.clock();
    request.on = this;
    asked_.push_back(request);
    shard.heartbeat.arm();
}

void Connection::ask(Request &request) {
    note(request);
    last_use_ = shard.now();
    Frame frame;
    frame.seq = request.seq;
    if (request.type() == XFER_EVENT_PROBE) {
        frame.type = FrameType::ping;
        send(frame);
        return;
    }
    frame.type = FrameType::lookup;
    frame.flags = request.wait ? kLookupWait : 0;
    frame.length = static_cast<uint32_t>(request.name.size());
    send(frame, {reinterpret_cast<const uint8_t *>(request.name.data()), request.name.size()});
}

// It waits for a connection again, for as long as the stall limit allows.
void Connection::take_back(Request &request, RequestList &into) {
    request.seq = 0;
    request.on = nullptr;
    request.stalls_since = shard.now();
    into.push_back(request);
    request.arm();
}

void Connection::put_off(RequestList &into) {
    for (Request &request : asked_) {
        if (!request.wait) continue;
        send_forget(request.seq);
        request.ListNode<InRequests>::unlink();
        take_back(request, into);
    }
}

void Connection::take_back(RequestList &into) {
    while (Request *request = asked_.pop_front()) {
        take_back(*request, into);
    }
}

// Nobody waits for the answer any more. A question that is on its way with the proof can be taken
// back only when frames may follow.
void Connection::forget(Request &request) {
    if (request.type() != XFER_EVENT_LOOKUP) return;
    if (live()) return send_forget(request.seq);
    forgotten_.push_back(request.seq);
}

void Connection::send_forget(uint64_t seq) {
    Frame frame;
    frame.type = FrameType::forget;
    frame.seq = seq;
    send(frame);
}

void Connection::answer(const Frame &frame, ConstBytes body) {
    const size_t least = frame.status == XFER_OK ? sizeof(xfer_ref_t) : 0;
    if (body.size() < least || body.size() > sizeof(xfer_ref_t) + kMaxBlob)
        return close(malformed_answer());
    for (Request &request : asked_)
        if (request.seq == frame.seq && request.type() == XFER_EVENT_LOOKUP) {
            const Status found = frame.status == XFER_OK ? check_found(body) : XFER_OK;
            if (found == XFER_EVERSION) return peer->finish(request, found);
            if (found != XFER_OK) return close(malformed_answer());
            if (!catch_bad_alloc([&] { request.answer.assign(body.begin(), body.end()); }))
                return peer->finish(request, XFER_ENOMEM);
            return peer->finish(request, frame.status, frame.status ? XFER_ORIGIN_PEER : 0);
        }
}

void Connection::answer_to_message(const Frame &frame) {
    if (peer->live() != this) return;
    if (frame.type == FrameType::kept)
        peer->flow.messages.kept(*this, frame);
    else
        peer->flow.messages.taken(*this, frame);
    if (usable()) peer->flow.pump();
}

void Connection::on_pong(const Frame &frame) {
    apply({.kind = ConnectionInput::pong});
    for (Request &request : asked_)
        if (request.seq == frame.seq && request.type() == XFER_EVENT_PROBE) {
            rtt_ns = shard.loop.clock() - request.asked;
            request.event.bytes = rtt_ns;
            request.ep->rtt_ns.set(rtt_ns);
            return peer->finish(request, XFER_OK);
        }
}

}  // namespace xfer
