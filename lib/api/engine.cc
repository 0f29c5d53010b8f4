// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "api/guard.h"
#include "core/describe.h"

using namespace xfer;

namespace {

void log_to_stderr(uint32_t, const char *text, uint64_t) {
    std::fprintf(stderr, "xfer: %s\n", text);
}

// XFER_LOG and XFER_TRANSPORTS fill what the program left open. Read here and nowhere else.
void take_environment(xfer_engine_options_t &options) {
    const char *log = std::getenv("XFER_LOG");
    if (log && *log && !options.on_log) {
        const std::string_view level = log;
        options.on_log = log_to_stderr;
        options.log_level = level == "error"   ? XFER_LOG_ERROR
                            : level == "info"  ? XFER_LOG_INFO
                            : level == "debug" ? XFER_LOG_DEBUG
                                               : XFER_LOG_WARN;
    }
    const char *transports = std::getenv("XFER_TRANSPORTS");
    if (transports && *transports && !options.transports) options.transports = transports;
}

Failure open_engine(const xfer_engine_options_t *given, xfer_engine_t **engine) {
    if (!engine) return {XFER_EINVAL, 0, 0, "engine is NULL"};
    *engine = nullptr;
    xfer_engine_options_t options;
    if (Status status = copy_options(given, options); status != XFER_OK) return {status, 0, 0, ""};
    take_environment(options);
    auto resolved = resolve_options(options);
    if (!resolved) return resolved.error();
    auto opened = Engine::open(std::move(*resolved));
    if (!opened) return opened.error();
    *engine = reinterpret_cast<xfer_engine_t *>(*opened);
    return {};
}

Failure listen_at(xfer_engine_t *handle, const char *text, char *bound, size_t cap) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (engine->refuses()) return {XFER_ECLOSED, 0, 0, ""};
    if (!text || (!bound && cap)) return {XFER_EINVAL, 0, 0, "uri is NULL, or bound is"};
    auto uri = parse_uri(text);
    if (!uri) return uri.error();
    std::string address;
    Failure why;
    if (Status status = engine->listen(*uri, bound ? cap : SIZE_MAX, address, why);
        status != XFER_OK)
        return why.status ? why : Failure{status, 0, 0, ""};
    if (bound) std::memcpy(bound, address.c_str(), address.size() + 1);
    return {};
}

}  // namespace

xfer_status_t xfer_engine_open(const xfer_engine_options_t *options, xfer_engine_t **engine,
                               xfer_error_t *err) {
    return guarded(err, [&] { return open_engine(options, engine); });
}

xfer_status_t xfer_engine_listen(xfer_engine_t *engine, const char *uri, char *bound, size_t cap,
                                 xfer_error_t *err) {
    return guarded(err, [&] { return listen_at(engine, uri, bound, cap); });
}

xfer_status_t xfer_engine_id(xfer_engine_t *handle, xfer_id_t *id) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    if (!id) return XFER_EINVAL;
    std::memcpy(id->bytes, engine->identity().id.data(), sizeof id->bytes);
    id->incarnation = engine->identity().incarnation;
    return XFER_OK;
}

xfer_status_t xfer_engine_fd(xfer_engine_t *handle, int32_t *fd) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    if (!fd) return XFER_EINVAL;
    return guarded([&]() -> xfer_status_t { return engine->delivery().fd(*fd); });
}

xfer_status_t xfer_engine_poll(xfer_engine_t *handle, xfer_event_t *events, uint32_t event_size,
                               uint32_t max, uint32_t timeout_ms, uint32_t *count) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    if (!count || !events || max == 0 || event_size < sizeof(uint32_t)) return XFER_EINVAL;
    *count = 0;
    if (engine->options().dispatch != XFER_DISPATCH_POLL) return XFER_EUNSUPPORTED;
    return guarded([&]() -> xfer_status_t {
        return engine->delivery().poll(events, event_size, max, timeout_ms, *count);
    });
}

xfer_status_t xfer_engine_drain(xfer_engine_t *engine, uint32_t timeout_ms, uint64_t user) {
    if (Status status = check(of(engine)); status != XFER_OK) return status;
    return guarded([&]() -> xfer_status_t { return of(engine)->drain(timeout_ms, user); });
}

xfer_status_t xfer_engine_close(xfer_engine_t *engine) {
    if (!engine) return XFER_OK;
    if (Status status = check(of(engine)); status != XFER_OK) return status;
    return guarded([&]() -> xfer_status_t { return of(engine)->close(); });
}

xfer_status_t xfer_engine_join(xfer_engine_t *engine) {
    if (!engine) return XFER_OK;
    const Status status = check(of(engine));
    if (status == XFER_EFORKED)
        return guarded([&]() -> xfer_status_t { return of(engine)->join_forked(); });
    if (status != XFER_OK) return status;
    return guarded([&]() -> xfer_status_t { return of(engine)->join(); });
}

xfer_status_t xfer_engine_stats(xfer_engine_t *handle, xfer_engine_stats_t *stats,
                                uint32_t stats_size) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    return guarded([&]() -> xfer_status_t {
        xfer_engine_stats_t now{};
        engine->stats(now);
        return copy_out(now, stats, stats_size);
    });
}

xfer_status_t xfer_engine_describe(xfer_engine_t *handle, char *text, size_t cap, size_t *needed) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return status;
    if (!needed || (!text && cap)) return XFER_EINVAL;
    return guarded([&]() -> xfer_status_t {
        const std::string json = describe(*engine);
        *needed = json.size() + 1;
        if (cap) {
            const size_t fits = std::min(json.size(), cap - 1);
            std::memcpy(text, json.data(), fits);
            text[fits] = '\0';
        }
        return cap > json.size() ? XFER_OK : XFER_ENOSPC;
    });
}
