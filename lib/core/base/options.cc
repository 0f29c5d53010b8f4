// SPDX-License-Identifier: Apache-2.0
#include "core/base/options.h"

#include <algorithm>
#include <utility>

#include "core/base/limits.h"
#include "transport/builtin.h"
#include "util/cpus.h"
#include "util/uri.h"
#include "xfer/rdma.h"

namespace xfer {
namespace {

constexpr uint32_t kEngineFlags = XFER_ENGINE_INSECURE | XFER_ENGINE_CHECKSUM | XFER_ENGINE_UNREF |
                                  XFER_ENGINE_OWN_PEERS | XFER_ENGINE_ASK;

Failure wrong(Status status, std::string_view field_and_reason) {
    return {status, 0, 0, Text("xfer_engine_options_t.") + field_and_reason};
}

Failure invalid(std::string_view field_and_reason) {
    return wrong(XFER_EINVAL, field_and_reason);
}

std::vector<std::string> split(const char *list) {
    std::vector<std::string> parts;
    std::string_view rest = list ? list : "";
    while (!rest.empty()) {
        const size_t comma = std::min(rest.find(','), rest.size());
        if (comma) parts.emplace_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return parts;
}

// A level to come is above all that there are.
Status take_log(const xfer_engine_options_t &given, Options &options, std::string &why) {
    const uint32_t level = given.log_level ? given.log_level : uint32_t{XFER_LOG_WARN};
    options.log = {given.on_log, given.log_user, level, {}};
    if (level != XFER_NONE) return XFER_OK;
    why = "log_level is XFER_NONE: without on_log there are no lines";
    return XFER_EINVAL;
}

Status take_dispatch(const xfer_engine_options_t &given, Options &options, std::string &why) {
    if (given.dispatch) options.dispatch = given.dispatch;
    const bool loop = options.dispatch == XFER_DISPATCH_LOOP,
               poll = options.dispatch == XFER_DISPATCH_POLL;
    if (options.dispatch > XFER_DISPATCH_POLL)
        why = "dispatch is " + std::to_string(given.dispatch) +
              ", which is no XFER_DISPATCH_* of this library";
    else if (loop && !given.uv_loop)
        why = "uv_loop is NULL: XFER_DISPATCH_LOOP needs one";
    else if (!loop && given.uv_loop)
        why = "uv_loop is for XFER_DISPATCH_LOOP only";
    else if (!poll && !given.on_event)
        why = "on_event is NULL: events need it, unless dispatch is XFER_DISPATCH_POLL";
    else if (poll && given.on_event)
        why = "on_event is never called with XFER_DISPATCH_POLL: leave it NULL";
    // A thread of ours serves the peers also while the caller's has no time.
    options.io_threads = options.dispatch == XFER_DISPATCH_THREAD ? 0 : 1;
    if (given.io_threads) options.io_threads = given.io_threads == XFER_NONE ? 0 : given.io_threads;
    if (options.io_threads > kMaxIoThreads)
        why = "io_threads is more than " + std::to_string(kMaxIoThreads);
    options.spin_us = given.spin_us == XFER_NONE ? 0 : given.spin_us;
    options.spin_adapts = !given.spin_us && usable_cpus() >= kSpinCpus;
    if (options.spin_us > kMaxSpinUs) why = "spin_us is more than a second";
    options.unref = given.flags & XFER_ENGINE_UNREF;
    if (options.unref && !loop) why = "flags: XFER_ENGINE_UNREF is for XFER_DISPATCH_LOOP only";
    options.loop = given.uv_loop;
    options.on_event = given.on_event;
    options.user = given.user;
    return why.empty() ? XFER_OK : XFER_EINVAL;
}

Status take_identity(const xfer_engine_options_t &given, Options &options, std::string &why) {
    std::copy(std::begin(given.id), std::end(given.id), options.id.begin());
    options.own_id = options.id != EngineId{};
    if (given.blob_length > kMaxBlob)
        why = "blob_length is more than " + std::to_string(kMaxBlob);
    else if (given.blob_length && !given.blob)
        why = "blob is NULL, but blob_length is not 0";
    const bool no_key = given.key_length == 0 && !given.key;
    if (!no_key && !given.key)
        why = "key is NULL, but key_length is not 0";
    else if (!no_key && (given.key_length < kMinKey || given.key_length > kMaxKey))
        why = "key_length is " + std::to_string(given.key_length) + ": a key has 32 to 256 bytes";
    if (!why.empty()) return XFER_EINVAL;
    const auto *blob = static_cast<const uint8_t *>(given.blob);
    if (given.blob_length) options.blob.assign(blob, blob + given.blob_length);
    if (!no_key) options.key = Secret({static_cast<const uint8_t *>(given.key), given.key_length});
    return XFER_OK;
}

// Empty: peers can dial all of them.
std::string wrong_address(const std::vector<std::string> &advertise) {
    if (advertise.size() > kMaxListenUris) return "advertise has more than 8 addresses";
    for (const std::string &uri : advertise)
        if (auto parsed = parse_uri(uri); !parsed)
            return "advertise: " + std::string(std::string_view(parsed.error().message));
        else if (!is_dialable(*parsed))
            return "advertise: no peer can dial " + uri;
    return {};
}

Status take_paths(const xfer_engine_options_t &given, Options &options, std::string &why) {
    options.transports = split(given.transports);
    if (given.transports)
        if (const std::string unknown = unknown_transport(given.transports); !unknown.empty()) {
            why = "transports: none is called \"" + unknown + "\": this build has ";
            why += builtin_names();
            return XFER_EUNSUPPORTED;
        }
    options.advertise = split(given.advertise);
    why = wrong_address(options.advertise);
    return why.empty() ? XFER_OK : XFER_EINVAL;
}

// A limit that would be none is mostly a mistake: without it a silent peer is waited for for ever.
Status check_times(const xfer_engine_options_t &given, std::string &why) {
    const std::pair<const char *, uint32_t> times[] = {{"stall_ms", given.stall_ms},
                                                       {"connect_ms", given.connect_ms},
                                                       {"heartbeat_ms", given.heartbeat_ms},
                                                       {"idle_ms", given.idle_ms}};
    for (const auto &[name, value] : times)
        if (value == XFER_NONE) why = std::string(name) + " is XFER_NONE: it needs a limit";
    return why.empty() ? XFER_OK : XFER_EINVAL;
}

Status take_times(const xfer_engine_options_t &given, Options &options, std::string &why) {
    const auto or_default = [](uint32_t value, uint32_t standard) {
        return value ? value : standard;
    };
    options.timeout_ms = given.timeout_ms == XFER_NONE ? 0 : given.timeout_ms;
    options.stall_ms = or_default(given.stall_ms, kDefaultStallMs);
    options.connect_ms = or_default(given.connect_ms, kDefaultConnectMs);
    options.heartbeat_ms = or_default(given.heartbeat_ms, kDefaultHeartbeatMs);
    options.idle_ms = or_default(given.idle_ms, kDefaultIdleMs);
    options.yield_ms = given.yield_ms == XFER_NONE ? 0 : given.yield_ms;
    options.lanes = or_default(given.lanes, kDefaultLanes);
    options.max_connections = or_default(given.max_connections, kDefaultConnections);
    options.max_operations = or_default(given.max_operations, kDefaultOperations);
    return check_times(given, why);
}

Failure take_rdma(const xfer_rdma_options_t &given, RdmaOptions &options) {
    const auto bad = [](std::string_view field_and_reason) {
        return Failure{XFER_EINVAL, 0, 0, Text("xfer_rdma_options_t.") + field_and_reason};
    };
    options.devices = given.devices ? given.devices : "";
    if (Failure why = check_rdma_devices(options.devices); why.status != XFER_OK)
        return bad(Text("devices: ") + why.message);
    if (given.queue_depth > kMaxQueueDepth)
        return bad("queue_depth is more than " + std::to_string(kMaxQueueDepth));
    if (given.ack_timeout > 31) return bad("ack_timeout is more than 31");
    if (given.retries > 6 && given.retries != XFER_NONE) return bad("retries is more than 6");
    if (given.traffic_class > UINT8_MAX) return bad("traffic_class is more than 255");
    if (given.service_level > 15) return bad("service_level is more than 15");
    if (given.queue_depth) options.queue_depth = given.queue_depth;
    if (given.ack_timeout) options.ack_timeout = static_cast<uint8_t>(given.ack_timeout);
    if (given.retries) options.retries = static_cast<uint8_t>(given.retries);
    if (given.retries == XFER_NONE) options.retries = 0;
    options.traffic_class = static_cast<uint8_t>(given.traffic_class);
    options.service_level = static_cast<uint8_t>(given.service_level);
    return {};
}

}  // namespace

std::vector<std::string> with_port(std::vector<std::string> addresses, const std::string &port) {
    constexpr std::string_view kPlace = "{port}";
    for (std::string &address : addresses)
        if (const size_t at = address.find(kPlace); at != std::string::npos)
            address.replace(at, kPlace.size(), port);
    return addresses;
}

Failure take_listen_options(const xfer_listen_options_t &given, const Uri &uri,
                            std::vector<std::string> &advertise) {
    const auto bad = [](std::string_view field_and_reason) {
        return Failure{XFER_EINVAL, 0, 0, Text("xfer_listen_options_t.") + field_and_reason};
    };
    if (given.flags & ~static_cast<uint32_t>(XFER_LISTEN_INSECURE))
        return bad("flags has unknown bits");
    if (given.mode && uri.scheme != "unix") return bad("mode is for unix:// only");
    if (given.mode & ~0777u) return bad("mode has more than permission bits");
    advertise = split(given.advertise);
    // Any port will do to see whether it can be dialed.
    const std::string why =
        wrong_address(uri.scheme == "tcp" ? with_port(advertise, "1") : advertise);
    return why.empty() ? Failure{} : bad(why);
}

Result<Options> resolve_options(const xfer_engine_options_t &given) {
    Options options;
    std::string why;
    if (given.flags & ~kEngineFlags) return invalid("flags has unknown bits");
    options.insecure = given.flags & XFER_ENGINE_INSECURE;
    options.checksum = given.flags & XFER_ENGINE_CHECKSUM;
    options.own_peers = given.flags & XFER_ENGINE_OWN_PEERS;
    options.ask = given.flags & XFER_ENGINE_ASK;
    for (auto take : {take_log, take_dispatch, take_identity, take_paths, take_times})
        if (Status status = take(given, options, why); status != XFER_OK) return wrong(status, why);
    if (given.rdma && !has_rdma()) return wrong(XFER_EUNSUPPORTED, "rdma: this build has no RDMA");
    if (given.rdma)
        if (Failure refused = take_rdma(*given.rdma, options.rdma); refused.status != XFER_OK)
            return refused;
    if (options.lanes != XFER_NONE && options.lanes > kMaxLanes)
        return invalid("lanes is more than 16");
    if (options.max_connections > kMaxConnections)
        return invalid("max_connections is more than " + std::to_string(kMaxConnections));
    if (options.max_operations > kMaxOperations)
        return invalid("max_operations is more than " + std::to_string(kMaxOperations));
    return options;
}

}  // namespace xfer
