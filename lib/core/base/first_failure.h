// SPDX-License-Identifier: Apache-2.0
// The first failure of an endpoint's operations that no flush has told yet.
#pragma once

#include <atomic>

#include "util/text.h"
#include "xfer/xfer.h"

namespace xfer {

class FirstFailure {
public:
    bool any() const { return any_.load(); }  // any thread

    // `event`: of an operation that has ended. Later failures are told by their own events alone.
    void note(const xfer_event_t &event, const Text &reason) {
        if (event.status == XFER_OK || any()) return;
        event_ = event;
        reason_ = reason;
        any_.store(true);
    }
    // Into the event of a flush that has ended well, and forgotten.
    void tell(xfer_event_t &event, Text &reason) {
        if (event.status != XFER_OK || !any()) return;
        event.status = event_.status;
        event.flags = event_.flags;
        event.origin = event_.origin;
        event.native_code = event_.native_code;
        reason = reason_;
        any_.store(false);
    }

private:
    std::atomic<bool> any_{false};
    xfer_event_t event_{};
    Text reason_;
};

}  // namespace xfer
