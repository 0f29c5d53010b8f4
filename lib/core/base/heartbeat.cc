// SPDX-License-Identifier: Apache-2.0
#include "core/base/heartbeat.h"

#include <algorithm>

#include "core/base/shard_core.h"

namespace xfer {

// Nobody was listened for while all rested.
void Heartbeat::look_soon() {
    asked_ = true;
    const uint64_t due = shard_.now() + step();
    if (shard_.closing() || (timer_.armed() && timer_.due <= due)) return;
    listens_since_ = shard_.now();
    shard_.loop.arm(timer_, due);
}

void Heartbeat::stop() {
    shard_.loop.disarm(timer_);
}

void Heartbeat::on_timer(Timer &) {
    const uint64_t now = shard_.now();
    // A loop that was kept from its work heard nobody meanwhile; the silence was its own.
    absence_ = now > timer_.due + look_every(interval()) ? now - timer_.due : 0;
    asked_ = false;
    shard_.loop.arm(timer_, now + step());
    const uint64_t next = shard_.keep_alive();
    if (asked_) return;
    if (next == kNever)
        stop();
    else
        shard_.loop.arm(timer_, next);
}

uint64_t Heartbeat::interval() const {
    return shard_.engine.options().heartbeat_ms * kNsPerMs;
}

uint64_t Heartbeat::step() const {
    return std::min(look_every(interval()), shard_.engine.options().idle_ms * kNsPerMs);
}

}  // namespace xfer
