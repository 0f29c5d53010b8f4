// SPDX-License-Identifier: Apache-2.0
#include "core/peer/session.h"

#include <cstring>

#include "core/base/shard_core.h"
#include "core/peer/connection_limit.h"
#include "core/peer/inbound.h"
#include "core/peer/peer.h"
#include "core/region/shard_regions.h"
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

// To the application XFER_EAGAIN says that a ROOM event follows, and none does: the place is one at
// the peer.
Status status_of_found(Status said) {
    return said == XFER_EAGAIN ? XFER_EOVERLOAD : said;
}

Failure malformed_answer() {
    return {XFER_EPROTO, 0, 0, "a malformed answer to a lookup"};
}

}  // namespace

Session::Session(ShardCore &owner, Side initiator, uint64_t local_number, uint64_t count)
    : Connection(owner, *this, {notifications, messages}, initiator, local_number, count) {}

Session::~Session() {
    leave_half_open();
}

// ---- the handshake

void Session::on_up() {
    peer->hear({Input::up, number, 0, 0, {}});
}

void Session::on_reply(const Hello &message, ConstBytes raw) {
    peer->hear_reply(*this, message, raw);
}

void Session::on_ready(const Hello &message) {
    peer->hear({Input::ready, number, 0, 0, message.statement});
}

void Session::on_proof(const Hello &message, ConstBytes raw) {
    shard.inbound.admit(*this, message, raw);
}

void Session::on_lane(const Hello &message, ConstBytes raw) {
    shard.inbound.admit_lane(*this, message, raw);
}

void Session::leave_half_open() {
    shard.inbound.leave(place);
}

void Session::on_live() {
    uint64_t number = 0;
    for (const Question &question : handshake.take_questions())
        target_side.lookup(++number, question.name, question.wait);
    for (const uint64_t seq : forgotten_)
        send_forget(seq);
    forgotten_.clear();
}

// One in whose place a newcomer comes ends behind its copies, and that tells: what the newcomer
// carries must not be overtaken by them.
void Session::on_answered() {
    if (state().superseded && lanes.lands())
        return close({XFER_EPEERLOST, 0, 0, xfer_status_text(XFER_EPEERLOST)});
    peer->hear({Input::answered, number, 0, 0, {}});
}

void Session::on_ended() {
    peer ? peer->ended(*this) : shard.inbound.gone(*this);
}

// ---- frames

void Session::on_frame(const Frame &frame, ConstBytes body) {
    switch (frame.type) {
    case FrameType::lookup:
        touch();
        return target_side.lookup(frame.seq,
                                  {reinterpret_cast<const char *>(body.data()), body.size()},
                                  frame.flags & kLookupWait);
    case FrameType::forget:
        return target_side.forget(frame.seq);
    case FrameType::found:
        return answer(frame, body);
    case FrameType::pong:
        return answer_probe(frame);
    case FrameType::gone:
        return peer->handles.report_gone(body);
    case FrameType::notify:
        touch();
        return notifications.hear(frame, body);
    case FrameType::noted:
        if (peer->live() == this) peer->flow.noted(frame);
        return;
    case FrameType::message:
        touch();
        return messages.hear(frame, body);
    case FrameType::cancel:
        return messages.cancel(frame);
    case FrameType::queued:
    case FrameType::completed:
        return answer_to_message(frame);
    default:
        return close({XFER_EPROTO, 0, 0, "a frame that does not belong on the control channel"});
    }
}

void Session::answer_to_message(const Frame &frame) {
    if (peer->live() != this) return;
    if (frame.type == FrameType::queued)
        peer->messages.queued(*this, frame);
    else
        peer->messages.completed(*this, frame);
    if (usable()) pump();
}

// ---- requests, from the question to the answer: lookups and probes

// Lookups don't wait for `ready`: their questions travel with the proof. If this attempt loses
// they are asked again on the one that lives.
void Session::send_proof(const Statement &statement, RequestList &waiting) {
    std::vector<Question> questions;
    for (Request &request : waiting) {
        if (questions.size() == kMaxQuestions) break;
        if (request.type() != XFER_EVENT_LOOKUP) continue;
        questions.push_back({request.name, request.wait});
        request.ListNode<InRequests>::unlink();
        note(request);
    }
    Connection::send_proof(statement, std::move(questions));
}

void Session::note(Request &request) {
    request.seq = ++last_question_;
    request.asked = shard.loop.clock();
    request.on = this;
    asked_.push_back(request);
    shard.heartbeat.arm();
}

