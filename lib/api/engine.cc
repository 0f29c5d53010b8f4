// SPDX-License-Identifier: Apache-2.0
#include "api/environment.h"
#include "api/transfer_check.h"
#include "core/engine/describe.h"
#include "transport/builtin.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

Failure open_engine(const xfer_engine_options_t *given, xfer_engine_t **engine, Log &log) {
    xfer_engine_options_t options;
    Failure why;
    Text warning;
    const Status copied = copy_input(given, options, why);
    choose_log(options, warning);
    log = {options.on_log, options.log_user, options.log_level, {}};  // of a refusal
    if (copied != XFER_OK) return why;
    if (!engine) return {XFER_EINVAL, 0, 0, "engine is NULL"};
    *engine = nullptr;
    if (!given)
        return {XFER_EINVAL, 0, 0,
                "options is NULL: set on_event, or dispatch to XFER_DISPATCH_POLL"};
    if (Failure refused = choose_transports(options); refused.status != XFER_OK) return refused;
    xfer_rdma_options_t rdma;
    if (copy_input(options.rdma, rdma, why) != XFER_OK) return why;
    if (options.rdma) options.rdma = &rdma;
    if (Failure refused = choose_rdma_devices(options, rdma); refused.status != XFER_OK)
        return refused;
    auto resolved = resolve_options(options);
    if (!resolved) return resolved.error();
    auto opened = Engine::open(std::move(*resolved));
    if (!opened) return opened.error();
    if (!warning.empty()) (*opened)->log().warn("{}", warning);
    *engine = reinterpret_cast<xfer_engine_t *>(*opened);
    return {};
}

Failure listen_at(xfer_engine_t *handle, const char *text, const xfer_listen_options_t *given,
                  char *bound, uint64_t cap) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (engine->refuses()) return {XFER_ECLOSED, 0, 0, ""};
    if (!text || (!bound && cap))
        return {XFER_EINVAL, 0, 0, text ? "bound is NULL, but cap is not 0" : "uri is NULL"};
    auto uri = parse_uri(text);
    if (!uri) return uri.error();
    std::string address;
    Failure why;
    xfer_listen_options_t options;
    if (copy_input(given, options, why) != XFER_OK) return why;
    if (Status status = engine->listen(*uri, options, bound ? cap : SIZE_MAX, address, why);
        status != XFER_OK)
        return why.status ? why : Failure{status, 0, 0, ""};
    if (bound) std::memcpy(bound, address.c_str(), address.size() + 1);
    return {};
}

// With its NUL; what fits of it, if `cap` is too small.
Status write_text(const std::string &from, char *text, uint64_t cap, uint64_t &needed) {
    needed = from.size() + 1;
    return copy_text(from, text, cap);
}

Status check_text(const char *text, uint64_t cap, const uint64_t *needed, Failure &why) {
    if (!needed) return invalid(why, "needed is NULL");
    return text || !cap ? XFER_OK : invalid(why, "text is NULL, but cap is not 0");
}

}  // namespace

xfer_status_t xfer_engine_open(const xfer_engine_options_t *options, xfer_engine_t **engine,
                               xfer_error_t *err) {
    Log log;
    return guarded(Call{__func__, &log, err}, [&] { return open_engine(options, engine, log); });
}

xfer_status_t xfer_engine_listen(xfer_engine_t *engine, const char *uri,
                                 const xfer_listen_options_t *options, char *bound, uint64_t cap,
                                 xfer_error_t *err) {
    return guarded(on(engine, err), [&] { return listen_at(engine, uri, options, bound, cap); });
}

xfer_status_t xfer_engine_addresses(xfer_engine_t *handle, char *text, uint64_t cap,
                                    uint64_t *needed) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (Status status = check_text(text, cap, needed, why); status != XFER_OK) return status;
        return write_text(join_list(engine->addresses()), text, cap, *needed);
    });
}

