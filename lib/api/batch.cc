// SPDX-License-Identifier: Apache-2.0
// The life of a batch but for what is added to it, and its submit.
#include "api/building.h"
#include "api/transfer_check.h"

using namespace xfer;

namespace {

void ask_cancel(Batch &batch) {
    if (batch.on_stream.bound()) return batch.on_stream.ask_end(XFER_ECANCELED);
    if (batch.state.load() == Batch::State::inflight) batch.cancel_message.ask();
}

}  // namespace

xfer_status_t xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *given,
                              xfer_batch_t **batch, xfer_error_t *err) {
    return guarded(on(ep, err), [&]() -> Failure {
        if (Status status = check_open(of(ep)); status != XFER_OK) return {status, 0, 0, ""};
        if (!batch) return {XFER_EINVAL, 0, 0, "batch is NULL"};
        *batch = nullptr;
        xfer_batch_options_t options;
        Failure why;
        if (copy_input(given, options, why) != XFER_OK) return why;
        if (check_flags("xfer_batch_options_t.flags", options.flags, 0, why) != XFER_OK) return why;
        *batch = reinterpret_cast<xfer_batch_t *>(new Batch(*of(ep)));
        return {};
    });
}

xfer_status_t xfer_batch_cancel(xfer_batch_t *handle) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Batch *batch = of(handle);
        if (Status status = check(batch); status != XFER_OK) return status;
        if (batch->closed.load()) return XFER_ECLOSED;
        if (batch->is_free()) return invalid(why, "the batch is not in flight");
        ask_cancel(*batch);
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_info(xfer_batch_t *handle, xfer_batch_info_t *info, uint32_t info_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        const Batch *batch = of(handle);
        if (Status status = check(batch); status != XFER_OK) return status;
        xfer_batch_info_t now{};
        const bool inflight = !batch->is_free();
        now.state = inflight ? XFER_BATCH_INFLIGHT : XFER_BATCH_IDLE;
        now.status = inflight ? XFER_OK : batch->final_status.load();
        now.first_failed = inflight ? 0 : batch->first_failed.load();
        now.entries = batch->submitted_entries.load();
        now.bytes = batch->moved.get();
        return copy_out(now, info, info_size, why);
    });
}

xfer_status_t xfer_batch_entries(xfer_batch_t *handle, uint64_t first, uint64_t count,
                                 xfer_status_t *statuses) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Building building(handle, Building::Use::look_between_runs);
        if (building.status != XFER_OK) return building.status;
        Batch &batch = *building.batch;
        if (!batch.submitted) return invalid(why, "the batch was never submitted");
        if (!statuses && count) return invalid(why, "statuses is NULL");
        const uint64_t entries = batch.submitted_entries.load();
        if (!in_range(first, count, entries))
            return refuse(why, XFER_ERANGE, fmt::format("{} entries were submitted", entries));
        batch.runs.statuses(first, {statuses, count});
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_reset(xfer_batch_t *handle) {
    return guarded(on(handle), [&]() -> Status {
        Building building(handle, Building::Use::look);
        if (building.status != XFER_OK) return building.status;
        building.batch->list.clear();
        building.batch->remotes.clear();
        building.batch->runs.clear();
        building.batch->submitted = false;
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_close(xfer_batch_t *handle) {
    if (!handle) return XFER_OK;
    Batch *batch = of(handle);
    const Status status = check(batch);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    const Call call = on(handle);
    if (batch->closed.exchange(true)) return report(call, kClosedBefore);
    return guarded([&]() -> xfer_status_t {
        const bool over = engine_of(*batch).dispatcher().ended();
        if (status == XFER_OK) ask_cancel(*batch);
        batch->release();
        return status != XFER_OK ? status : over ? XFER_ECLOSED : XFER_OK;
    });
}
