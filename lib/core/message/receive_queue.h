// SPDX-License-Identifier: Apache-2.0
// Receives, and messages that have come before theirs. All of it lives on the engine's first loop,
// whichever loops the connections are on, so that matching needs no lock and happens in one order.
// What has matched and is not here in full is pulled on the loop of its connection.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/message/cross_shard.h"
#include "core/message/held_messages.h"
#include "core/message/tag_matcher.h"
#include "core/transfer/transfer.h"

namespace xfer {

class Engine;
struct InPosted;  // list tags
struct InConnection;

// A message, as the connection tells of it.
struct Arrival {
    Shard *shard = nullptr;
    uint64_t connection = 0;  // its number on that shard
    uint64_t number = 0;      // of the message on it
    EngineId from{};
    uint64_t incarnation = 0;
    uint64_t tag = 0, length = 0;
    bool sync = false, checked = false;
    bool whole = false;    // the payload came along
    ConstBytes payload;    // valid during the call
    Ref<Endpoint> source;  // a handle of the peer
    Ref<Answers> answers;  // if it has crossed
};

// An xfer_recv, from the call to its event.
class Receive final : public Transfer, public Posted, public ListNode<InPosted> {
public:
    explicit Receive(Engine &owner);

    void arrive(Shard &shard) override;
    void on_timer(Timer &timer) override;
    void ended() override;  // a pull
    const Endpoint *begun_with() const override { return named.get(); }
    void cancel() override;
    bool still_valid() override;
    void released() override;

    // XFER_FLAG_TAKE: the memory for a message of that length. Throws std::bad_alloc.
    void make_room(uint64_t length);
    void match(const Arrival &arrival);
    void end(Shard &shard, Status status);  // without a pull

    Engine &engine;
    Ref<Endpoint> named;  // from whom; nothing: from any
    uint8_t *buffer = nullptr;
    uint64_t capacity = 0;
    bool takes = false;  // into memory of its own

private:
    void tell_taken();

    const CancelCover cover_;
    Ref<Endpoint> source_;
    xfer_id_t sender_{};
    std::unique_ptr<uint8_t[]> taken_;  // the sender's identity, and the message
};

class ReceiveQueue {
public:
    explicit ReceiveQueue(Engine &engine) : engine_(engine) {}
    ~ReceiveQueue();

    // ---- from the user
    void post(Receive &receive);
    bool peek(const Posted &wanted, xfer_message_info_t &info);  // false: none waits
    void cancel(const CancelScope &scope) { index_.cancel(scope); }
    void end(Receive &receive, Status why);  // one that waits
    // Takes out those from `ep`, for it is closed.
    void take(const Endpoint &ep, List<Receive, InPosted> &into);
    void close();

    // ---- from connections
    void arrive(const Arrival &arrival);
    void withdraw(const Shard &shard, uint64_t connection, uint64_t number);
    void lost(const Shard &shard, uint64_t connection);
    void identity_known(Endpoint &ep);  // who it is

private:
    class Envelope;
    using Source = std::pair<uint32_t, uint64_t>;  // shard and connection

    bool wait(Receive &receive);  // false: its message was here
    void await(Shard &home);
    void deliver(Receive &receive, const Arrival &arrival);
    void keep(const Arrival &arrival);
    void answer(const Arrival &arrival, const MessageAnswer &answer);
    void taken(const Arrival &arrival, Status status = XFER_OK);
    void discard(Envelope &envelope);
    void forget(Receive &receive);
    Shard &shard();

    Engine &engine_;
    TagMatcher matcher_;
    List<Receive, InPosted> posted_;
    CancelIndex index_;  // of the same
    std::map<Source, List<Envelope, InConnection>> by_connection_;
    HeldMessages held_;
    bool closed_ = false;
};

}  // namespace xfer