void Session::ask(Request &request) {
    note(request);
    keepalive.count_use(shard.now());
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
void Session::take_back(Request &request, RequestList &into) {
    request.seq = 0;
    request.on = nullptr;
    request.stalls_since = shard.now();
    into.push_back(request);
    request.arm();
}

void Session::put_off() {
    RequestList &into = peer->requests.waiting();
    for (Request &request : asked_) {
        if (!request.wait) continue;
        send_forget(request.seq);
        request.ListNode<InRequests>::unlink();
        take_back(request, into);
    }
}

void Session::take_back(RequestList &into) {
    while (Request *request = asked_.pop_front()) {
        take_back(*request, into);
    }
}

// Nobody waits for the answer any more. A question that is on its way with the proof can be taken
// back only when frames may follow.
void Session::forget(Request &request) {
    if (request.type() != XFER_EVENT_LOOKUP) return;
    if (live()) return send_forget(request.seq);
    forgotten_.push_back(request.seq);
}

void Session::send_forget(uint64_t seq) {
    Frame frame;
    frame.type = FrameType::forget;
    frame.seq = seq;
    send(frame);
}

void Session::answer(const Frame &frame, ConstBytes body) {
    const size_t least = frame.status == XFER_OK ? sizeof(xfer_ref_t) : 0;
    if (body.size() < least || body.size() > sizeof(xfer_ref_t) + kMaxBlob)
        return close(malformed_answer());
    for (Request &request : asked_)
        if (request.seq == frame.seq && request.type() == XFER_EVENT_LOOKUP) {
            const Status found = frame.status == XFER_OK ? check_found(body) : XFER_OK;
            if (found == XFER_EVERSION) return peer->requests.finish(request, found);
            if (found != XFER_OK) return close(malformed_answer());
            if (!catch_bad_alloc([&] { request.answer.assign(body.begin(), body.end()); }))
                return peer->requests.finish(request, XFER_ENOMEM);
            return peer->requests.finish(request, status_of_found(frame.status),
                                         frame.status ? XFER_ORIGIN_PEER : 0);
        }
}

void Session::answer_probe(const Frame &pong) {
    for (Request &request : asked_)
        if (request.seq == pong.seq && request.type() == XFER_EVENT_PROBE) {
            rtt_ns = shard.loop.clock() - request.asked;
            request.event.bytes = rtt_ns;
            request.ep->rtt_ns.set(rtt_ns);
            return peer->requests.finish(request, XFER_OK);
        }
}

// ---- operations of ours, and what the peer asks for

void Session::on_done(Op &op, Status status) {
    peer->flow.done(op, status);
}

Status Session::access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                       std::vector<iovec> &out, Memory &memory) {
    if (asked.target().message()) return access_message(dir, asked, pieces, out, memory);
    Status status = target_side.access(dir, asked, pieces, out, memory);
    if (status == XFER_OK && asked.notification)
        status = notifications.touch(asked.notification, asked.notification_key);
    if (status == XFER_OK) return status;
    out.clear();
    shard.counters.refused.add();
    return status;
}

Status Session::access_message(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                               std::vector<iovec> &out, Memory &memory) {
    if (peer->live() != this) return XFER_ESTALE;
    const Status status = peer->messages.access(dir, asked, pieces, out, memory);
    if (status == XFER_EIO) on_unmapped(asked.target());
    return status;
}

Status Session::find_export(const Access &asked, ExportedMemory &out) {
    if (!asked.target().message()) return target_side.find_export(asked, out);
    return peer->live() == this ? peer->messages.find_export(asked, out) : XFER_ESTALE;
}

void Session::on_unmapped(Target target) {
    message_failed(target, 0);
    target_side.unmapped(target);
}

void Session::on_copy_failed(Target target, Status status, int32_t error) {
    if (status == XFER_EIO) message_failed(target, error);
    target_side.copy_failed(target, status, error);
}

void Session::message_failed(Target target, int32_t error) {
    const auto message = target.message();
    if (message && peer->live() == this) peer->messages.memory_failed(*message, error);
}

void Session::on_notification_begun(NotificationId notification, uint64_t key) {
    notifications.begun_unheard(notification, key);
}

void Session::on_notified_put(NotificationId notification, uint64_t bytes) {
    notifications.applied(notification, bytes);
}

void Session::on_discarded(NotificationId notification) {
    notifications.copied(notification);
}

void Session::retire(Region &region) {
    const Status why = region.is_grant() ? XFER_EREVOKED : XFER_ESTALE;
    if (const uint32_t count = Connection::retire(RegionId{region.id}, why))
        shard.regions.wait_quiet(region, count);
    target_side.removed(region);
}

void Session::on_lane_ended() {
    if (peer->live() == this) peer->flow.notifications.say_again();
}

void Session::on_quiesced(Target target) {
    if (const auto message = target.message()) return peer->messages.quiet(*this, *message);
    shard.regions.on_quiesced(*target.region());
}

void Session::on_withdrawn(MessageId message) {
    peer->messages.withdrawn(*this, message);
}

// ---- work

void Session::pump() {
    peer->flow.pump();
}

void Session::ask_waiting() {
    peer->requests.ask_waiting();
}

bool Session::waiting() {
    return peer->flow.waiting();
}

bool Session::quiet() const {
    return asked_.empty() && peer->flow.quiet();
}

bool Session::busy() const {
    return peer->flow.busy() || !asked_.empty();
}

bool Session::quiescent() const {
    return notifications.quiet() && messages.quiet() && !peer->handles.awaited();
}

bool Session::reachable() const {
    return peer->dialer.reachable();
}

void Session::on_use() {
    if (peer) peer->used();
}

void Session::count_idle_offer(bool begins) {
    shard.limit.leaving(begins);
}

// ---- handles of the peer

Endpoint *Session::event_endpoint() {
    return peer->handles.event_endpoint();
}

void Session::announce_again() {
    shard.inbound.announce_again(*peer);
}

Endpoint &Session::unnamed() {
    return peer->handles.unnamed();
}

void Session::pull(Operation &receive) {
    peer->pull(receive);
}

}  // namespace xfer
