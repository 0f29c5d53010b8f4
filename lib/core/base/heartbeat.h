// SPDX-License-Identifier: Apache-2.0
// The heartbeat of one loop: its peers are looked at from time to time, for silence, idleness and
// what waits for them, as long as one of them needs it.
#pragma once

#include "loop/loop.h"

namespace xfer {

class ShardCore;

class Heartbeat final : public TimerSink {
public:
    explicit Heartbeat(ShardCore &shard) : shard_(shard), timer_(*this) {}

    // Somebody is waited for: peers are looked at, if they were not.
    void arm() {
        if (!asked_ || !timer_.armed()) look_soon();
    }
    void stop();  // the shard closes
    uint64_t step() const;
    // Since when peers are looked at without a rest.
    uint64_t listens_since() const { return listens_since_; }
    // How long before this look the loop was kept from its work, and heard nobody.
    uint64_t absence() const { return absence_; }
    void on_timer(Timer &timer) override;

private:
    void look_soon();
    uint64_t interval() const;

    ShardCore &shard_;
    Timer timer_;
    bool asked_ = false;  // arm() since the last heartbeat began
    uint64_t listens_since_ = 0, absence_ = 0;
};

}  // namespace xfer
