// SPDX-License-Identifier: Apache-2.0
// The messages that the peer of one connection sends: checked and counted here, matched by
// ReceiveQueue. Each is answered `queued` if it has to wait, and `completed` at its end.
#pragma once

#include <cstdint>
#include <memory>

#include "core/message/cross_shard.h"
#include "util/number_map.h"
#include "util/status.h"
#include "wire/bytes.h"
#include "wire/frame.h"

namespace xfer {

class Connection;

class MessageReceiver {
public:
    explicit MessageReceiver(Connection &connection) : connection_(connection) {}

    void hear(const Frame &message, ConstBytes body);
    void cancel(const Frame &frame);
    void lost();  // the connection has ended
    bool quiet() const { return open_.empty(); }

    void queued(uint64_t number, bool held);
    void completed(uint64_t number, Status status);

private:
    bool admit(const Frame &message, uint64_t payload);
    void answer(FrameType type, uint64_t number, uint8_t flags, Status status);

    Connection &connection_;
    NumberMap<uint64_t> open_;            // bytes that came along, by number
    std::unique_ptr<MessagesLost> lost_;  // made with the first message
    uint64_t last_ = 0;
    uint64_t payload_ = 0;  // bytes of all that are open
};

}  // namespace xfer
