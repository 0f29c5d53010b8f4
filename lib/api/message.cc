// SPDX-License-Identifier: Apache-2.0
#include "api/single.h"

using namespace xfer;

namespace {

struct GiveBack {
    void operator()(Receive *receive) const { receive->released(); }
};

Status start_recv(xfer_engine_t *engine_handle, xfer_ep_t *ep_handle, void *buffer,
                  uint64_t capacity, uint64_t tag, uint64_t mask, uint64_t user,
                  const xfer_op_options_t *given, Failure &why) {
    Engine *engine = of(engine_handle);
    Endpoint *ep = of(ep_handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    if (engine->refuses()) return XFER_ECLOSED;
    if (ep)
        if (Status status = check_open(ep); status != XFER_OK) return status;
    if (ep && &ep->engine != engine) return invalid(why, "ep is of another engine");
    xfer_op_options_t options;
    if (Status status = copy_operation(given, options, XFER_FLAG_TAKE, why); status != XFER_OK)
        return status;
    const bool takes = (options.flags & XFER_FLAG_TAKE) != 0;
    if (takes && buffer) return invalid(why, "XFER_FLAG_TAKE with a buffer");
    const auto address = reinterpret_cast<uint64_t>(buffer);
    const uint64_t borrowed = takes ? 0 : capacity;
    Memory memory;
    if (Status status = check_local(*engine, address, borrowed, memory, why); status != XFER_OK)
        return status;
    std::unique_ptr<Receive, GiveBack> receive(engine->receives().take());
    receive->engine = engine;
    if (ep) receive->named = Ref(*ep);
    receive->any = !ep;
    receive->tag = tag;
    receive->mask = mask;
    receive->buffer = static_cast<uint8_t *>(buffer);
    receive->capacity = capacity;
    receive->place = place_of(memory);
    receive->takes = takes;
    receive->timeout_ms = resolve_timeout(*engine, options.timeout_ms);
    receive->event = {};
    receive->event.kind = XFER_EVENT_RECV;
    receive->event.user = user;
    receive->event.ep = ep_handle;
    if (Status status = engine->receive_queue().begin(*receive); status != XFER_OK) return status;
    Receive *posted = receive.release();
    if (engine->first_shard().post_brief(*posted)) return XFER_OK;
    receive.reset(posted);
    if (ep) ep->receives.fetch_sub(1);
    return XFER_ECLOSED;
}

}  // namespace

xfer_status_t xfer_send(xfer_ep_t *handle, const void *data, uint64_t length, uint64_t tag,
                        uint64_t user, const xfer_op_options_t *given) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        xfer_op_options_t options;
        constexpr uint32_t kKnown = XFER_FLAG_SYNC | XFER_FLAG_QUIET | XFER_FLAG_COPY;
        if (Status status = copy_operation(given, options, kKnown, why); status != XFER_OK)
            return status;
        if (Status status = check_copy(options.flags, length, why); status != XFER_OK)
            return status;
        const auto address = reinterpret_cast<uint64_t>(data);
        Memory memory;
        if (Status status = check_local(engine_of(*ep), address, length, memory, why);
            status != XFER_OK)
            return status;
        if (Status status = check_copied_kind(options.flags, memory, why); status != XFER_OK)
            return status;
        const Place place = place_of(memory);
        if (!ep->admit(OpKind::send)) return ep->refusal();
        Own<Send> send =
            take_operation(engine_of(*ep).sends(), *ep, XFER_EVENT_SEND, user, options.timeout_ms);
        send->event.tag = send->tag = tag;
        send->quiet = (options.flags & XFER_FLAG_QUIET) != 0;
        send->sync = (options.flags & XFER_FLAG_SYNC) != 0;
        const bool copies = options.flags & XFER_FLAG_COPY && length;
        send->data =
            copies ? copy_bytes(data, length, send->copied) : static_cast<const uint8_t *>(data);
        send->length = length;
        send->place = place;
        send->migrates = !copies && memory.migrates();
        return post_operation(std::move(send));
    });
}

