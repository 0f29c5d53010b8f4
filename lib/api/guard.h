// SPDX-License-Identifier: Apache-2.0
// What every function of the C ABI does first and last: no exception leaves, handles are checked,
// and a refusal is explained, in the caller's xfer_error_t and in the engine's log.
#pragma once

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "api/input.h"
#include "core/engine/engine.h"

namespace xfer {

inline Engine *of(xfer_engine_t *handle) {
    return reinterpret_cast<Engine *>(handle);
}
inline Region *of(xfer_region_t *handle) {
    return reinterpret_cast<Region *>(handle);
}
inline Endpoint *of(xfer_ep_t *handle) {
    return reinterpret_cast<Endpoint *>(handle);
}
inline Batch *of(xfer_batch_t *handle) {
    return reinterpret_cast<Batch *>(handle);
}
inline NotifyCounter *of(xfer_counter_t *handle) {
    return reinterpret_cast<NotifyCounter *>(handle);
}

// What the rooms know as their engine is one.
inline Engine &engine_of(EngineCore &engine) {
    return static_cast<Engine &>(engine);
}
inline Engine &engine_of(const Region &region) {
    return engine_of(region.engine);
}
inline Engine &engine_of(const Endpoint &ep) {
    return engine_of(ep.engine);
}
inline Engine &engine_of(const Batch &batch) {
    return engine_of(*batch.ep);
}
inline Engine &engine_of(const NotifyCounter &counter) {
    return engine_of(counter.engine);
}

inline Status check(const Engine *engine) {
    if (!engine || !engine->is(Magic::engine)) return XFER_EBADHANDLE;
    return engine->forked() ? XFER_EFORKED : XFER_OK;
}
inline Status check(const Region *region) {
    if (!region || !region->is(Magic::region)) return XFER_EBADHANDLE;
    return region->engine.forked() ? XFER_EFORKED : XFER_OK;
}
inline Status check(const Endpoint *ep) {
    if (!ep || !ep->is(Magic::endpoint)) return XFER_EBADHANDLE;
    return ep->engine.forked() ? XFER_EFORKED : XFER_OK;
}
inline Status check(const Batch *batch) {
    if (!batch || !batch->is(Magic::batch)) return XFER_EBADHANDLE;
    return batch->ep->engine.forked() ? XFER_EFORKED : XFER_OK;
}

inline Status check(const NotifyCounter *counter) {
    if (!counter || !counter->is(Magic::counter)) return XFER_EBADHANDLE;
    return counter->engine.forked() ? XFER_EFORKED : XFER_OK;
}

// To the loop; what takes little time is done by the calling thread, if nobody is in the loop.
inline bool post_to(ShardCore &shard, Operation &operation) {
    return operation.brief() ? shard.post_brief(operation) : shard.post(operation);
}

// New work is taken neither by a handle that was closed nor by one whose engine ends.
inline Status check_open(const Endpoint *ep) {
    if (Status status = check(ep); status != XFER_OK) return status;
    return ep->closed.load() || ep->ended.load() || ep->engine.refuses() ? XFER_ECLOSED : XFER_OK;
}

// One call: its name, the log of the engine that it is made on, and where its caller wants details.
struct Call {
    const char *function = nullptr;
    const Log *log = nullptr;
    xfer_error_t *err = nullptr;
};

template <typename Object>
Call call_on(Object *object, xfer_error_t *err, const char *function) {
    if (check(object) != XFER_OK) return {function, nullptr, err};
    return {function, &engine_of(*object).log(), err};
}

// The call that the calling function is. It must not end the handle.
template <typename Handle>
Call on(Handle *handle, xfer_error_t *err = nullptr, const char *function = __builtin_FUNCTION()) {
    return call_on(of(handle), err, function);
}

// A full queue, a small buffer and a limit are answers that a program expects: only mistakes are
// logged.
inline bool is_mistake(Status status) {
    return status != XFER_OK && status != XFER_EAGAIN && status != XFER_ENOSPC &&
           status != XFER_ETIMEDOUT;
}

inline void log_refusal(const Call &call, Status status, std::string_view text) noexcept {
    if (!call.log || !call.log->enabled(XFER_LOG_DEBUG) || !is_mistake(status)) return;
    try {
        call.log->debug("{}: {}: {}", call.function, xfer_status_name(status), text);
    } catch (...) {
        return;  // the caller has the status
    }
}

// Allocates nothing where nobody listens to the log: it may tell of a lack of memory.
inline xfer_status_t report(const Call &call, const Failure &why) noexcept {
    const std::string_view text = why.message.empty() && why.status
                                      ? std::string_view(xfer_status_text(why.status))
                                      : std::string_view(why.message);
    if (call.err) {
        *call.err = {};
        call.err->status = why.status;
        call.err->origin = why.origin;
        call.err->native_code = why.native;
        std::memcpy(call.err->message, text.data(),
                    std::min(text.size(), sizeof call.err->message - 1));
    }
    log_refusal(call, why.status, text);
    return why.status;
}

template <typename Body>
void run(Body &body, Failure &why) {
    if constexpr (std::is_invocable_v<Body &, Failure &>) {
        if (const Status status = body(why); status != why.status) why = {status, 0, 0, {}};
    } else if constexpr (std::is_same_v<decltype(body()), Failure>) {
        why = body();
    } else {
        why.status = static_cast<Status>(body());
    }
}

// Where exceptions of a call end; those of the loops end in util/memory.h. Below, only allocation
// and the start of a thread throw. A body gives a status, and may explain it in a Failure& that it
// takes; or it gives a Failure.
template <typename Body>
xfer_status_t guarded(const Call &call, Body body) noexcept {
    Failure why;
    try {
        run(body, why);
    } catch (const std::bad_alloc &) {
        why = {XFER_ENOMEM, XFER_ORIGIN_NONE, 0, {}};
    } catch (const std::system_error &error) {
        const int code = error.code().value();
        // EAGAIN: no stack for a thread.
        why = {code == EAGAIN ? XFER_ENOMEM : XFER_EIO, XFER_ORIGIN_OS, code, {}};
    } catch (...) {
        why = {XFER_EINTERNAL, XFER_ORIGIN_NONE, 0, {}};
    }
    return why.status == XFER_OK && !call.err ? XFER_OK : report(call, why);
}

// Of a second close, while the handle still is there. Its call is made before it is closed, as the
// handle may go with that.
inline const Failure kClosedBefore{XFER_ECLOSED, 0, 0, "the handle was closed before"};

// A call that ends its handle, or has none.
template <typename Body>
xfer_status_t guarded(Body body) noexcept {
    return guarded(Call{}, std::move(body));
}

// Writes what there is room for, with its NUL. XFER_ENOSPC: that is not all.
inline Status copy_text(std::string_view from, char *text, uint64_t cap) {
    if (!cap) return XFER_ENOSPC;
    const size_t fits = std::min<uint64_t>(from.size(), cap - 1);
    std::memcpy(text, from.data(), fits);
    text[fits] = '\0';
    return fits == from.size() ? XFER_OK : XFER_ENOSPC;
}

// Writes what the caller has room for, and zeroes what it knows beyond us.
template <typename T>
Status copy_out(const T &from, T *to, uint32_t size, Failure &why) {
    if (!to) return invalid(why, "the struct to be written is NULL");
    if (size < sizeof(uint32_t))
        return invalid(why, "the size of the struct to be written is below 4");
    std::memset(static_cast<void *>(to), 0, size);
    std::memcpy(static_cast<void *>(to), &from, std::min<size_t>(size, sizeof(T)));
    return XFER_OK;
}

}  // namespace xfer
