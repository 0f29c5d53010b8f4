// SPDX-License-Identifier: Apache-2.0
// The messages that go to one peer. They wait for room on the connection, are numbered there, and
// end by the peer's answers. `queued`: no receive was there, the message waits, held by the peer's
// engine if its payload went along. `completed`: it has been received, or thrown away. Who is not
// held leaves its bytes here, and the peer pulls them by a get.
#pragma once

#include <vector>

#include "core/message/send.h"
#include "core/transfer/flow.h"
#include "device/device.h"
#include "transport/path.h"
#include "util/number_map.h"
#include "wire/frame.h"

namespace xfer {

class Connection;

class MessageSender final : public SendQueue {
public:
    explicit MessageSender(Flow &flow) : flow_(flow) {}

    void enqueue(Send &send) { queue_.push_back(send); }
    bool waiting() const override { return !queue_.empty(); }
    bool unanswered() const { return unanswered_ != 0; }  // some that the peer has not looked at
    void pump(Connection &connection) override;
    void queued(Connection &connection, const Frame &frame);
    void completed(Connection &connection, const Frame &frame);
    // The peer pulls one.
    Status access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                  std::vector<iovec> &out, Memory &memory);
    Status find_export(const Access &asked, ExportedMemory &out);  // the same, by an adapter
    void memory_failed(MessageId number, int32_t error);           // see Send::memory_error
    void cancel(Connection &connection, Send &send);
    // Nothing of it is on its way out, or read. False: quiet() or withdrawn() follows.
    bool still(Connection &connection, Send &send);
    void quiet(const Connection &connection, MessageId number);  // its bytes have left, by one lane
    void withdrawn(const Connection &connection, MessageId number);  // the same, by one path
    void forget(Send &send);                                         // it has ended
    void reset() override;

private:
    struct Open {
        Send *send = nullptr;     // null: it has ended here
        uint32_t payload = 0;     // bytes that went along
        uint32_t unanswered = 0;  // bytes that the peer may not have looked at yet
    };
    Send *asked_for(const Access &asked);  // null: it has ended
    bool room(const Send &send) const;
    bool is_eager(const Send &send) const;
    void make_room(const Send &send);  // all that begin() takes
    void begin(Connection &connection, Send &send);
    void finish(Connection &connection, Send &send, Status status);
    Send *find_leaving(const Connection &connection, MessageId number);
    void await_rest(Send &send);

    Flow &flow_;
    List<Send, InQueue> queue_;
    List<Send, InLeaving> leaving_;  // with lanes that are not quiet yet
    NumberMap<Open> open_;
    uint64_t last_ = 0;
    uint64_t payload_ = 0, unanswered_ = 0;  // of all that are open
    std::vector<uint8_t> body_;
};

}  // namespace xfer
