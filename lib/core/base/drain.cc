// SPDX-License-Identifier: Apache-2.0
#include "core/base/drain.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"

namespace xfer {

bool Drain::begin(uint64_t user, uint32_t shards) {
    State off = State::off;
    if (!state_.compare_exchange_strong(off, State::starting)) return false;
    event_.event.kind = XFER_EVENT_DRAINED;
    event_.event.user = user;
    holds_.fetch_add(shards);
    state_.store(State::pending);
    return true;
}

bool Drain::revoke() {
    State pending = State::pending;
    return state_.compare_exchange_strong(pending, State::told);
}

// What the engine's close has ended did not end by itself.
void Drain::release(ShardCore &shard) {
    if (holds_.fetch_sub(1) == 1) finish(shard.engine.closing() ? XFER_ECANCELED : XFER_OK, shard);
}

void Drain::finish(Status status, ShardCore &shard) {
    State pending = State::pending;
    if (!state_.compare_exchange_strong(pending, State::told)) return;
    event_.event.status = status;
    event_.event.object = &shard.engine;
    shard.outbox.post(event_);
}

void Drain::cancel(const CancelScope &scope, ShardCore &shard) {
    if (state_.load() == State::pending && scope.has(event_.event.user))
        finish(XFER_ECANCELED, shard);
}

}  // namespace xfer
