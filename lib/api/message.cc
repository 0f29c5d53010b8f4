// SPDX-License-Identifier: Apache-2.0
// Messages, notifications and counters come in a later release; a live handle is still told from a
// dead one.
#include "api/guard.h"

using namespace xfer;

namespace {

template <typename Handle>
xfer_status_t later(Handle *handle) {
    const Status status = check(of(handle));
    return status != XFER_OK ? status : XFER_EUNSUPPORTED;
}

}  // namespace

xfer_status_t xfer_send(xfer_ep_t *ep, const void *, uint64_t, uint64_t, uint64_t,
                        const xfer_op_options_t *) {
    return later(ep);
}

xfer_status_t xfer_recv(xfer_engine_t *engine, xfer_ep_t *, void *, uint64_t, uint64_t, uint64_t,
                        uint64_t, const xfer_op_options_t *) {
    return later(engine);
}

xfer_status_t xfer_notify(xfer_ep_t *ep, uint64_t, uint64_t, const xfer_op_options_t *) {
    return later(ep);
}

xfer_status_t xfer_counter_open(xfer_engine_t *engine, uint64_t, uint64_t, uint64_t,
                                xfer_counter_t **, xfer_error_t *err) {
    return guarded(err, [&]() -> Failure {
        return {later(engine), 0, 0, "counters come in a later release"};
    });
}

xfer_status_t xfer_counter_close(xfer_counter_t *counter) {
    return counter ? XFER_EBADHANDLE : XFER_OK;
}
