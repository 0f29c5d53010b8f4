// SPDX-License-Identifier: Apache-2.0
// Notices callbacks that block. One read of a coarse clock for each callback: it began no earlier
// than the turn of its loop, whose time is known, or the end of the callback before it.
#pragma once

#include <atomic>
#include <cstdint>

namespace xfer {

class CallbackWatch {
public:
    // The clock of the loops, to a few milliseconds, for a quarter of the price. Thread: any.
    static uint64_t now();
    // On the dispatching thread.
    void begin(uint32_t kind, uint64_t turn);
    uint64_t end();  // how long it took, if it is the first slow one of an episode; else 0

    // Thread: any.
    struct State {
        uint64_t slow = 0;        // callbacks that took kSlowCallbackNs or more
        uint64_t longest_ns = 0;  // of those
        uint32_t running = 0;     // the kind of event whose callback has not returned; 0: none
        uint64_t running_ns = 0;
    };
    State state() const;

private:
    uint64_t last_end_ = 0;
    bool was_slow_ = false;
    std::atomic<uint64_t> began_{0}, slow_{0}, longest_{0};
    std::atomic<uint32_t> running_{0};
};

}  // namespace xfer
