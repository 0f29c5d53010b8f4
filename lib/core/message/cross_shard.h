// SPDX-License-Identifier: Apache-2.0
// What crosses between the loop of a connection and the first one, where its messages are matched
// (core/message/receive_queue.h). Made with the connection's first message, and with each message,
// so that an answer and an end need no memory.
#pragma once

#include <cstdint>

#include "core/base/mailbox.h"
#include "util/ref.h"
#include "util/status.h"

namespace xfer {

class Shard;

// What a peer is told of a message that it has sent.
struct MessageAnswer {
    bool kept = false, held = false;
    Status status = XFER_OK;
};

// The answers to one message, on their way back: `kept` at most once, and `taken` once.
class Answers final : public RefCounted<Answers> {
public:
    Answers(Shard &home, uint64_t connection, uint64_t number)
        : home_(home), connection_(connection), number_(number) {}
    void post(const MessageAnswer &answer);

private:
    class Node final : public Message {
    public:
        explicit Node(Answers &owner) : answers(owner) {}
        void arrive(Shard &shard) override;
        Answers &answers;
        MessageAnswer answer;
    };
    Shard &home_;
    const uint64_t connection_, number_;
    Node kept_{*this}, taken_{*this};
};

// The end of a connection that messages came by, on its way to them.
class MessagesLost final : public Message {
public:
    MessagesLost(const Shard &from, uint64_t connection) : from_(from), connection_(connection) {}
    void arrive(Shard &shard) override;

private:
    const Shard &from_;
    const uint64_t connection_;
};

}  // namespace xfer
