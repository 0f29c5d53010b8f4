// SPDX-License-Identifier: Apache-2.0
// The right to change or read a batch.
#pragma once

#include "api/guard.h"

namespace xfer {

// One thread at a time fills, submits or asks a batch, and none while it is in flight. Only what
// adds to it or submits it needs an endpoint that takes new work.
class Building {
public:
    enum class Use { work, look };

    explicit Building(xfer_batch_t *handle, Use use = Use::work) : batch(of(handle)) {
        status = check(batch);
        if (status != XFER_OK) return;
        if (batch->closed.load()) status = XFER_ECLOSED;
        if (status == XFER_OK && use == Use::work) status = check_open(batch->ep);
        if (status != XFER_OK) return;
        Batch::State expected = Batch::State::idle;
        if (!batch->state.compare_exchange_strong(expected, Batch::State::building)) {
            status = XFER_EBUSY;
            return;
        }
        held_ = true;
    }
    ~Building() {
        if (held_) batch->state.store(Batch::State::idle);
    }
    void keep_busy() { held_ = false; }  // the flight has begun

    Batch *const batch;
    Status status;

private:
    bool held_ = false;
};

}  // namespace xfer
