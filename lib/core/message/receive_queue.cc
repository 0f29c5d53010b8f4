// SPDX-License-Identifier: Apache-2.0
#include "core/message/receive_queue.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "util/memory.h"

namespace xfer {

// ---- from the user

ReceiveQueue::~ReceiveQueue() {
    XFER_CHECK(posted_.empty());
    XFER_CHECK(copies_.empty());
    XFER_CHECK(held_.empty());
    while (Envelope *spare = spare_.pop_front())
        delete spare;
}

Status ReceiveQueue::begin(Receive &receive) {
    receive.counted = true;
    if (receives_.fetch_add(1) >= kMaxReceives) return XFER_EAGAIN;
    Endpoint *named = receive.named.get();
    if (!named) return XFER_OK;
    named->had_receives.store(true);
    named->receives.fetch_add(1);
    if (!named->ended.load()) return XFER_OK;
    named->receives.fetch_sub(1);
    return XFER_ECLOSED;
}

ShardCore &ReceiveQueue::shard() {
    return engine_.first_shard();
}

void ReceiveQueue::post(Receive &receive) {
    shard().counters[OpKind::recv].submitted.add();
    receive.start_clock(shard().now());
    if (closed_ || (receive.named && receive.named->ended.load()))
        return receive.end(shard(), XFER_ECANCELED);
    if (!wait(receive)) return;
    if (receive.deadline != kNever) shard().loop.arm(receive.timer, receive.deadline);
}

bool ReceiveQueue::wait(Receive &receive) {
    if (receive.named) receive.from = receive.named->sender();
    if (Unexpected *found = matcher_.take(receive)) {
        deliver(receive, Own(static_cast<Envelope *>(found), {this}));
        return false;
    }
    if (!catch_bad_alloc([&] { matcher_.add(receive); })) {
        receive.end(shard(), XFER_ENOMEM);
        return false;
    }
    posted_.push_back(receive);
    index_.add(receive);
    if (receive.named) await(*receive.named->shard.load());
    return true;
}

// Who waits for a peer wants to know that it has stopped.
void ReceiveQueue::await(ShardCore &home) {
    if (&home == &shard())
        home.heartbeat.arm();
    else
        home.look_after_peers();
}

// What is returned meanwhile is for receives that are not canceled, too.
void ReceiveQueue::cancel(const CancelScope &scope) {
    cancels_ = true;
    index_.cancel(scope);
    cancels_ = false;
    hand_on();
}

void ReceiveQueue::forget(Receive &receive) {
    shard().loop.disarm(receive.timer);
    receive.ListNode<InPosted>::unlink();
    CancelIndex::remove(receive);
}

void ReceiveQueue::end(Receive &receive, Status why) {
    if (receive.copied) {
        stop_copy(receive, why);
        return hand_on();
    }
    matcher_.remove(receive);
    forget(receive);
    receive.end(shard(), why);
}

void ReceiveQueue::take(const Endpoint &ep, List<Receive, InPosted> &into) {
    for (Receive &receive : posted_) {
        if (receive.named.get() != &ep) continue;
        matcher_.remove(receive);
        forget(receive);
        into.push_back(receive);
    }
}

bool ReceiveQueue::take(Endpoint &ep) {
    take(ep, ep.end_receives.receives);
    ep.end_receives.behind_copies = !stop_copies(&ep);
    hand_on();
    return !ep.end_receives.behind_copies;
}

void ReceiveQueue::close() {
    closed_ = true;
    while (!posted_.empty())
        end(posted_.front(), XFER_ECANCELED);
    stop_copies(nullptr);
    hand_on();
    while (Unexpected *message = matcher_.oldest()) {
        const Own envelope(static_cast<Envelope *>(message), {this});
        matcher_.remove(*envelope);
        discard(*envelope);
    }
}

// ---- from connections

void ReceiveQueue::arrive(const Arrival &arrival) {
    if (closed_) return;
    Posted *found = matcher_.take(arrival.from, arrival.tag);
    if (!found) return keep(arrival);
    auto &receive = static_cast<Receive &>(*found);
    forget(receive);
    deliver(receive, arrival);
}

bool ReceiveQueue::peek(const Posted &wanted, xfer_message_info_t &info) {
    const auto *found = static_cast<const Envelope *>(matcher_.find(wanted));
    if (!found) return false;
    const Arrival &arrival = found->arrival;
    std::copy(arrival.from.begin(), arrival.from.end(), info.sender.bytes);
    info.sender.incarnation = arrival.incarnation;
    info.tag = arrival.tag;
    info.length = arrival.length;
    return true;
}

void ReceiveQueue::deliver(Receive &receive, Own envelope) {
    if (is_copied(receive, envelope->arrival)) {
        copy(receive, std::move(envelope));
        return;
    }
    discard(*envelope);
    deliver(receive, envelope->arrival);
}

void ReceiveQueue::deliver(Receive &receive, const Arrival &arrival) {
    if (is_copied(receive, arrival)) return copy(receive, arrival);
    receive.match(arrival);
    if (!catch_bad_alloc([&] { receive.make_room(); })) return fail(receive, arrival);
    const uint64_t bytes = std::min(receive.capacity, arrival.length);
    if (!arrival.whole && bytes > 0) return pull(receive, arrival, bytes);
    if (bytes > 0) std::memcpy(receive.buffer, arrival.payload.data(), bytes);
    receive.end(shard(), receive.truncated(XFER_OK));
    completed(arrival);
}

void ReceiveQueue::pull(Receive &receive, const Arrival &arrival, uint64_t bytes) {
    const bool prepared = catch_bad_alloc([&] {
        const Access access{Target(MessageId{arrival.number}).wire(), 0, 0};
        receive.remotes.assign(1, {arrival.from, arrival.incarnation, access, XFER_OK});
        const Piece all{reinterpret_cast<uint64_t>(receive.buffer), 0, bytes};
        receive.list.add_strided(Dir::get, 0, all, 0, 0, 1, receive.place);
    });
    if (!prepared) return fail(receive, arrival);
    if (arrival.shard == &shard()) return arrival.shard->messages.pull(receive);
    if (!arrival.shard->post(receive)) receive.end(shard(), XFER_ECANCELED);
}

void ReceiveQueue::fail(Receive &receive, const Arrival &arrival) {
    receive.end(shard(), XFER_ENOMEM);
    completed(arrival, XFER_ENOMEM);
}

// ---- into memory of a device

bool ReceiveQueue::is_copied(const Receive &receive, const Arrival &arrival) const {
    return receive.place != Place{} && arrival.whole && std::min(receive.capacity, arrival.length);
}

void ReceiveQueue::copy(Receive &receive, const Arrival &arrival) {
    Own envelope;
    const bool kept = catch_bad_alloc([&] {
        envelope = take_envelope(arrival);
        envelope->hold(arrival.payload);
    });
    if (!kept) {
        receive.match(arrival);
        return fail(receive, arrival);
    }
    // So it counts no more as one that this side has not looked at.
    if (copy(receive, std::move(envelope))) answer(arrival, {true, false, XFER_OK});
}

// Until the copy has begun it can be canceled, and has its deadline, as if it waited; and as its
// message is here, the stall limit.
bool ReceiveQueue::copy(Receive &receive, Own envelope) {
    const Arrival &arrival = envelope->arrival;
    receive.match(arrival);
    const uint64_t bytes = std::min(receive.capacity, arrival.length);
    if (!envelope->copy(shard().copier, receive, bytes)) {
        discard(*envelope);
        fail(receive, arrival);
        return false;
    }
    envelope->ListNode<InConnection>::unlink();
    copies_.push_back(*envelope);
    receive.copied = envelope.release();
    index_.add(receive);
    shard().loop.defer(shard());  // a drain waits for it
    const uint64_t stall = shard().now() + engine_.options().stall_ms * kNsPerMs;
    shard().loop.arm(receive.timer, std::min(receive.deadline, stall));
    return true;
}

void ReceiveQueue::copied(Envelope &envelope, Status status, int32_t error) {
    Receive &receive = *envelope.receive;
    if (status == XFER_EIO)
        std::tie(receive.event.origin, receive.event.native_code) = copy_error(error);
    const Ref<Endpoint> named = receive.named;
    const Own owned(&envelope, {this});
    finish(receive, status);
    completed(envelope.arrival, status);
    discard(envelope);
    go_on_closing(named);
}

// Behind the last copy of an endpoint that is closed.
void ReceiveQueue::go_on_closing(const Ref<Endpoint> &named) {
    if (!named || !named->end_receives.behind_copies || copies_for(*named)) return;
    shard().messages.on_end_receives(*named);
}

void ReceiveQueue::finish(Receive &receive, Status status) {
    receive.copied->ListNode<InConnection>::unlink();
    receive.copied->receive = nullptr;
    receive.copied = nullptr;
    forget(receive);
    receive.end(shard(), receive.truncated(status));
}

// A message whose sender has seen its send succeed is not lost with its receive: the next one that
// asks for it gets it. Where memory lacks for that the copy goes on.
bool ReceiveQueue::stop_copy(Receive &receive, Status why) {
    Envelope &envelope = *receive.copied;
    const bool stays = envelope.is_told();
    const bool placed = !stays || catch_bad_alloc([&] { matcher_.put_back(envelope); });
    if (!placed || !envelope.revoke()) {
        if (stays) matcher_.remove(envelope);
        return false;
    }
    const Ref<Endpoint> named = receive.named;
    finish(receive, why);
    if (stays) {
        const Arrival &arrival = envelope.arrival;
        const auto at = by_connection_.find({arrival.shard->index, arrival.connection});
        if (at != by_connection_.end()) at->second.push_back(envelope);
        returned_.push_back(envelope);
    } else {
        const Own owned(&envelope, {this});
        discard(envelope);
        completed(envelope.arrival, why);
    }
    go_on_closing(named);
    return true;
}

// What was returned waits again, in its place, but for what receives ask for: each gets the oldest.
void ReceiveQueue::hand_on() {
    if (cancels_) return;
    while (Envelope *envelope = returned_.pop_front())
        while (Posted *found = matcher_.take(envelope->from, envelope->tag)) {
            auto &oldest = static_cast<Envelope &>(*matcher_.take(*found));
            auto &next = static_cast<Receive &>(*found);
            oldest.ListNode<InReturned>::unlink();
            forget(next);
            deliver(next, Own(&oldest, {this}));
            if (&oldest == envelope) break;
        }
}

bool ReceiveQueue::copies_for(const Endpoint &ep) {
    for (const Envelope &envelope : copies_)
        if (envelope.receive->named.get() == &ep) return true;
    return false;
}

// Of receives from `ep`, null: all. What has begun ends in its time: false.
bool ReceiveQueue::stop_copies(const Endpoint *ep) {
    bool all = true;
    for (Envelope &envelope : copies_) {
        Receive &receive = *envelope.receive;
        if (ep && receive.named.get() != ep) continue;
        all &= stop_copy(receive, XFER_ECANCELED);
    }
    return all;
}

void ReceiveQueue::keep(const Arrival &arrival) {
    const Source source{arrival.shard->index, arrival.connection};
    Own envelope;
    bool counted = false;
    const bool kept = catch_bad_alloc([&] {
        envelope = take_envelope(arrival);
        counted = arrival.whole && held_.take(arrival.from, arrival.payload.size());
        if (counted) envelope->hold(arrival.payload);
        by_connection_.try_emplace(source);
        matcher_.add(*envelope);
    });
    if (!kept) {
        if (counted) held_.give_back(arrival.from, arrival.payload.size());
        if (envelope) matcher_.remove(*envelope);
        return completed(arrival, XFER_ENOMEM);
    }
    envelope->counted = counted;
    by_connection_.at(source).push_back(*envelope);
    answer(arrival, {true, envelope.release()->arrival.whole, XFER_OK});
}

void ReceiveQueue::answer(const Arrival &arrival, const MessageAnswer &answer) {
    if (arrival.answers) return arrival.answers->post(answer);
    shard().messages.answer(arrival.connection, arrival.number, answer);
}

void ReceiveQueue::completed(const Arrival &arrival, Status status) {
    answer(arrival, {false, false, status});
}

ReceiveQueue::Own ReceiveQueue::take_envelope(const Arrival &arrival) {
    Own envelope(spare_.pop_front(), {this});
    if (envelope)
        --spares_;
    else
        envelope.reset(new Envelope(*this));
    envelope->address(arrival);
    return envelope;
}

void ReceiveQueue::give_back(Envelope &envelope) {
    envelope.clear();
    if (spares_ == kSpareEnvelopes) return delete &envelope;
    spare_.push_front(envelope);
    ++spares_;
}

void ReceiveQueue::GiveBack::operator()(Envelope *envelope) const {
    queue->give_back(*envelope);
}

// It is out of the matching; the caller gives it back.
void ReceiveQueue::discard(Envelope &envelope) {
    if (std::exchange(envelope.counted, false))
        held_.give_back(envelope.from, envelope.payload.size());
    envelope.ListNode<InConnection>::unlink();
}

// What the sender was told is held stays; it has seen its send succeed.
void ReceiveQueue::cancel(const ShardCore &from, uint64_t connection, uint64_t number) {
    const auto at = by_connection_.find({from.index, connection});
    if (at == by_connection_.end()) return;
    for (Envelope &envelope : at->second) {
        const Arrival &arrival = envelope.arrival;
        if (arrival.number != number || (arrival.whole && !arrival.sync)) continue;
        const Own owned(&envelope, {this});
        matcher_.remove(envelope);
        discard(envelope);
        completed(arrival, XFER_ECANCELED);
        return;
    }
}

// Messages that are here can still be received; those that were to be pulled are gone.
void ReceiveQueue::lost(const ShardCore &from, uint64_t connection) {
    const auto at = by_connection_.find({from.index, connection});
    if (at == by_connection_.end()) return;
    List<Envelope, InConnection> all;
    all.append(at->second);
    by_connection_.erase(at);
    for (Envelope &envelope : all) {
        envelope.ListNode<InConnection>::unlink();
        if (envelope.arrival.whole) continue;
        matcher_.remove(envelope);
        give_back(envelope);
    }
}

void ReceiveQueue::identity_known(Endpoint &ep) {
    List<Receive, InPosted> again;
    take(ep, again);
    while (Receive *receive = again.pop_front())
        if (wait(*receive) && receive->deadline != kNever)
            shard().loop.arm(receive->timer, receive->deadline);
}

}  // namespace xfer
