// SPDX-License-Identifier: Apache-2.0
// What every function of the C ABI does first and last: no exception leaves, handles are checked,
// option structs of other versions are brought to our size.
#pragma once

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/engine.h"

namespace xfer {

// Where exceptions of a call end; those of the loops end in util/memory.h. Below, only allocation
// and the start of a thread throw.
template <typename Call>
xfer_status_t guarded(Call call, int32_t *native = nullptr) noexcept {
    try {
        return static_cast<xfer_status_t>(call());
    } catch (const std::bad_alloc &) {
        return XFER_ENOMEM;
    } catch (const std::system_error &error) {
        const int code = error.code().value();
        if (native) *native = code;
        return code == EAGAIN ? XFER_ENOMEM : status_of_errno(code);  // no stack for a thread
    } catch (...) {
        return XFER_EINTERNAL;
    }
}

// Allocates nothing: it may tell of a lack of memory.
inline xfer_status_t report(xfer_error_t *err, const Failure &failure) noexcept {
    if (!err) return failure.status;
    *err = {};
    err->status = failure.status;
    err->origin = failure.origin;
    err->native_code = failure.native;
    const std::string_view text = failure.message.empty() && failure.status
                                      ? std::string_view(xfer_status_text(failure.status))
                                      : std::string_view(failure.message);
    std::memcpy(err->message, text.data(), std::min(text.size(), sizeof err->message - 1));
    return failure.status;
}

// As guarded(), with the detail written to `err` whatever happens.
template <typename Call>
xfer_status_t guarded(xfer_error_t *err, Call call) noexcept {
    Failure failure;
    int32_t native = 0;
    const auto call_it = [&] {
        failure = call();
        return failure.status;
    };
    if (const xfer_status_t status = guarded(call_it, &native); status != failure.status) {
        const uint32_t origin = native ? XFER_ORIGIN_OS : XFER_ORIGIN_NONE;
        return report(err, {status, origin, native, {}});
    }
    return report(err, failure);
}

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

// New work is taken neither by a handle that was closed nor by one whose engine ends.
inline Status check_open(const Endpoint *ep) {
    if (Status status = check(ep); status != XFER_OK) return status;
    return ep->closed.load() || ep->ended.load() || ep->engine.refuses() ? XFER_ECLOSED : XFER_OK;
}

// Shorter: the rest is zero, so default; it ends where a struct of that alignment can, never inside
// a pointer. Longer: its tail must be zero. Null: all default.
template <typename T>
Status copy_options(const T *from, T &to) {
    to = {};
    if (!from) return XFER_OK;
    if (from->size < sizeof(uint32_t)) return XFER_EINVAL;
    if (from->size < sizeof(T) && from->size % alignof(T)) return XFER_EINVAL;
    const auto *bytes = reinterpret_cast<const unsigned char *>(from);
    for (size_t i = sizeof(T); i < from->size; ++i)
        if (bytes[i]) return XFER_E2BIG;
    std::memcpy(&to, from, std::min<size_t>(from->size, sizeof(T)));
    return XFER_OK;
}

// Writes what the caller has room for, and zeroes what it knows beyond us.
template <typename T>
Status copy_out(const T &from, T *to, uint32_t size) {
    if (!to || size < sizeof(uint32_t)) return XFER_EINVAL;
    std::memset(static_cast<void *>(to), 0, size);
    std::memcpy(static_cast<void *>(to), &from, std::min<size_t>(size, sizeof(T)));
    return XFER_OK;
}

}  // namespace xfer
