// SPDX-License-Identifier: Apache-2.0
// What crosses between the loop of a connection and the first one, where its messages are matched
// (core/message/receive_queue.h). Made with the connection's first message, and with each message,
// so that an answer and an end need no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/mailbox.h"
#include "util/list.h"
#include "util/ref.h"
#include "util/status.h"

namespace xfer {

class Endpoint;
class Receive;
class ShardCore;
struct Arrival;

// What a peer is told of a message that it has sent.
struct MessageAnswer {
    bool queued = false, held = false;
    Status status = XFER_OK;
};

// The answers to one message, on their way back: `queued` at most once, and `completed` once.
class Answers final : public RefCounted<Answers> {
public:
    Answers(ShardCore &home, uint64_t connection, uint64_t number)
        : home_(home), connection_(connection), number_(number) {}
    void post(const MessageAnswer &answer);

private:
    class Node final : public Message {
    public:
        explicit Node(Answers &owner) : answers(owner) {}
        void arrive(ShardCore &shard) override;
        Answers &answers;
        MessageAnswer answer;
    };
    ShardCore &home_;
    const uint64_t connection_, number_;
    Node queued_{*this}, completed_{*this};
};

// The end of a connection that messages came by, on its way to them.
class MessagesLost final : public Message {
public:
    MessagesLost(const ShardCore &from, uint64_t connection)
        : from_(from), connection_(connection) {}
    void arrive(ShardCore &shard) override;

private:
    const ShardCore &from_;
    const uint64_t connection_;
};

// One loop's side of it. On the first loop, nothing is posted.
class CrossShard {
public:
    explicit CrossShard(ShardCore &shard) : shard_(shard) {}

    // ---- of this loop's connections, to the first loop
    void arrived(const Arrival &arrival);
    void canceled(uint64_t connection, uint64_t number);
    std::unique_ptr<MessagesLost> prepare_lost(uint64_t connection);  // null: nothing crosses
    void lost(uint64_t connection, std::unique_ptr<MessagesLost> prepared);

    // ---- back
    void answer(uint64_t connection, uint64_t number, const MessageAnswer &answer);
    void pull(Receive &receive);

    // ---- of this loop's endpoints, to the first loop
    void identity_known(Endpoint &ep);  // who its peer is, and receives name it
    void end_receives(Endpoint &ep);
    // Its message has arrived, or the copies that it had to wait for are over.
    void on_end_receives(Endpoint &ep);

private:
    bool is_first() const;
    void end_all(Endpoint &ep);
    void lose(Receive &receive);  // the connection of its message has ended, or is about to

    ShardCore &shard_;
};

}  // namespace xfer
