// SPDX-License-Identifier: Apache-2.0
// Notifications and counters; messages come in a later release.
#include "api/single.h"

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

xfer_status_t xfer_notify(xfer_ep_t *handle, uint64_t key, uint64_t user,
                          const xfer_op_options_t *given) {
    Endpoint *ep = of(handle);
    if (Status status = check_open(ep); status != XFER_OK) return status;
    xfer_op_options_t options;
    if (Status status = copy_options(given, options); status != XFER_OK) return status;
    if (options.flags) return XFER_EINVAL;
    return guarded([&]() -> xfer_status_t {
        if (!ep->admit()) return XFER_EAGAIN;
        Single &single = take_single(*ep, XFER_EVENT_SEND, user, options.timeout_ms);
        single.notifies = true;
        single.notify_key = key;
        return post_single(single);
    });
}

xfer_status_t xfer_counter_open(xfer_engine_t *handle, uint64_t key, uint64_t expected,
                                uint64_t user, xfer_counter_t **counter, xfer_error_t *err) {
    return guarded(err, [&]() -> Failure {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
        if (!counter || expected == 0)
            return {XFER_EINVAL, 0, 0, "counter is NULL or expects nothing"};
        *counter = nullptr;
        if (engine->closing()) return {XFER_ECLOSED, 0, 0, ""};
        auto made = Ref<NotifyCounter>::adopt(new NotifyCounter(*engine, key, expected, user));
        if (!engine->counters().add(*made)) return {XFER_EEXIST, 0, 0, "the key has a counter"};
        made->retain();  // the handle's
        *counter = reinterpret_cast<xfer_counter_t *>(made.get());
        return {};
    });
}

xfer_status_t xfer_counter_close(xfer_counter_t *handle) {
    if (!handle) return XFER_OK;
    NotifyCounter *counter = of(handle);
    const Status status = check(counter);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    if (counter->closed.exchange(true)) return XFER_ECLOSED;
    return guarded([&]() -> xfer_status_t {
        const bool over = counter->engine.delivery().ended();
        if (status == XFER_OK) counter->engine.counters().remove(*counter);
        counter->release();
        return status != XFER_OK ? status : over ? XFER_ECLOSED : XFER_OK;
    });
}
