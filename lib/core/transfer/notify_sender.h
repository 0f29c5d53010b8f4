// SPDX-License-Identifier: Apache-2.0
// The initiator's notifications of one connection: numbered from 1 in the order in which they
// begin, and held back while the peer's application has too many that it did not take.
#pragma once

#include <cstdint>
#include <map>

#include "wire/limits.h"

namespace xfer {

class Transfer;

class NotifySender {
public:
    bool room() const {
        const bool near = open_.empty() || last_ + 1 - open_.begin()->first < kNotificationSpan;
        return last_ - had_ < kMaxNotifications && near;
    }
    uint64_t begin(Transfer &transfer) {
        open_.emplace(last_ + 1, &transfer);
        return ++last_;
    }
    void end(uint64_t number) { open_.erase(number); }
    bool begun(uint64_t number) const { return number <= last_; }
    Transfer *find(uint64_t number) const {
        const auto at = open_.find(number);
        return at == open_.end() ? nullptr : at->second;
    }
    // How many the peer's application has had; false if it can't be.
    bool had(uint64_t total) {
        if (total > last_ || total < had_) return false;
        had_ = total;
        return true;
    }

private:
    std::map<uint64_t, Transfer *> open_;
    uint64_t last_ = 0, had_ = 0;
};

}  // namespace xfer
