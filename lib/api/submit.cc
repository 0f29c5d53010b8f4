// SPDX-License-Identifier: Apache-2.0
#include "api/submit.h"

#include "api/transfer_check.h"

namespace xfer {

Status take_submit(Batch &batch, const xfer_submit_options_t *given, xfer_submit_options_t &options,
                   Failure &why) {
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
    return XFER_OK;
}

void set_submit(Batch &batch, uint64_t user, const xfer_submit_options_t &options) {
    batch.timeout_ms = resolve_timeout(batch.ep->engine, options.timeout_ms);
    batch.notifies = (options.flags & XFER_SUBMIT_NOTIFY) != 0;
    batch.notify_key = options.notify_key;
    batch.ordered = (options.flags & XFER_SUBMIT_ORDERED) != 0;
    batch.checked = (options.flags & XFER_SUBMIT_CHECKSUM) != 0;
    batch.event = {};
    batch.event.kind = XFER_EVENT_BATCH;
    batch.event.user = user;
    batch.event.ep = reinterpret_cast<xfer_ep_t *>(batch.ep);
    batch.event.object = reinterpret_cast<xfer_batch_t *>(&batch);
}

namespace {

Status submit(xfer_batch_t *handle, uint64_t user, const xfer_submit_options_t *given,
              Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    xfer_submit_options_t options;
    if (Status status = take_submit(batch, given, options, why); status != XFER_OK) return status;
    if (!batch.ep->admit(OpKind::batch)) return batch.ep->refusal();
    set_submit(batch, user, options);
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

}  // namespace

}  // namespace xfer

using namespace xfer;

xfer_status_t xfer_batch_submit(xfer_batch_t *batch, uint64_t user,
                                const xfer_submit_options_t *options) {
    return guarded(on(batch),
                   [&](Failure &why) -> Status { return submit(batch, user, options, why); });
}
