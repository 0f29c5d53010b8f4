// SPDX-License-Identifier: Apache-2.0
// A connection belongs on the loop that its peer's identity falls to. It learns that from the
// peer's first message, and travels there with that message unanswered; an outgoing one takes along
// whoever wanted it.
#pragma once

#include <vector>

#include "core/mailbox.h"
#include "core/peer.h"

namespace xfer {

struct LinkMove final : Message {
    void arrive(Shard &shard) override;

    Side side = Side::theirs;
    LinkTicket ticket;
    std::vector<uint8_t> heard;  // the peer's message, to be heard again
    std::vector<uint8_t> said;   // ours: our hello
    uint64_t sequence = 0;
    std::string uri;
    EngineId id{};                // ours: of who answered
    PeerMove wishes;              // ours
    std::unique_ptr<Peer> spare;  // ours: for them, if none by that name is known there
};

}  // namespace xfer