xfer_status_t xfer_engine_id(xfer_engine_t *handle, xfer_id_t *id) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!id) return invalid(why, "id is NULL");
        std::memcpy(id->bytes, engine->identity().id.data(), sizeof id->bytes);
        id->incarnation = engine->identity().incarnation;
        return XFER_OK;
    });
}

xfer_status_t xfer_engine_fd(xfer_engine_t *handle, int32_t *fd) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!fd) return invalid(why, "fd is NULL");
        return engine->dispatcher().fd(*fd);
    });
}

xfer_status_t xfer_engine_poll(xfer_engine_t *handle, xfer_event_t *events, uint32_t event_size,
                               uint32_t max, uint32_t timeout_ms, uint32_t *count) {
    const Status refused = guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!count || !events) return invalid(why, count ? "events is NULL" : "count is NULL");
        if (max == 0) return invalid(why, "max is 0");
        if (event_size < sizeof(uint32_t))
            return invalid(why, "event_size is not sizeof(xfer_event_t)");
        *count = 0;
        return engine->options().dispatch == XFER_DISPATCH_POLL ? XFER_OK : XFER_EUNSUPPORTED;
    });
    if (refused != XFER_OK) return refused;
    // A join that ends it frees the engine: nothing of that, as its log, may be touched afterwards.
    return guarded(
        [&] { return of(handle)->dispatcher().poll(events, event_size, max, timeout_ms, *count); });
}

xfer_status_t xfer_engine_wake(xfer_engine_t *handle) {
    return guarded(on(handle), [&]() -> Status {
        Engine *engine = of(handle);
        const Status status = check(engine);
        return status == XFER_OK ? engine->dispatcher().wake() : status;
    });
}

xfer_status_t xfer_engine_drain(xfer_engine_t *handle, uint64_t user,
                                const xfer_op_options_t *given) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        xfer_op_options_t options;
        if (Status status = copy_operation(given, options, 0, why); status != XFER_OK)
            return status;
        return engine->drain(resolve_timeout(*engine, options.timeout_ms), user);
    });
}

xfer_status_t xfer_engine_close(xfer_engine_t *engine) {
    if (!engine) return XFER_OK;
    if (Status status = check(of(engine)); status != XFER_OK) return status;
    const Call call = on(engine);
    // Who hears of it may join before this returns.
    const Ref<EngineCore> keep(*of(engine));
    const Status closed = guarded([&]() -> xfer_status_t { return of(engine)->close(); });
    return closed == XFER_ECLOSED ? report(call, kClosedBefore) : closed;
}

xfer_status_t xfer_engine_join(xfer_engine_t *engine, uint32_t timeout_ms) {
    if (!engine) return XFER_OK;
    const Status status = check(of(engine));
    if (status == XFER_EFORKED)
        return guarded([&]() -> xfer_status_t { return of(engine)->join_forked(); });
    if (status != XFER_OK) return status;
    const Call call = on(engine);
    const Status joined = guarded([&]() -> xfer_status_t { return of(engine)->join(timeout_ms); });
    // A refused one has freed nothing.
    return joined == XFER_OK ? joined : report(call, {joined, 0, 0, {}});
}

xfer_status_t xfer_engine_stats(xfer_engine_t *handle, xfer_engine_stats_t *stats,
                                uint32_t stats_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        xfer_engine_stats_t now{};
        engine->stats(now);
        return copy_out(now, stats, stats_size, why);
    });
}

xfer_status_t xfer_engine_kinds(xfer_engine_t *handle, uint64_t *mask) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!mask) return invalid(why, "mask is NULL");
        *mask = engine->kinds();
        return XFER_OK;
    });
}

xfer_status_t xfer_engine_transports(xfer_engine_t *handle, uint64_t *mask) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (!mask) return invalid(why, "mask is NULL");
        *mask = builtin_mask(engine->options().transports);
        return XFER_OK;
    });
}

xfer_status_t xfer_engine_describe(xfer_engine_t *handle, char *text, uint64_t cap,
                                   uint64_t *needed) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (Status status = check_text(text, cap, needed, why); status != XFER_OK) return status;
        return write_text(describe(*engine), text, cap, *needed);
    });
}
