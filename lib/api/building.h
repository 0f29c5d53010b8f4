// SPDX-License-Identifier: Apache-2.0
// The right to change or read a batch.
#pragma once

#include "api/guard.h"

namespace xfer {

// One thread at a time fills, submits or asks a batch, and none while it is in flight, but for what
// may be done between two runs of a graph. Only what adds to it or submits it needs an endpoint
// that takes new work.
class Building {
public:
    enum class Use { work, look, work_between_runs, look_between_runs };

    explicit Building(xfer_batch_t *handle, Use use = Use::work) : batch(of(handle)) {
        status = check(batch);
        if (status != XFER_OK) return;
        if (batch->closed.load()) status = XFER_ECLOSED;
        const bool works = use == Use::work || use == Use::work_between_runs;
        if (status == XFER_OK && works) status = check_open(batch->ep);
        if (status != XFER_OK) return;
        held_ = take(Batch::State::idle, Batch::State::building);
        edits_ = !held_ && use >= Use::work_between_runs && batch->on_stream.recorded() &&
                 take(Batch::State::on_stream, Batch::State::editing);
        if (!held_ && !edits_) status = XFER_EBUSY;
    }
    ~Building() {
        if (held_) batch->state.store(Batch::State::idle);
        if (edits_) batch->on_stream.user_is_done();
    }
    void keep_busy() { held_ = false; }  // the flight has begun

    Batch *const batch;
    Status status;

private:
    bool take(Batch::State from, Batch::State to) {
        return batch->state.compare_exchange_strong(from, to);
    }

    bool held_ = false;
    bool edits_ = false;  // it goes back to its graph
};

}  // namespace xfer
