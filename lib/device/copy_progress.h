// SPDX-License-Identifier: Apache-2.0
// Do the copies of a device go on? Stalled: none of those under way has ended for as long as the
// limit says. Its user has a timer, and calls look() when that is due; times are those of a loop's
// turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace xfer {

class CopyProgress {
public:
    // A loop that was late looks again before its device counts as stalled: copies may have ended
    // meanwhile, or their thread had no turn either.
    static constexpr uint64_t kLateNs = 10'000'000;

    explicit CopyProgress(uint64_t limit_ns) : limit_ns_(limit_ns) {}

    void began(uint64_t now) {
        if (under_way_++ == 0) moved_at_ = now;
    }
    // Both: for how long it was stalled, if it was and is no more.
    std::optional<uint64_t> ended(uint64_t now) {
        --under_way_;
        return moved(now);
    }
    std::optional<uint64_t> revoked(uint64_t now) {
        if (--under_way_) return std::nullopt;
        return moved(now);
    }
    // True: it is stalled. `unheard`: one has ended, and ended() follows.
    bool look(uint64_t now, bool unheard) {
        if (stalled_) return true;
        if (!due() || now < *due()) return false;
        if (!suspected_ || unheard) {
            suspected_ = true;
            looked_at_ = now;
            return false;
        }
        return stalled_ = true;
    }
    // When to look; not, while nothing is under way, or it is stalled.
    std::optional<uint64_t> due() const {
        if (!under_way_ || stalled_) return std::nullopt;
        return suspected_ ? looked_at_ + kLateNs : moved_at_ + limit_ns_;
    }
    uint32_t under_way() const { return under_way_; }
    uint64_t still_ns(uint64_t now) const { return now - moved_at_; }
    bool stalled() const { return stalled_; }

private:
    std::optional<uint64_t> moved(uint64_t now) {
        const uint64_t before = moved_at_;
        moved_at_ = std::max(now, before);  // the turn may have begun ahead of the copy
        suspected_ = false;
        if (!stalled_) return std::nullopt;
        stalled_ = false;
        return moved_at_ - before;
    }

    const uint64_t limit_ns_;
    uint32_t under_way_ = 0;
    uint64_t moved_at_ = 0;   // the last one has ended, or the first was given in
    uint64_t looked_at_ = 0;  // and found the limit passed
    bool suspected_ = false, stalled_ = false;
};

}  // namespace xfer
