// SPDX-License-Identifier: Apache-2.0
#include "core/message/cross_shard.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/connection/connection_table.h"
#include "core/message/message_receiver.h"
#include "core/message/receive_queue.h"
#include "util/memory.h"

namespace xfer {

namespace {

// On its way to the first loop, from another one.
class ArrivalMessage final : public Message {
public:
    ArrivalMessage(ShardCore &home, const Arrival &arrival)
        : arrival_(arrival), payload_(arrival.payload.begin(), arrival.payload.end()) {
        arrival_.payload = payload_;
        arrival_.answers =
            Ref<Answers>::adopt(new Answers(home, arrival.connection, arrival.number));
    }
    void arrive(ShardCore &shard) override {
        shard.engine.receive_queue().arrive(arrival_);
        delete this;
    }

private:
    Arrival arrival_;
    const std::vector<uint8_t> payload_;
};

class CancelMessage final : public Message {
public:
    CancelMessage(const ShardCore &from, uint64_t connection, uint64_t number)
        : from_(from), connection_(connection), number_(number) {}
    void arrive(ShardCore &shard) override {
        shard.engine.receive_queue().cancel(from_, connection_, number_);
        delete this;
    }

private:
    const ShardCore &from_;
    const uint64_t connection_, number_;
};

template <typename Crossing>
void post(ShardCore &to, std::unique_ptr<Crossing> message) {
    // Else that loop has ended, and with it whom it concerns.
    if (to.post(*message)) static_cast<void>(message.release());
}

}  // namespace

// ---- what travels

void Answers::post(const MessageAnswer &answer) {
    Node &node = answer.queued ? queued_ : completed_;
    node.answer = answer;
    retain();
    if (!home_.post(node)) release();
}

void Answers::Node::arrive(ShardCore &shard) {
    shard.messages.answer(answers.connection_, answers.number_, answer);
    answers.release();  // may destroy this
}

void MessagesLost::arrive(ShardCore &shard) {
    shard.engine.receive_queue().lost(from_, connection_);
    delete this;
}

// ---- to the first loop

bool CrossShard::is_first() const {
    return &shard_.engine.first_shard() == &shard_;
}

void CrossShard::arrived(const Arrival &arrival) {
    if (is_first()) return shard_.engine.receive_queue().arrive(arrival);
    // The PEER of its handle may be here yet.
    if (arrival.source && !arrival.source->of_user.load()) shard_.outbox.hand_over();
    std::unique_ptr<ArrivalMessage> message;
    if (catch_bad_alloc([&] { message = std::make_unique<ArrivalMessage>(shard_, arrival); }))
        return post(shard_.engine.first_shard(), std::move(message));
    answer(arrival.connection, arrival.number, {false, false, XFER_ENOMEM});
}

void CrossShard::canceled(uint64_t connection, uint64_t number) {
    if (is_first()) return shard_.engine.receive_queue().cancel(shard_, connection, number);
    post(shard_.engine.first_shard(), std::make_unique<CancelMessage>(shard_, connection, number));
}

std::unique_ptr<MessagesLost> CrossShard::prepare_lost(uint64_t connection) {
    if (is_first()) return nullptr;
    return std::make_unique<MessagesLost>(shard_, connection);
}

void CrossShard::lost(uint64_t connection, std::unique_ptr<MessagesLost> prepared) {
    if (is_first()) return shard_.engine.receive_queue().lost(shard_, connection);
    post(shard_.engine.first_shard(), std::move(prepared));
}

// ---- back

void CrossShard::answer(uint64_t connection, uint64_t number, const MessageAnswer &answer) {
    Connection *live = shard_.connections.find(connection);
    if (!live) return;
    if (answer.queued)
        live->message_receiver.queued(number, answer.held);
    else
        live->message_receiver.completed(number, answer.status);
}

// The receive has its message, and the bytes are still with the sender, which says no to an offer
// that is under way.
void CrossShard::pull(Receive &receive) {
    Connection *live = shard_.connections.find(receive.connection);
    if (!live || !is_open(live->state())) return lose(receive);
    Endpoint *ep = receive.named.get();
    if (!ep && !catch_bad_alloc([&] { ep = &live->sink.unnamed(); })) {
        live->message_receiver.completed(receive.number, XFER_ENOMEM);
        return receive.end(shard_, XFER_ENOMEM);
    }
    const bool away = ep->shard.load() != &shard_;
    if (shard_.closing() || away || ep->closing || ep->peer != live->peer) {
        live->message_receiver.completed(receive.number, XFER_ECANCELED);
        return receive.end(shard_, XFER_ECANCELED);
    }
    receive.ep = ep;
    ep->retain();
    ep->outstanding.fetch_add(1);
    if (receive.named) ep->receives.fetch_sub(1);  // counted as an operation from here on
    live->sink.pull(receive);
}

void CrossShard::lose(Receive &receive) {
    const ConnectionTable::End end = shard_.connections.end_of(receive.connection);
    receive.event.origin = end.origin;
    receive.event.native_code = end.native;
    receive.end(shard_, XFER_EPEERLOST);
}

// ---- endpoints

void CrossShard::end_receives(Endpoint &ep) {
    if (!ep.had_receives.load()) return;
    Endpoint::EndReceives &end = ep.end_receives;
    end.home = &shard_;
    ep.retain();
    ++ep.busy;
    if (is_first()) return on_end_receives(ep);
    if (shard_.engine.first_shard().post(end)) return;
    --ep.busy;  // that loop has ended them
    ep.release();
}

void CrossShard::on_end_receives(Endpoint &ep) {
    Endpoint::EndReceives &end = ep.end_receives;
    if (is_first() && !shard_.engine.receive_queue().take(ep)) return end_all(ep);
    if (&shard_ != end.home) {
        shard_.outbox.hand_over();  // what matched before must not come after CLOSED
        if (end.home->post(end)) return;
    }
    end_all(ep);
    if (&shard_ == end.home) shard_.less_busy(ep);
    ep.release();  // may destroy it
}

void CrossShard::end_all(Endpoint &ep) {
    while (Receive *receive = ep.end_receives.receives.pop_front())
        receive->end(shard_, XFER_ECANCELED);
}

void CrossShard::identity_known(Endpoint &ep) {
    if (is_first()) return shard_.engine.receive_queue().identity_known(ep);
    if (ep.identity_known.posted.exchange(true)) return;  // it sees what is known when it arrives
    ep.retain();
    if (!shard_.engine.first_shard().post(ep.identity_known)) ep.release();
}

}  // namespace xfer
