// SPDX-License-Identifier: Apache-2.0
// A message that waits for its receive, or is on its way into that one's memory of a device
// (design/0065). Owned by ReceiveQueue, on the first loop.
#pragma once

#include <utility>
#include <vector>

#include "core/message/arrival.h"
#include "core/message/tag_matcher.h"
#include "device/copier.h"
#include "util/list.h"

namespace xfer {

class Receive;
class ReceiveQueue;
struct InConnection;  // list tags
struct InReturned;

class Envelope final : public Unexpected,
                       public ListNode<InConnection>,
                       public ListNode<InReturned>,
                       Copier::Copy {
public:
    explicit Envelope(ReceiveQueue &queue) : queue_(queue) {}

    void address(const Arrival &told);
    void hold(ConstBytes bytes);  // throws std::bad_alloc
    void clear();                 // for the next one

    // So many bytes into a receive: ReceiveQueue::copied() follows. False: host memory lacks.
    bool copy(Copier &copier, Receive &into, uint64_t bytes);
    // True: it had not begun, and nothing follows.
    bool revoke() { return Copy::revoke(); }

    Arrival arrival;
    std::vector<uint8_t> payload;
    bool counted = false;        // among the HeldMessages
    Receive *receive = nullptr;  // while it is copied

    // Its sender was told that it is held, and has seen its send succeed.
    bool is_told() const { return counted && !arrival.sync; }

private:
    void on_copied(Status status, int32_t error) override;

    ReceiveQueue &queue_;
};

}  // namespace xfer
