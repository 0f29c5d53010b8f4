// SPDX-License-Identifier: Apache-2.0
// How messages cross between the loop of their connection and the first one, where receives wait
// (core/message/receive_queue.h). Where both are one, nothing is posted.
#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "util/memory.h"

namespace xfer {

namespace {

// On its way to the first loop, from another one.
class ArrivalMessage final : public Message {
public:
    ArrivalMessage(Shard &home, const Arrival &arrival)
        : arrival_(arrival), payload_(arrival.payload.begin(), arrival.payload.end()) {
        arrival_.payload = payload_;
        arrival_.answers =
            Ref<Answers>::adopt(new Answers(home, arrival.connection, arrival.number));
    }
    void arrive(Shard &shard) override {
        shard.engine.receive_queue().arrive(arrival_);
        delete this;
    }

private:
    Arrival arrival_;
    const std::vector<uint8_t> payload_;
};

class WithdrawMessage final : public Message {
public:
    WithdrawMessage(const Shard &from, uint64_t connection, uint64_t number)
        : from_(from), connection_(connection), number_(number) {}
    void arrive(Shard &shard) override {
        shard.engine.receive_queue().withdraw(from_, connection_, number_);
        delete this;
    }

private:
    const Shard &from_;
    const uint64_t connection_, number_;
};

template <typename Crossing>
void post(Shard &to, std::unique_ptr<Crossing> message) {
    // Else that loop has ended, and with it whom it concerns.
    if (to.post(*message)) static_cast<void>(message.release());
}

}  // namespace

// ---- crossing

void Answers::post(const MessageAnswer &answer) {
    Node &node = answer.kept ? kept_ : taken_;
    node.answer = answer;
    retain();
    if (!home_.post(node)) release();
}

void Answers::Node::arrive(Shard &shard) {
    shard.answer_message(answers.connection_, answers.number_, answer);
    answers.release();  // may destroy this
}

void MessagesLost::arrive(Shard &shard) {
    shard.engine.receive_queue().lost(from_, connection_);
    delete this;
}

void Shard::message_arrived(const Arrival &arrival) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receive_queue().arrive(arrival);
    std::unique_ptr<ArrivalMessage> message;
    if (catch_bad_alloc([&] { message = std::make_unique<ArrivalMessage>(*this, arrival); }))
        return xfer::post(first, std::move(message));
    answer_message(arrival.connection, arrival.number, {false, false, XFER_ENOMEM});
}

void Shard::message_withdrawn(uint64_t connection, uint64_t number) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receive_queue().withdraw(*this, connection, number);
    xfer::post(first, std::make_unique<WithdrawMessage>(*this, connection, number));
}

std::unique_ptr<MessagesLost> Shard::prepare_lost(uint64_t connection) {
    if (&engine.first_shard() == this) return nullptr;
    return std::make_unique<MessagesLost>(*this, connection);
}

void Shard::messages_lost(uint64_t connection, std::unique_ptr<MessagesLost> prepared) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receive_queue().lost(*this, connection);
    xfer::post(first, std::move(prepared));
}

void Shard::answer_message(uint64_t connection, uint64_t number, const MessageAnswer &answer) {
    Connection *live = connections.find(connection);
    if (!live) return;
    if (answer.kept)
        live->message_receiver.kept(number, answer.held);
    else
        live->message_receiver.taken(number, answer.status);
}

// The receive has its message, and the bytes are still with the sender.
void Shard::pull(Receive &receive) {
    Connection *live = connections.find(receive.letter.connection);
    if (!live || !live->usable()) return lose(receive);
    Endpoint *ep = receive.named.get();
    if (!ep && !catch_bad_alloc([&] { ep = &live->peer->unnamed(); })) {
        live->message_receiver.taken(receive.letter.number, XFER_ENOMEM);
        return receive.end(*this, XFER_ENOMEM);
    }
    if (closing_ || ep->closing || ep->peer != live->peer) {
        live->message_receiver.taken(receive.letter.number, XFER_ECANCELED);
        return receive.end(*this, XFER_ECANCELED);
    }
    receive.role = Transfer::Role::pulls;
    receive.ep = ep;
    ep->retain();
    ep->outstanding.fetch_add(1);
    if (receive.named) ep->receives.fetch_sub(1);  // counted as an operation from here on
    live->peer->submit(receive);
}

void Shard::lose(Receive &receive) {
    const ConnectionTable::End end = connections.end_of(receive.letter.connection);
    receive.event.origin = end.origin;
    receive.event.native_code = end.native;
    receive.end(*this, XFER_EPEERLOST);
}

// ---- endpoints

void Shard::end_receives(Endpoint &ep) {
    if (!ep.had_receives.load()) return;
    Shard &first = engine.first_shard();
    EndReceives &end = ep.end_receives;
    if (&first == this) {
        engine.receive_queue().take(ep, end.receives);
        return end.all(*this);
    }
    end.home = this;
    ep.retain();
    ++ep.busy;
    if (first.post(end)) return;
    --ep.busy;  // that loop has ended them
    ep.release();
}

void EndReceives::all(Shard &shard) {
    while (Receive *receive = receives.pop_front())
        receive->end(shard, XFER_ECANCELED);
}

void EndReceives::arrive(Shard &shard) {
    if (&shard != home) {
        shard.engine.receive_queue().take(ep_, receives);
        shard.outbox.hand_over();  // what matched before must not come after CLOSED
        if (home->post(*this)) return;
    }
    all(shard);
    if (&shard == home) shard.closed_receives(ep_);
    ep_.release();  // may destroy this
}

void Shard::closed_receives(Endpoint &ep) {
    if (--ep.busy == 0 && ep.closing) finish_close(ep);
}

void Shard::identity_known(Endpoint &ep) {
    if (ep.receives.load() == 0) return;
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receive_queue().identity_known(ep);
    if (ep.identity_known.posted.exchange(true)) return;  // it sees what is known when it arrives
    ep.retain();
    if (!first.post(ep.identity_known)) ep.release();
}

void IdentityKnown::arrive(Shard &shard) {
    posted.store(false);
    shard.engine.receive_queue().identity_known(ep_);
    ep_.release();  // may destroy this
}

}  // namespace xfer
