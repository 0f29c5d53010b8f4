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
class Shard;
struct Arrival;
struct InPosted;

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

// The close of an endpoint, on its way to its receives, and back with them.
class EndReceives final : public Message {
public:
    explicit EndReceives(Endpoint &owner) : ep_(owner) {}
    void arrive(Shard &shard) override;
    void all(Shard &shard);
    Shard *home = nullptr;
    List<Receive, InPosted> receives;

private:
    Endpoint &ep_;
};

// On another loop it became known who an endpoint's peer is.
class IdentityKnown final : public Message {
public:
    explicit IdentityKnown(Endpoint &owner) : ep_(owner) {}
    void arrive(Shard &shard) override;
    std::atomic<bool> posted{false};

private:
    Endpoint &ep_;
};

// One loop's side of it. On the first loop, nothing is posted.
class CrossShard {
public:
    explicit CrossShard(Shard &shard) : shard_(shard) {}

    // ---- of this loop's connections, to the first loop
    void arrived(const Arrival &arrival);
    void withdrawn(uint64_t connection, uint64_t number);
    std::unique_ptr<MessagesLost> prepare_lost(uint64_t connection);  // null: nothing crosses
    void lost(uint64_t connection, std::unique_ptr<MessagesLost> prepared);

    // ---- back
    void answer(uint64_t connection, uint64_t number, const MessageAnswer &answer);
    void pull(Receive &receive);

    // ---- of this loop's endpoints, to the first loop
    void identity_known(Endpoint &ep);  // who its peer is, and receives name it
    void end_receives(Endpoint &ep);

private:
    bool is_first() const;
    void lose(Receive &receive);  // the connection of its message has ended, or is about to

    Shard &shard_;
};

}  // namespace xfer
