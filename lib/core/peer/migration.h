// SPDX-License-Identifier: Apache-2.0
// A connection belongs on the loop that its peer's identity falls to. Which that is, the dialing
// side learns from the reply, the other from the proof, or from the message of a lane; it travels
// there with that message unanswered. An outgoing one takes along whoever wanted it.
#pragma once

#include <vector>

#include "core/base/mailbox.h"
#include "core/peer/peer.h"

namespace xfer {

struct Migration final : Message {
    void arrive(Shard &shard) override;

    Side side = Side::theirs;
    DetachedChannel ticket;
    std::vector<uint8_t> heard;  // the peer's message, to be heard again
    std::vector<uint8_t> said;   // our last message: hello, or reply
    std::vector<uint8_t> hello;  // theirs, with its proof: how it began
    uint64_t sequence = 0;
    uint64_t listener_user = 0;  // theirs
    std::string uri;
    EngineId id{};                // ours: of who answered
    PeerMove pending_work;        // ours
    std::unique_ptr<Peer> spare;  // ours: for them, if none by that name is known there
};

}  // namespace xfer
