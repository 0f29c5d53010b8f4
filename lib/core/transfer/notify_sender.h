// SPDX-License-Identifier: Apache-2.0
// The initiator's notifications of one peer: they wait while its application has too many that it
// did not take, and are numbered from 1 on each connection, in the order in which they begin.
#pragma once

#include <cstdint>

#include "core/transfer/transfer.h"
#include "util/number_map.h"
#include "wire/frame.h"
#include "wire/limits.h"

namespace xfer {

class NotifySender {
public:
    explicit NotifySender(Flow &flow) : flow_(flow) {}

    void hold(Transfer &transfer) { held_.push_back(transfer); }
    bool waiting() const { return !held_.empty(); }
    void pump() {
        if (waiting()) begin_waiting();
    }
    // All of it was drawn, and some is unanswered: where it has left, the owner is told what to
    // wait for, instead of one more way there and back.
    void await_left(Transfer &transfer) {
        if (!transfer.ListNode<InQueue>::linked()) leaving_.push_back(transfer);
    }
    void close_left() {
        if (!leaving_.empty()) close_what_left();
    }
    void close(Transfer &transfer, Status status);  // tells the owner how its data has ended
    // What is not noted yet and was told behind its put may be lost with the put's lane. The owner
    // ignores a notification that it has had.
    void say_again();
    void noted(const Frame &frame);  // the owner holds that, or had some of them
    void end(Transfer &transfer);
    void reset();  // the connection has ended

private:
    bool room() {
        while (oldest_ <= last_ && !open_.contains(oldest_))
            ++oldest_;
        return last_ - consumed_ < kMaxNotifications && last_ + 1 - oldest_ < kNotificationSpan;
    }
    void begin_waiting();
    void close_what_left();
    void send(Transfer &transfer, Status status, uint64_t awaited);
    bool consumed(uint64_t total);

    Flow &flow_;
    List<Transfer, InQueue> held_;     // they have not begun
    List<Transfer, InQueue> leaving_;  // drawn, and not closed
    NumberMap<Transfer *> open_;
    uint64_t last_ = 0, consumed_ = 0;
    uint64_t oldest_ = 1;  // none before it is open
};

}  // namespace xfer