xfer_status_t xfer_recv(xfer_engine_t *engine, xfer_ep_t *ep, void *buffer, uint64_t capacity,
                        uint64_t tag, uint64_t mask, uint64_t user,
                        const xfer_op_options_t *options) {
    return guarded(on(engine), [&](Failure &why) -> Status {
        return start_recv(engine, ep, buffer, capacity, tag, mask, user, options, why);
    });
}

xfer_status_t xfer_peek(xfer_engine_t *handle, xfer_ep_t *ep_handle, uint64_t tag, uint64_t mask,
                        xfer_message_info_t *info, uint32_t info_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        Endpoint *ep = of(ep_handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (Status status = ep ? check_open(ep) : XFER_OK; status != XFER_OK) return status;
        if (ep && &ep->engine != engine) return invalid(why, "ep is of another engine");
        if (!info) return invalid(why, "info is NULL");
        struct Wanted final : Posted {
        } wanted;
        wanted.any = !ep;
        if (ep) wanted.from = ep->sender();
        wanted.tag = tag;
        wanted.mask = mask;
        xfer_message_info_t found{};
        if (!engine->peek(wanted, found)) return XFER_ENOTFOUND;
        return copy_out(found, info, info_size, why);
    });
}

xfer_status_t xfer_notify(xfer_ep_t *handle, const void *data, uint64_t length, uint64_t key,
                          uint64_t user, const xfer_op_options_t *given) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        xfer_op_options_t options;
        if (Status status = copy_operation(given, options, XFER_FLAG_QUIET, why); status != XFER_OK)
            return status;
        if (Status status = check_notify_data(engine_of(*ep), data, length, why); status != XFER_OK)
            return status;
        if (!ep->admit(OpKind::notify)) return ep->refusal();
        Own<Single> single = take_operation(engine_of(*ep).singles(), *ep, XFER_EVENT_NOTIFIED,
                                            user, options.timeout_ms);
        single->quiet = (options.flags & XFER_FLAG_QUIET) != 0;
        single->notifies = true;
        single->notify_key = key;
        copy_notify_data(data, length, single->notify_data);
        return post_operation(std::move(single));
    });
}

xfer_status_t xfer_counter_open(xfer_engine_t *handle, uint64_t key, uint64_t expected,
                                const xfer_counter_options_t *given, xfer_counter_t **counter,
                                xfer_error_t *err) {
    return guarded(on(handle, err), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!counter) return invalid(why, "counter is NULL");
        *counter = nullptr;
        if (expected == 0) return invalid(why, "expected is 0");
        xfer_counter_options_t options;
        if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
        if (engine->refuses()) return XFER_ECLOSED;
        auto made = Ref<NotifyCounter>::adopt(new NotifyCounter(
            *engine, key, expected, resolve_timeout(*engine, options.timeout_ms), options.user));
        const Status added = engine->counters().add(*made);
        if (added == XFER_EEXIST) return refuse(why, added, "the key has a counter");
        if (added != XFER_OK) return added;
        // The engine's close may have ended it by now: then its event is on its way.
        if (!made->start() && engine->counters().remove(*made)) return XFER_ECLOSED;
        made->retain();  // the handle's
        *counter = reinterpret_cast<xfer_counter_t *>(made.get());
        return XFER_OK;
    });
}

xfer_status_t xfer_counter_close(xfer_counter_t *handle) {
    if (!handle) return XFER_OK;
    NotifyCounter *counter = of(handle);
    const Status status = check(counter);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    const Call call = on(handle);
    if (counter->closed.exchange(true)) return report(call, kClosedBefore);
    return guarded([&]() -> xfer_status_t {
        const bool over = engine_of(*counter).dispatcher().ended();
        if (status == XFER_OK) {
            counter->engine.counters().remove(*counter);
            counter->stop();
        }
        counter->release();
        return status != XFER_OK ? status : over ? XFER_ECLOSED : XFER_OK;
    });
}
