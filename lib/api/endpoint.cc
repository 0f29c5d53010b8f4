// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/transfer_check.h"
#include "core/base/limits.h"
#include "core/peer/address_message.h"
#include "core/peer/open_message.h"
#include "core/peer/verdict.h"
#include "transport/builtin.h"

using namespace xfer;

namespace {

Failure too_many_addresses() {
    return {XFER_ETOOBIG, 0, 0, fmt::format("more than {} addresses of one peer", kMaxPeerUris)};
}

// One that a peer can be at, and that is served.
Failure take_address(Engine &engine, const std::string &text, std::vector<std::string> &uris) {
    auto uri = parse_uri(text);
    if (!uri) return uri.error();
    if (!engine.first_shard().transport_for(*uri))
        return {XFER_EUNSUPPORTED, 0, 0, "no transport of this engine serves " + text};
    if (!is_dialable(*uri))
        return {XFER_EADDR, 0, 0, "address \"" + text + "\": a peer is at one host and port"};
    std::string known = to_string(*uri);
    if (std::find(uris.begin(), uris.end(), known) == uris.end()) uris.push_back(std::move(known));
    return {};
}

// What is not served is left out while another address is: a list tells all ways to a peer, and
// some may be of a later version.
Failure take_addresses(Engine &engine, const char *list, std::vector<std::string> &uris) {
    const std::vector<std::string> parts = split_list(list);
    Failure unserved;
    for (size_t i = 0; i < parts.size(); ++i) {
        Failure why = take_address(engine, parts[i], uris);
        if (why.status == XFER_OK) continue;
        if (parts.size() > 1)
            why.message =
                fmt::format("{} of {}: {}", i + 1, parts.size(), std::string_view(why.message));
        if (why.status != XFER_EUNSUPPORTED) return why;
        engine.log().info("an address is left out: {}", std::string_view(why.message));
        if (unserved.status == XFER_OK) unserved = why;
    }
    if (uris.empty()) return unserved;
    return uris.size() <= kMaxPeerUris ? Failure{} : too_many_addresses();
}

Failure take_peer(const Engine &engine, const xfer_id_t &given, std::optional<EngineId> &peer) {
    EngineId id{};
    std::memcpy(id.data(), given.bytes, id.size());
    if (id == EngineId{})
        return {XFER_EINVAL, 0, 0, "xfer_ep_options_t.peer is all zero: it is no engine's id"};
    if (id == engine.identity().id && !has_loopback(engine.options().transports))
        return {XFER_EUNSUPPORTED, 0, 0,
                "the peer is this engine, and loopback is not among its transports"};
    peer = id;
    return {};
}

Failure open_endpoint(xfer_engine_t *handle, const char *text, const xfer_ep_options_t *given,
                      xfer_ep_t **out) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (!out) return {XFER_EINVAL, 0, 0, "ep is NULL"};
    *out = nullptr;
    if (engine->refuses()) return {XFER_ECLOSED, 0, 0, ""};
    xfer_ep_options_t options;
    Failure why;
    if (copy_input(given, options, why) != XFER_OK) return why;
    if (!text && !options.peer)
        return {XFER_EINVAL, 0, 0, "uri is NULL, and xfer_ep_options_t.peer, too: one must be set"};
    std::vector<std::string> uris;
    if (text) why = take_addresses(*engine, text, uris);
    if (why.status != XFER_OK) return why;
    std::optional<EngineId> peer;
    if (options.peer) why = take_peer(*engine, *options.peer, peer);
    if (why.status != XFER_OK) return why;
    ShardCore &shard = peer ? engine->home(*peer) : engine->first_shard();
    auto spare = std::make_unique<Peer>(shard, uris);
    auto made = Ref<Endpoint>::adopt(new Endpoint(*engine, std::move(uris), options.user));
    Endpoint *ep = made.get();
    ep->expected = peer;
    ep->shard.store(&shard);
    auto open = std::make_unique<OpenMessage>(*ep, std::move(spare));
    ep->retain();  // the loop's
    if (!shard.post(*open)) {
        ep->release();
        return {XFER_ECLOSED, 0, 0, ""};
    }
    static_cast<void>(open.release());
    ep->retain();  // the handle's
    *out = reinterpret_cast<xfer_ep_t *>(ep);
    return {};
}

