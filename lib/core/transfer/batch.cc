// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/batch.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/transfer/flow.h"

namespace xfer {

Batch::Batch(Endpoint &endpoint)
    : Handle(Magic::batch), held_(endpoint), cover_(endpoint.engine.cancel_requests()) {
    ep = &endpoint;
}

void Batch::withdraw() {
    if (on_stream.bound()) on_stream.withdrawn(flow->shard.loop);
    Transfer::withdraw();
}

void Batch::ended() {
    Transfer::ended();
    on_stream.quiet();
}

void Batch::settle(FirstFailure &failures) {
    Transfer::settle(failures);
    again_ = on_stream.bound() && on_stream.run_ends();
}

// The user may submit again from inside the callback, and close from another thread at once:
// nothing of the batch may be read after the exchange, but through the reference that released()
// gives up.
void Batch::dequeued() {
    final_status.store(event.status);
    first_failed.store(event.index);
    state.store(State::idle, std::memory_order_release);
}

void Batch::released() {
    release();
}

void Batch::ended_quietly() {
    on_stream.run_over();
}

void Batch::Cancel::ask() {
    const uint64_t meant = batch.flight.load();
    uint64_t named = flight.load();
    while (named < meant && !flight.compare_exchange_weak(named, meant))
        continue;
    if (batch.cancel_wanted.exchange(true)) return;
    batch.retain();  // until it has arrived for the last time
    carried = flight.load();
    if (batch.ep->entry(true, passes).post_brief(*this)) return;
    batch.cancel_wanted.store(false);
    batch.release();
}

// For what was named while it was on its way: the flight may be behind it.
void Batch::Cancel::go_again() {
    carried = flight.load();
    if (batch.ep->entry(true, passes).enqueue(*this)) return;
    batch.cancel_wanted.store(false);
    batch.release();
}

// The batch may have stayed on a loop that its endpoint has left.
void Batch::Cancel::arrive(ShardCore &shard) {
    const bool here = batch.on.load() == &shard;
    if (!here && passes && shard.engine.post_from(shard.index + 1, *this)) return;
    passes = false;
    ShardCore *home = batch.ep->shard.load();
    if (!here && home != &shard && home->post(*this)) return;
    const uint64_t had = carried;  // who asks next writes it
    if (flight.load() != had) return go_again();
    if (here && had == batch.flight.load()) batch.flow->end(batch, XFER_ECANCELED);
    batch.cancel_wanted.exchange(false);
    // Who has found it set had named its flight before.
    if (flight.load() == had || batch.cancel_wanted.exchange(true)) return batch.release();
    go_again();
}

}  // namespace xfer
