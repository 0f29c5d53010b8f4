// SPDX-License-Identifier: Apache-2.0
#include "core/message/message_receiver.h"

#include <utility>

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/message/receive_queue.h"
#include "wire/crc32c.h"

namespace xfer {

bool MessageReceiver::admit(const Frame &message, uint64_t payload) {
    if (message.seq != last_ + 1) return false;
    if (open_.size() >= kMaxMessages || payload_ + payload > kMaxHeld) return false;
    last_ = message.seq;
    payload_ += payload;
    open_.insert(message.seq, payload);
    return true;
}

void MessageReceiver::hear(const Frame &message, ConstBytes body) {
    if (last_ == 0) lost_ = connection_.shard.messages.prepare_lost(connection_.number);
    Arrival arrival;
    arrival.whole = !(message.flags & kEnvelope);
    arrival.checked = (message.flags & kChecked) != 0;
    const bool summed = arrival.whole && arrival.checked;
    arrival.payload = arrival.whole ? body.subspan(summed ? kChecksumBytes : 0) : ConstBytes();
    arrival.length = arrival.whole ? arrival.payload.size() : load<uint64_t>(body.data());
    if (arrival.length > kMaxMessageBytes || !admit(message, arrival.payload.size()))
        return connection_.close({XFER_EPROTO, 0, 0, "a message that the peer may not send"});
    if (summed) {
        Crc32c sum;
        sum.add(arrival.payload.data(), arrival.payload.size());
        if (sum.value() != load<uint32_t>(body.data()))
            return completed(message.seq, XFER_ECHECKSUM);
    }
    ShardCore &shard = connection_.shard;
    arrival.shard = &shard;
    arrival.connection = connection_.number;
    arrival.number = message.seq;
    arrival.from = connection_.handshake.peer().id;
    arrival.incarnation = connection_.handshake.peer().incarnation;
    arrival.tag = message.region;
    arrival.sync = (message.flags & kSync) != 0;
    if (Endpoint *ep = connection_.sink.event_endpoint()) arrival.source = Ref(*ep);
    shard.messages.arrived(arrival);
}

void MessageReceiver::cancel(const Frame &frame) {
    if (!open_.contains(frame.seq)) return;  // it was completed meanwhile
    connection_.shard.messages.canceled(connection_.number, frame.seq);
}

void MessageReceiver::lost() {
    if (last_) connection_.shard.messages.lost(connection_.number, std::move(lost_));
}

void MessageReceiver::answer(FrameType type, uint64_t number, uint8_t flags, Status status) {
    Frame frame;
    frame.type = type;
    frame.flags = flags;
    frame.seq = number;
    frame.status = status;
    connection_.send(frame);
}

void MessageReceiver::queued(uint64_t number, bool held) {
    answer(FrameType::queued, number, held ? kHeld : 0, XFER_OK);
}

void MessageReceiver::completed(uint64_t number, Status status) {
    const uint64_t *const payload = open_.find(number);
    if (!payload) return;
    payload_ -= *payload;
    open_.erase(number);
    connection_.attached.forget_import(MessageId{number});
    answer(FrameType::completed, number, 0, status);
}

}  // namespace xfer
