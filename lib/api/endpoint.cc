// SPDX-License-Identifier: Apache-2.0
#include "api/transfer_check.h"
#include "core/limits.h"

using namespace xfer;

namespace {

Failure open_endpoint(xfer_engine_t *handle, const char *text, const xfer_ep_options_t *given,
                      xfer_ep_t **out) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (!out || !text) return {XFER_EINVAL, 0, 0, "uri or ep is NULL"};
    *out = nullptr;
    if (engine->refuses()) return {XFER_ECLOSED, 0, 0, ""};
    xfer_ep_options_t options;
    Failure why;
    if (copy_input(given, options, why) != XFER_OK) return why;
    auto uri = parse_uri(text);
    if (!uri) return uri.error();
    if (!engine->first_shard().transport_for(*uri))
        return {XFER_EUNSUPPORTED, 0, 0, "no transport of this engine serves " + std::string(text)};
    if (!is_dialable(*uri)) return {XFER_EADDR, 0, 0, "a peer is at one port"};
    auto made = Ref<Endpoint>::adopt(new Endpoint(*engine, to_string(*uri), options.user));
    Endpoint *ep = made.get();
    if (options.peer) {
        ep->expected.emplace();
        std::memcpy(ep->expected->data(), options.peer->bytes, ep->expected->size());
    }
    Shard &shard = ep->expected ? engine->home(*ep->expected) : engine->first_shard();
    ep->shard.store(&shard);
    ep->spare = std::make_unique<Peer>(shard, ep->uri);
    ep->retain();  // the loop's
    if (!shard.post(ep->open)) {
        ep->release();
        return {XFER_ECLOSED, 0, 0, ""};
    }
    ep->retain();  // the handle's
    *out = reinterpret_cast<xfer_ep_t *>(ep);
    return {};
}

// Hands a question to the loop, if the endpoint has room for it.
Status ask(Endpoint &ep, std::unique_ptr<Request> request) {
    if (!ep.admit()) return ep.refusal();
    Request *posted = request.release();
    if (ep.shard.load()->post(*posted)) return XFER_OK;
    request.reset(posted);
    ep.outstanding.fetch_sub(1);
    return XFER_ECLOSED;
}

// A connect or a probe.
Status ask_plain(xfer_ep_t *handle, uint32_t kind, uint64_t user, const xfer_op_options_t *given,
                 Failure &why) {
    Endpoint *ep = of(handle);
    if (Status status = check_open(ep); status != XFER_OK) return status;
    xfer_op_options_t options;
    if (Status status = copy_operation(given, options, 0, why); status != XFER_OK) return status;
    const uint32_t timeout_ms = resolve_timeout(ep->engine, options.timeout_ms);
    return ask(*ep, std::make_unique<Request>(*ep, kind, user, timeout_ms));
}

}  // namespace

xfer_status_t xfer_ep_open(xfer_engine_t *engine, const char *uri, const xfer_ep_options_t *options,
                           xfer_ep_t **ep, xfer_error_t *err) {
    return guarded(on(engine, err), [&] { return open_endpoint(engine, uri, options, ep); });
}

xfer_status_t xfer_ep_keep(xfer_ep_t *handle, uint64_t user) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        if (!ep->inbound || ep->kept.exchange(true))
            return invalid(why, ep->inbound ? "the handle was kept before"
                                            : "the handle was opened: it is the caller's already");
        ep->user.store(user);
        ep->give();
        return XFER_OK;
    });
}

xfer_status_t xfer_ep_connect(xfer_ep_t *ep, uint64_t user, const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return ask_plain(ep, XFER_EVENT_CONNECT, user, options, why);
    });
}

xfer_status_t xfer_ep_lookup(xfer_ep_t *handle, const char *name, uint64_t user,
                             const xfer_lookup_options_t *given, xfer_error_t *err) {
    return guarded(on(handle, err), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        xfer_lookup_options_t options;
        if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
        if (Status status = check_name("name", name, why); status != XFER_OK) return status;
        const uint32_t timeout_ms = resolve_timeout(ep->engine, options.timeout_ms);
        auto request = std::make_unique<Request>(*ep, XFER_EVENT_LOOKUP, user, timeout_ms);
        request->name = name;
        request->wait = options.wait != 0;
        return ask(*ep, std::move(request));
    });
}

xfer_status_t xfer_ep_probe(xfer_ep_t *ep, uint64_t user, const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return ask_plain(ep, XFER_EVENT_PROBE, user, options, why);
    });
}

xfer_status_t xfer_ep_state(xfer_ep_t *handle, uint32_t *state) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check(ep); status != XFER_OK) return status;
        if (!state) return invalid(why, "state is NULL");
        *state = ep->closed.load() ? static_cast<uint32_t>(XFER_EP_CLOSED) : ep->state.load();
        return XFER_OK;
    });
}

xfer_status_t xfer_ep_peer(xfer_ep_t *handle, xfer_peer_info_t *info, uint32_t info_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check(ep); status != XFER_OK) return status;
        xfer_peer_info_t now{};
        ep->face(now);
        return copy_out(now, info, info_size, why);
    });
}

xfer_status_t xfer_ep_stats(xfer_ep_t *handle, xfer_ep_stats_t *stats, uint32_t stats_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check(ep); status != XFER_OK) return status;
        xfer_ep_stats_t now{};
        ep->counters.put.add_to(now.put);
        ep->counters.get.add_to(now.get);
        ep->counters.batch.add_to(now.batch);
        ep->counters.notify.add_to(now.notify);
        ep->counters.send.add_to(now.send);
        now.queued = ep->counters.queued.get();
        now.inflight = ep->counters.inflight.get();
        now.connections = ep->connections.get();
        now.rtt_ns = ep->rtt_ns.get();
        return copy_out(now, stats, stats_size, why);
    });
}

// The reference of the handle goes over to the message.
xfer_status_t xfer_ep_close(xfer_ep_t *handle) {
    if (!handle) return XFER_OK;
    Endpoint *ep = of(handle);
    const Status status = check(ep);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    const Call call = on(handle);
    if (!ep->of_user.load())
        return report(call, {XFER_EINVAL, 0, 0, "the handle is a PEER event's, and was not kept"});
    if (ep->closed.exchange(true)) return report(call, kClosedBefore);
    return guarded([&]() -> xfer_status_t {
        const bool over = ep->ended.load();
        if (status == XFER_OK && ep->shard.load()->post(ep->close))
            return over ? XFER_ECLOSED : XFER_OK;
        ep->release();
        return status == XFER_OK ? XFER_ECLOSED : status;
    });
}
