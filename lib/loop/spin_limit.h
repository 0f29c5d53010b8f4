// SPDX-License-Identifier: Apache-2.0
// How long a loop looks for more before it sleeps. By default that follows what it has found: while
// work comes at short intervals, twice their average, and nothing once they are long. Pure: the
// caller has the clock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace xfer {

class SpinLimit {
public:
    static SpinLimit fixed(uint64_t ns) { return {ns, false}; }  // 0: none
    static SpinLimit adaptive() { return {0, true}; }

    // At `now` something was found to do.
    void worked(uint64_t now) {
        if (!adapts_) return;
        const uint64_t gap = std::min(now - last_, kIdleNs);
        last_ = now;
        average_ = average_ - average_ / kWeight + gap / kWeight;
        ns_ = average_ <= kWorthNs ? std::clamp(2 * average_, kLeastNs, kWorthNs) : 0;
    }
    uint64_t ns() const { return ns_; }

private:
    // A sleep and its end cost some 5 us, and who is woken comes 10 to 50 us later than who looks.
    // One idle millisecond ends it, and some thirty events at short intervals begin it.
    static constexpr uint64_t kWorthNs = 50'000, kLeastNs = 5'000, kIdleNs = 1'000'000;
    static constexpr uint64_t kWeight = 8;

    SpinLimit(uint64_t ns, bool adapts) : ns_(ns), adapts_(adapts) {}

    uint64_t ns_;
    bool adapts_;
    uint64_t last_ = 0;
    uint64_t average_ = kIdleNs;  // of the intervals
};

}  // namespace xfer
