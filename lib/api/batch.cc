// SPDX-License-Identifier: Apache-2.0
// The life of a batch but for what is added to it.
#include "api/building.h"
#include "api/transfer_check.h"

using namespace xfer;

namespace {

Status submit(xfer_batch_t *handle, uint64_t user, const xfer_submit_options_t *given,
              Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    xfer_submit_options_t options;
    if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
    constexpr uint32_t known = XFER_SUBMIT_NOTIFY | XFER_SUBMIT_ORDERED | XFER_SUBMIT_CHECKSUM;
    if (Status status = check_flags("xfer_submit_options_t.flags", options.flags, known, why);
        status != XFER_OK)
        return status;
    const bool notifies = (options.flags & XFER_SUBMIT_NOTIFY) != 0;
    if (!notifies && (options.notify_data || options.notify_length))
        return invalid(why, "xfer_submit_options_t.notify_data without XFER_SUBMIT_NOTIFY");
    if (Status status = check_notify_data(engine_of(*batch.ep), options.notify_data,
                                          options.notify_length, why);
        status != XFER_OK)
        return status;
    copy_notify_data(options.notify_data, options.notify_length, batch.notify_data);
    if (!batch.ep->admit(OpKind::batch)) return batch.ep->refusal();
    batch.timeout_ms = resolve_timeout(batch.ep->engine, options.timeout_ms);
    batch.notifies = notifies;
    batch.notify_key = options.notify_key;
    batch.ordered = (options.flags & XFER_SUBMIT_ORDERED) != 0;
    batch.checked = (options.flags & XFER_SUBMIT_CHECKSUM) != 0;
    batch.event = {};
    batch.event.kind = XFER_EVENT_BATCH;
    batch.event.user = user;
    batch.event.ep = reinterpret_cast<xfer_ep_t *>(batch.ep);
    batch.event.object = handle;
    const bool submitted = std::exchange(batch.submitted, true);
    const uint64_t entries = batch.submitted_entries.exchange(batch.list.entries());
    const uint64_t moved = batch.moved.get();
    batch.moved.set(0);
    batch.flight.fetch_add(1);
    batch.retain();  // the flight's
    batch.state.store(Batch::State::inflight);
    building.keep_busy();
    if (post_to(batch.ep->entry(batch.ordered, batch.passes), batch)) return XFER_OK;
    batch.moved.set(moved);  // xfer_batch_info is of the submit before
    batch.submitted_entries.store(entries);
    batch.submitted = submitted;
    batch.state.store(Batch::State::idle);
    batch.ep->outstanding.fetch_sub(1);
    batch.release();
    return XFER_ECLOSED;
}

void ask_cancel(Batch &batch) {
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

xfer_status_t xfer_batch_submit(xfer_batch_t *batch, uint64_t user,
                                const xfer_submit_options_t *options) {
    return guarded(on(batch),
                   [&](Failure &why) -> Status { return submit(batch, user, options, why); });
}

xfer_status_t xfer_batch_cancel(xfer_batch_t *handle) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Batch *batch = of(handle);
        if (Status status = check(batch); status != XFER_OK) return status;
        if (batch->closed.load()) return XFER_ECLOSED;
        if (batch->state.load() != Batch::State::inflight)
            return invalid(why, "the batch is not in flight");
        ask_cancel(*batch);
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_info(xfer_batch_t *handle, xfer_batch_info_t *info, uint32_t info_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        const Batch *batch = of(handle);
        if (Status status = check(batch); status != XFER_OK) return status;
        xfer_batch_info_t now{};
        const bool inflight = batch->state.load() == Batch::State::inflight;
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
        Building building(handle, Building::Use::look);
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
