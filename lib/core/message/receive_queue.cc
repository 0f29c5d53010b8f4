// SPDX-License-Identifier: Apache-2.0
#include "core/message/receive_queue.h"

#include <algorithm>
#include <cstring>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "util/memory.h"

namespace xfer {

// A message that waits for its receive.
class ReceiveQueue::Envelope final : public Unexpected, public ListNode<InConnection> {
public:
    void address(const Arrival &told) {
        arrival = told;
        arrival.whole = false;
        arrival.payload = {};
        from = told.from;
        tag = told.tag;
    }
    void hold(ConstBytes bytes) {
        payload.assign(bytes.begin(), bytes.end());
        arrival.whole = true;
        arrival.payload = payload;
    }

    Arrival arrival;
    std::vector<uint8_t> payload;
};

// ---- from the user

ReceiveQueue::~ReceiveQueue() {
    XFER_CHECK(posted_.empty());
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
        const Own envelope(static_cast<Envelope *>(found), {this});
        discard(*envelope);
        deliver(receive, envelope->arrival);
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

void ReceiveQueue::forget(Receive &receive) {
    shard().loop.disarm(receive.timer);
    receive.ListNode<InPosted>::unlink();
    CancelIndex::remove(receive);
}

void ReceiveQueue::end(Receive &receive, Status why) {
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

void ReceiveQueue::close() {
    closed_ = true;
    while (!posted_.empty())
        end(posted_.front(), XFER_ECANCELED);
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

void ReceiveQueue::deliver(Receive &receive, const Arrival &arrival) {
    receive.match(arrival);
    if (!catch_bad_alloc([&] { receive.make_room(); })) {
        receive.end(shard(), XFER_ENOMEM);
        return completed(arrival, XFER_ENOMEM);
    }
    const uint64_t bytes = std::min(receive.capacity, arrival.length);
    if (!arrival.whole && bytes > 0) {
        const bool prepared = catch_bad_alloc([&] {
            const Access access{Target(MessageId{arrival.number}).wire(), 0, 0};
            receive.remotes.assign(1, {arrival.from, arrival.incarnation, access, XFER_OK});
            const Piece all{reinterpret_cast<uint64_t>(receive.buffer), 0, bytes};
            receive.list.add_strided(Dir::get, 0, all, 0, 0, 1);
        });
        if (!prepared) {
            receive.end(shard(), XFER_ENOMEM);
            return completed(arrival, XFER_ENOMEM);
        }
        if (arrival.shard == &shard()) return arrival.shard->messages.pull(receive);
        if (!arrival.shard->post(receive)) receive.end(shard(), XFER_ECANCELED);
        return;
    }
    if (bytes > 0) std::memcpy(receive.buffer, arrival.payload.data(), bytes);
    receive.end(shard(), arrival.length > receive.capacity ? XFER_ETRUNC : XFER_OK);
    completed(arrival);
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
        envelope.reset(new Envelope);
    envelope->address(arrival);
    return envelope;
}

void ReceiveQueue::give_back(Envelope &envelope) {
    envelope.arrival = {};
    envelope.payload.clear();
    if (spares_ == kSpareEnvelopes) return delete &envelope;
    spare_.push_front(envelope);
    ++spares_;
}

void ReceiveQueue::GiveBack::operator()(Envelope *envelope) const {
    queue->give_back(*envelope);
}

// It is out of the matching; the caller gives it back.
void ReceiveQueue::discard(Envelope &envelope) {
    if (envelope.arrival.whole) held_.give_back(envelope.from, envelope.payload.size());
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