Failure add_address(xfer_ep_t *handle, const char *text) {
    Endpoint *ep = of(handle);
    if (Status status = check_open(ep); status != XFER_OK) return {status, 0, 0, ""};
    if (!text) return {XFER_EINVAL, 0, 0, "uri is NULL"};
    std::vector<std::string> uris;
    if (Failure why = take_addresses(engine_of(*ep), text, uris); why.status != XFER_OK) return why;
    auto message = std::make_unique<AddressMessage>(*ep, uris);
    if (!ep->list(uris)) return too_many_addresses();
    if (!ep->shard.load()->post(*message)) return {XFER_ECLOSED, 0, 0, ""};
    static_cast<void>(message.release());
    return {};
}

// Hands a question to the loop, if the endpoint has room for it.
Status ask(Endpoint &ep, std::unique_ptr<Request> request) {
    if (!ep.admit_request()) return ep.refusal();
    Request *posted = request.release();
    if (ep.shard.load()->post_brief(*posted)) return XFER_OK;
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

xfer_status_t xfer_ep_add_address(xfer_ep_t *ep, const char *uri, xfer_error_t *err) {
    return guarded(on(ep, err), [&] { return add_address(ep, uri); });
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

xfer_status_t xfer_ep_admit(xfer_ep_t *handle, xfer_status_t verdict) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        if (!ep->inbound) return invalid(why, "the handle was opened: its peer is not asked about");
        if (verdict != XFER_OK && verdict != XFER_EACCESS && verdict != XFER_EOVERLOAD)
            return invalid(why, "verdict is none of XFER_OK, XFER_EACCESS and XFER_EOVERLOAD");
        auto message = std::make_unique<Verdict>(*ep, verdict);
        if (!ep->shard.load()->post(*message)) return XFER_ECLOSED;
        static_cast<void>(message.release());
        return XFER_OK;
    });
}

xfer_status_t xfer_ep_connect(xfer_ep_t *ep, uint64_t user, const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return ask_plain(ep, XFER_EVENT_CONNECT, user, options, why);
    });
}

xfer_status_t xfer_ep_lookup(xfer_ep_t *handle, const char *name, uint64_t user,
                             const xfer_op_options_t *given, xfer_error_t *err) {
    return guarded(on(handle, err), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        xfer_op_options_t options;
        if (Status status = copy_operation(given, options, XFER_FLAG_WAIT, why); status != XFER_OK)
            return status;
        if (Status status = check_name("name", name, why); status != XFER_OK) return status;
        const uint32_t timeout_ms = resolve_timeout(ep->engine, options.timeout_ms);
        auto request = std::make_unique<Request>(*ep, XFER_EVENT_LOOKUP, user, timeout_ms);
        request->name = name;
        request->wait = (options.flags & XFER_FLAG_WAIT) != 0;
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
        ep->read_info(now);
        return copy_out(now, info, info_size, why);
    });
}

xfer_status_t xfer_ep_stats(xfer_ep_t *handle, xfer_ep_stats_t *stats, uint32_t stats_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Endpoint *ep = of(handle);
        if (Status status = check(ep); status != XFER_OK) return status;
        xfer_ep_stats_t now{};
        ep->counters.add_to(OpKind::put, now.put);
        ep->counters.add_to(OpKind::get, now.get);
        ep->counters.add_to(OpKind::batch, now.batch);
        ep->counters.add_to(OpKind::notify, now.notify);
        ep->counters.add_to(OpKind::send, now.send);
        ep->counters.add_to(OpKind::atomic, now.atomic);
        now.inflight = ep->counters.inflight.get();
        now.queued = queued_of(ep->counters.pending.get(), now.inflight);
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
    const Ref<EngineCore> keep(ep->engine);  // which may be joined before this returns
    return guarded([&]() -> xfer_status_t {
        const bool over = ep->ended.load();
        if (status == XFER_OK && ep->shard.load()->post(ep->close))
            return over ? XFER_ECLOSED : XFER_OK;
        ep->release();
        return status == XFER_OK ? XFER_ECLOSED : status;
    });
}
