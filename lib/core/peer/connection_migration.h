// SPDX-License-Identifier: Apache-2.0
// A connection belongs on the loop that its peer's identity falls to. Which that is, the dialing
// side learns from the reply, the other from the proof, or from the message of a lane; it travels
// there with that message unanswered. An outgoing one takes along whoever wanted it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/mailbox.h"
#include "core/peer/peer.h"

namespace xfer {

// What travels.
struct MigrationMessage final : Message {
    void arrive(ShardCore &shard) override;

    Side side = Side::theirs;
    DetachedChannel ticket;
    std::vector<uint8_t> heard;  // the peer's message, to be heard again
    std::vector<uint8_t> said;   // our last message: hello, or reply
    std::vector<uint8_t> hello;  // theirs, with its proof: how it began
    uint64_t sequence = 0;
    uint64_t listener_user = 0;  // theirs
    uint64_t replied_at = 0;     // theirs
    std::string uri;
    EngineId id{};                // ours: of who answered
    PeerMove pending_work;        // ours
    std::unique_ptr<Peer> spare;  // ours: for them, if none by that name is known there
};

// One loop's side of it: what leaves here, and what comes here.
class ConnectionMigration {
public:
    explicit ConnectionMigration(ShardCore &shard) : shard_(shard) {}

    // For a connection of ours that turned out to be another peer's: what its move takes, and the
    // move, which needs no more.
    std::unique_ptr<MigrationMessage> pack(Session &connection, const Identity &identity,
                                           ConstBytes reply, List<Endpoint, InPeer> &eps);
    void move_dialed(Session &connection, std::unique_ptr<MigrationMessage> message,
                     ConstBytes reply);
    void move_half_open(Session &half_open, ShardCore &home, ConstBytes heard);
    void arrive(MigrationMessage &message);

private:
    void post(ShardCore &home, std::unique_ptr<MigrationMessage> message, Peer *from = nullptr);
    void adopt(MigrationMessage &message);
    std::unique_ptr<Session> unpack(MigrationMessage &message);

    ShardCore &shard_;
    std::vector<Ref<Endpoint>> leaving_;  // room for those that leave with a connection
};

}  // namespace xfer
