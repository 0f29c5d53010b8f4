// SPDX-License-Identifier: Apache-2.0
// The initiator's notifications of one peer: they wait while its application has too many that it
// did not take, and are numbered from 1 on each connection, in the order in which they begin.
#pragma once

#include <cstdint>
#include <map>

#include "core/transfer/transfer.h"
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
    void close(Transfer &transfer, Status status);  // tells the owner how its data has ended
    void noted(const Frame &frame);                 // the owner holds that, or had some of them
    void end(Transfer &transfer);
    void reset();  // the connection has ended

private:
    bool room() const {
        const bool near = open_.empty() || last_ + 1 - open_.begin()->first < kNotificationSpan;
        return last_ - consumed_ < kMaxNotifications && near;
    }
    void begin_waiting();
    bool consumed(uint64_t total);

    Flow &flow_;
    List<Transfer, InQueue> held_;  // they have not begun
    std::map<uint64_t, Transfer *> open_;
    uint64_t last_ = 0, consumed_ = 0;
};

}  // namespace xfer
