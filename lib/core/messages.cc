// SPDX-License-Identifier: Apache-2.0
// How messages cross between the loop of their connection and the first one, where receives wait
// (core/receiving.h). Where both are one, nothing is posted.
#include "core/connection.h"
#include "core/engine.h"
#include "core/shard.h"

namespace xfer {

namespace {

// On their way to the first loop, from another one.
class ArrivalMessage final : public Message {
public:
    explicit ArrivalMessage(const Arrival &arrival)
        : arrival_(arrival), payload_(arrival.payload.begin(), arrival.payload.end()) {
        arrival_.payload = payload_;
    }
    void arrive(Shard &shard) override {
        shard.engine.receiving().arrive(arrival_);
        delete this;
    }

private:
    Arrival arrival_;
    const std::vector<uint8_t> payload_;
};

class WithdrawMessage final : public Message {
public:
    // Of all messages of the connection, if there is no number.
    WithdrawMessage(const Shard &from, uint64_t connection, uint64_t number)
        : from_(from), connection_(connection), number_(number) {}
    void arrive(Shard &shard) override {
        Receiving &receiving = shard.engine.receiving();
        if (number_)
            receiving.withdraw(from_, connection_, number_);
        else
            receiving.lost(from_, connection_);
        delete this;
    }

private:
    const Shard &from_;
    const uint64_t connection_, number_;
};

// And back.
class AnswerMessage final : public Message {
public:
    AnswerMessage(uint64_t connection, uint64_t number, const MessageAnswer &answer)
        : connection_(connection), number_(number), answer_(answer) {}
    void arrive(Shard &shard) override {
        shard.answer_message(shard, connection_, number_, answer_);
        delete this;
    }

private:
    const uint64_t connection_, number_;
    const MessageAnswer answer_;
};

template <typename Crossing>
void post(Shard &to, Crossing *message) {
    if (!to.post(*message)) delete message;  // that loop has ended, and with it whom it concerns
}

// An endpoint's close, on its way to where its receives wait, and back with them.
class EndReceives final : public Message {
public:
    EndReceives(Endpoint &ep, Shard &home) : ep_(ep), home_(home) {}
    void arrive(Shard &shard) override {
        if (&shard != &home_) {
            shard.engine.receiving().take(*ep_, receives_);
            shard.hand_over_events();  // what matched before must not come after CLOSED
            if (home_.post(*this)) return;
        }
        while (Receive *receive = receives_.pop_front())
            receive->end(shard, XFER_ECANCELED);
        if (&shard == &home_) shard.closed_receives(*ep_);
        delete this;
    }

private:
    Ref<Endpoint> ep_;
    Shard &home_;
    List<Receive, InPosted> receives_;
};

// An endpoint has learnt, on another loop, who its peer is.
class LearntMessage final : public Message {
public:
    explicit LearntMessage(Endpoint &ep) : ep_(ep) {}
    void arrive(Shard &shard) override {
        shard.engine.receiving().learnt(*ep_);
        delete this;
    }

private:
    Ref<Endpoint> ep_;
};

}  // namespace

void Shard::message_arrived(const Arrival &arrival) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receiving().arrive(arrival);
    xfer::post(first, new ArrivalMessage(arrival));
}

void Shard::message_withdrawn(uint64_t connection, uint64_t number) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receiving().withdraw(*this, connection, number);
    xfer::post(first, new WithdrawMessage(*this, connection, number));
}

void Shard::messages_lost(uint64_t connection) {
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receiving().lost(*this, connection);
    xfer::post(first, new WithdrawMessage(*this, connection, 0));
}

void Shard::answer_message(Shard &caller, uint64_t connection, uint64_t number,
                           const MessageAnswer &answer) {
    if (&caller != this) return xfer::post(*this, new AnswerMessage(connection, number, answer));
    Connection *live = find_live(connection);
    if (!live) return;
    if (answer.kept)
        live->incoming.kept(number, answer.held);
    else
        live->incoming.taken(number, answer.status);
}

// The receive has its message, and the bytes are still with the sender.
void Shard::pull(Receive &receive) {
    Connection *live = find_live(receive.connection);
    if (!live || !live->usable()) return receive.end(*this, XFER_EPEERLOST);
    Endpoint *ep = receive.named ? receive.named.get() : live->peer->spokesman();
    if (!ep) {
        greet(*live->peer);
        ep = live->peer->spokesman();
    }
    if (ep->closing || ep->peer != live->peer) {
        live->incoming.taken(receive.letter.number, XFER_ECANCELED);
        return receive.end(*this, XFER_ECANCELED);
    }
    receive.role = Transfer::Role::pulls;
    receive.ep = ep;
    ep->retain();
    ep->outstanding.fetch_add(1);
    if (receive.named) ep->receives.fetch_sub(1);  // counted as an operation from here on
    live->peer->submit(receive);
}

void Shard::end_receives(Endpoint &ep) {
    if (!ep.had_receives.load()) return;
    Shard &first = engine.first_shard();
    if (&first == this) {
        List<Receive, InPosted> receives;
        engine.receiving().take(ep, receives);
        while (Receive *receive = receives.pop_front())
            receive->end(*this, XFER_ECANCELED);
        return;
    }
    auto *end = new EndReceives(ep, *this);
    ++ep.busy;
    if (first.post(*end)) return;
    --ep.busy;  // that loop has ended them
    delete end;
}

void Shard::closed_receives(Endpoint &ep) {
    if (--ep.busy == 0 && ep.closing) finish_close(ep);
}

void Shard::learnt(Endpoint &ep) {
    if (ep.receives.load() == 0) return;
    Shard &first = engine.first_shard();
    if (&first == this) return engine.receiving().learnt(ep);
    xfer::post(first, new LearntMessage(ep));
}

}  // namespace xfer
