// SPDX-License-Identifier: Apache-2.0
#include "xfer/cuda.h"

#include "api/submit.h"

using namespace xfer;

namespace {

// As the driver numbers them, whose header a build may lack.
constexpr int32_t kOutOfMemory = 2, kInvalidContext = 201, kInvalidHandle = 400,
                  kContextDestroyed = 709, kNotSupported = 801;

Failure refused(int32_t error) {
    const bool invalid =
        error == kInvalidHandle || error == kInvalidContext || error == kContextDestroyed;
    const Status status = error == kNotSupported  ? XFER_EUNSUPPORTED
                          : error == kOutOfMemory ? XFER_ENOMEM
                          : invalid               ? XFER_EINVAL
                                                  : XFER_EIO;
    return {status, XFER_ORIGIN_CUDA, error,
            fmt::format("the stream does not take the batch: CUDA error {}", error)};
}

// Where it fails half-way, what the stream or the graph has of it lets each launch through.
int32_t put_in(StreamCall &call, StreamEntry &stream, bool &captures) {
    if (const int32_t error = stream.prepare(call, captures)) return error;
    call.begin(captures);
    const int32_t error = stream.put_in(call);
    if (error) {
        call.apply(TicketInput::end);
        call.leave();
    }
    return error;
}

Failure submit(xfer_batch_t *handle, void *stream, uint64_t user,
               const xfer_submit_options_t *given, const xfer_cuda_result_t **result) {
    Building building(handle);
    if (building.status != XFER_OK) return {building.status, 0, 0, {}};
    Batch &batch = *building.batch;
    xfer_submit_options_t options;
    Failure why;
    if (take_submit(batch, given, options, why) != XFER_OK) return why;
    if (options.flags & XFER_SUBMIT_ORDERED)
        return {XFER_EUNSUPPORTED, 0, 0, "XFER_SUBMIT_ORDERED on a stream, which is an order"};
    const Device *const device = engine_of(batch).device();
    const auto entry = device ? device->enter_stream(stream) : nullptr;
    if (!entry)
        return {XFER_EUNSUPPORTED, 0, 0, "no CUDA driver that has all of this, as from 11.7 on"};
    const Ref<StreamCall> call = batch.on_stream.make_call();
    bool captures = false;
    if (!batch.ep->admit_on_stream()) return {batch.ep->refusal(), 0, 0, {}};
    if (const int32_t error = put_in(*call, *entry, captures)) {
        batch.ep->on_streams.fetch_sub(1);
        return refused(error);
    }
    set_submit(batch, user, options);
    batch.submitted = true;
    batch.submitted_entries.store(batch.list.entries());
    if (result) *result = &call->result();
    building.keep_busy();
    batch.on_stream.bind(call, captures);
    return {};
}

}  // namespace

xfer_status_t xfer_cuda_submit(xfer_batch_t *batch, void *stream, uint64_t user,
                               const xfer_submit_options_t *options,
                               const xfer_cuda_result_t **result, xfer_error_t *err) {
    if (result) *result = nullptr;
    return guarded(on(batch, err),
                   [&]() -> Failure { return submit(batch, stream, user, options, result); });
}
