// SPDX-License-Identifier: Apache-2.0
#include "core/engine/describe.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/engine/engine.h"
#include "transport/builtin.h"
#include "util/json.h"

namespace xfer {
namespace {

constexpr uint32_t kSchema = 1;  // one more where a member goes, or changes its type or meaning

std::string hex(const EngineId &id) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const uint8_t byte : id) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

std::string_view memory_name(uint32_t kind) {
    constexpr std::string_view kNames[] = {"", "host", "cuda", "hip", "ze", "file"};
    return kind < std::size(kNames) ? kNames[kind] : "";
}

std::string_view origin_name(uint32_t origin) {
    constexpr std::string_view kNames[] = {"none", "os", "uv", "cares", "verbs", "cuda", "peer"};
    return origin < std::size(kNames) ? kNames[origin] : "";
}

std::string lane_name(uint32_t number) {
    if (number == 0) return "first";
    if (number == kAttachedLane) return "adapter";
    return number == kLocalLane ? "local" : "data " + std::to_string(number);
}

void write_texts(JsonWriter &out, std::string_view key, const std::vector<std::string> &texts) {
    out.begin_array(key);
    for (const std::string &text : texts)
        out.element(text);
    out.end_array();
}

void write_access(JsonWriter &out, uint32_t access) {
    out.begin_array("access");
    if (access & XFER_READ) out.element("read");
    if (access & XFER_WRITE) out.element("write");
    if (access & XFER_ATOMIC) out.element("atomic");
    out.end_array();
}

void write_rdma_options(JsonWriter &out, const RdmaOptions &options) {
    out.begin_object("rdma");
    out.add("devices", options.devices);
    out.add("queue_depth", options.queue_depth);
    out.add("ack_timeout", uint32_t{options.ack_timeout});
    out.add("retries", uint32_t{options.retries});
    out.add("traffic_class", uint32_t{options.traffic_class});
    out.add("service_level", uint32_t{options.service_level});
    out.end_object();
}

void write_options(JsonWriter &out, const Options &options) {
    constexpr const char *kDispatch[] = {"", "thread", "loop", "poll"};
    out.begin_object("options");
    out.add("dispatch", kDispatch[options.dispatch]);
    out.add("io_threads", options.io_threads);
    out.add("spin_us", options.spin_us);
    out.add("spin_adapts", options.spin_adapts);
    out.add("keyed", !options.key.empty());
    out.add("insecure", options.insecure);
    out.add("checksum", options.checksum);
    out.add("unref", options.unref);
    out.add("own_peers", options.own_peers);
    out.add("ask", options.ask);
    write_texts(out, "transports", options.transports);
    out.add("timeout_ms", options.timeout_ms);
    out.add("stall_ms", options.stall_ms);
    out.add("connect_ms", options.connect_ms);
    out.add("heartbeat_ms", options.heartbeat_ms);
    out.add("idle_ms", options.idle_ms);
    out.add("yield_ms", options.yield_ms);
    out.add("lanes", options.lanes == XFER_NONE ? 0 : options.lanes);
    write_texts(out, "advertise", options.advertise);
    out.add("max_connections", options.max_connections);
    out.add("max_operations", options.max_operations);
    if (has_rdma()) write_rdma_options(out, options.rdma);
    out.end_object();
}

void write_error(JsonWriter &out, const LastError &error, uint64_t now) {
    if (error.why.status == XFER_OK) return;
    out.begin_object("last_error");
    out.add("status", xfer_status_name(error.why.status));
    out.add("origin", origin_name(error.why.origin));
    out.add("native", error.why.native);
    out.add("message", error.why.message);
    out.add("where", error.where);
    out.add("ms_ago", (now - error.at) / kNsPerMs);
    out.end_object();
}

// ---- connections

std::string_view name_of(const Lane &lane, Moved moved) {
    if (moved == Moved::process) return "process";
    if (moved == Moved::mapped) return "mapped";
    if (moved == Moved::kernel) return "kernel";
    if (moved == Moved::adapter) return "adapter";
    if (lane.number == kAttachedLane) return "sends";
    const bool shared = lane.channel && lane.channel->scope() <= Scope::host;
    return !shared ? "socket" : lane.channel->remote() == "loopback" ? "process" : "rings";
}

void write_carried(JsonWriter &out, std::string_view key, const Carried &carried) {
    out.begin_object(key);
    out.add("requests", carried.requests);
    out.add("bytes", carried.bytes);
    out.end_object();
}

void write_lane(JsonWriter &out, const Lane &lane) {
    constexpr const char *kState[] = {"dialing", "joining", "ready", "fallen", "down"};
    Carried all;
    for (const Carried &way : lane.carried) {
        all.requests += way.requests;
        all.bytes += way.bytes;
    }
    out.begin_object();
    out.add("lane", lane_name(lane.number));
    out.add("state", kState[static_cast<int>(lane.state)]);
    out.add("falls", lane.falls);
    out.add("why", lane.is_closed() ? lane.why.message : "");
    out.add("remote", lane.channel ? lane.channel->remote() : "");
    out.add("path", lane.last_moved ? name_of(lane, *lane.last_moved) : "");
    write_carried(out, "carried", all);
    out.begin_object("carried_by");
    for (size_t i = 0; i < kMovedWays; ++i)
        if (lane.carried[i].requests)
            write_carried(out, name_of(lane, static_cast<Moved>(i)), lane.carried[i]);
    out.end_object();
    write_carried(out, "under_way",
                  {lane.rail.ops + lane.one_sided.ops, lane.rail.bytes + lane.one_sided.bytes});
    write_carried(out, "served", lane.rail.served);
    write_carried(out, "control_frames", lane.frames);
    out.end_object();
}

void write_attached(JsonWriter &out, const PathAttachment &path) {
    out.begin_object();
    out.add("state", path.state());
    out.add("fabric", path.fabric());
    out.add("why_not", path.why_not());
    out.add("local", path.local());
    out.add("remote", path.remote());
    write_carried(out, "carried", path.rail.carried);
    write_carried(out, "under_way", {path.rail.ops, path.rail.bytes});
    out.end_object();
}

void write_attached_lane(JsonWriter &out, const AttachedLane &lane) {
    out.begin_object("attached_lane");
    out.add("state", lane.state());
    out.add("fabric", lane.fabric());
    out.add("why_not", lane.why_not());
    out.end_object();
}

// The lane that work of so many bytes would take.
std::string lane_for(const Connection &connection, uint64_t bytes) {
    const std::optional<size_t> path = connection.lanes.choose_lane(bytes).path;
    return path ? lane_name(connection.lanes.all()[*path]->number) : "";
}

void write_connection(JsonWriter &out, const Connection &connection) {
    out.begin_object();
    out.add("initiator", connection.side == Side::ours ? "us" : "peer");
    out.add("live", connection.live());
    out.add("control", lane_name(connection.lanes.control().number));
    out.begin_object("local_path");
    out.add("state", connection.lanes.local.state());
    out.add("why_not", connection.lanes.local.why_not());
    out.end_object();
    write_attached_lane(out, connection.attached_lane);
    out.begin_array("attached_paths");
    for (const auto &path : connection.attached.all())
        write_attached(out, *path);
    out.end_array();
    out.add("small", lane_for(connection, 1));
    out.add("bulk", lane_for(connection, UINT64_MAX));
    out.add("sequence", connection.sequence);
    out.add("rtt_ns", connection.rtt_ns);
    out.begin_array("lanes");
    for (const auto &lane : connection.lanes.all())
        write_lane(out, *lane);
    out.end_array();
    out.end_object();
}

void write_peer(JsonWriter &out, Peer &peer) {
    uint32_t endpoints = 0;
    for ([[maybe_unused]] Endpoint &ep : peer.handles.all())
        ++endpoints;
    out.begin_object();
    out.add("id", peer.id ? hex(*peer.id) : "");
    out.begin_array("addresses");
    peer.dialer.addresses.each([&](const std::string &uri) { out.element(uri); });
    out.end_array();
    out.add("endpoints", endpoints);
    out.add("undecided", peer.admission.undecided());
    out.add("failed_attempts", peer.dialer.addresses.failures());
    out.begin_array("connections");
    for (Connection &connection : peer.connections())
        write_connection(out, connection);
    out.end_array();
    write_error(out, peer.last_error(), peer.shard.now());
    out.end_object();
}

void write_half_open(JsonWriter &out, HalfOpen &half_open, uint64_t now) {
    out.begin_object("half_open");
    out.add("now", half_open.count());
    out.add("places", half_open.places());
    out.add("most_from", half_open.count() ? to_string(half_open.busiest()) : "");
    out.add("most", half_open.most());
    out.add("under_pressure", half_open.under_pressure(now));
    out.add("turned_away", half_open.turned_away());
    out.add("displaced", half_open.displaced());
    out.end_object();
}

void write_fabrics(JsonWriter &out, const ShardCore &shard) {
    out.begin_array("fabrics");
    for (const auto &fabric : shard.fabrics) {
        out.begin_object();
        out.add("name", fabric->name());
        fabric->describe(out);
        out.end_object();
    }
    out.end_array();
}

void write_devices(JsonWriter &out, const Copier &copier, uint64_t now) {
    out.begin_array("devices");
    copier.each([&](int32_t number, const CopyProgress &progress) {
        out.begin_object();
        out.add("device", number);
        out.add("copies", progress.under_way());
        out.add("stalled_ms", progress.stalled() ? progress.still_ns(now) / kNsPerMs : 0);
        out.end_object();
    });
    out.end_array();
}

void write_loop(JsonWriter &out, ShardCore &shard) {
    out.begin_object();
    out.begin_array("transports");
    for (const auto &transport : shard.transports)
        out.element(transport->name());
    out.end_array();
    write_fabrics(out, shard);
    write_devices(out, shard.copier, shard.now());
    out.begin_array("listeners");
    for (const auto &listener : shard.inbound.listeners())
        out.element(listener->bound());
    out.end_array();
    out.begin_array("peers");
    for (Peer &peer : shard.peers.all())
        write_peer(out, peer);
    out.end_array();
    if (HalfOpen *half_open = shard.inbound.places()) write_half_open(out, *half_open, shard.now());
    write_error(out, shard.last_error, shard.now());
    out.end_object();
}

// ---- what belongs to all of the engine

void write_counters(JsonWriter &out, Engine &engine) {
    xfer_engine_stats_t stats{};
    engine.stats(stats);
    out.begin_object("counters");
    out.add("events", stats.events);
    out.add("events_queued", stats.events_queued);
    out.add("queued", stats.queued);
    out.add("inflight", stats.inflight);
    out.add("served_put", stats.served_put);
    out.add("served_get", stats.served_get);
    out.add("served_atomic", stats.served_atomic);
    out.add("refused", stats.refused);
    out.add("connects", stats.connects);
    out.add("accepts", stats.accepts);
    out.add("connections", stats.connections);
    out.add("connection_ends", stats.connection_ends);
    out.add("lane_falls", stats.lane_falls);
    out.add("wakeups", stats.wakeups);
    out.add("regions", stats.regions);
    out.add("grants", stats.grants);
    out.begin_object("errors");
    for (int32_t i = 1; i < 64; ++i)
        if (stats.errors[i]) out.add(xfer_status_name(-i), stats.errors[i]);
    out.end_object();
    out.end_object();
}

void write_callbacks(JsonWriter &out, const CallbackWatch::State &state) {
    out.begin_object("callbacks");
    out.add("slow", state.slow);
    out.add("longest_ms", state.longest_ns / kNsPerMs);
    out.add("running", event_name(state.running));
    out.add("running_ms", state.running_ns / kNsPerMs);
    out.end_object();
}

void write_region(JsonWriter &out, const Region &region) {
    out.begin_object();
    out.add("id", region.id & ~kGrantBit);
    if (region.is_grant()) {
        out.add("region", region.parent->id);
        out.add("lease_ms", region.lease_ms);
    } else {
        out.add("name", region.name);
        out.add("made_here", region.own != nullptr);
        out.add("kind", memory_name(region.memory.kind));
    }
    out.add("length", region.length);
    write_access(out, region.access);
    out.end_object();
}

void write_regions(JsonWriter &out, std::string_view key, Engine &engine, bool grants) {
    out.begin_array(key);
    engine.regions().each([&](const Region &region) {
        if (region.is_grant() == grants) write_region(out, region);
    });
    out.end_array();
}

}  // namespace

std::string describe(Engine &engine) {
    JsonWriter out;
    out.begin_object();
    out.add("schema", kSchema);
    out.add("version", xfer_version_string());
    out.add("pid", static_cast<uint64_t>(::getpid()));
    out.add("uptime_ms", engine.age_ms());
    out.add("id", hex(engine.identity().id));
    out.add("incarnation", fmt::format("{:016x}", engine.identity().incarnation));
    write_options(out, engine.options());
    write_counters(out, engine);
    write_callbacks(out, engine.dispatcher().callbacks());
    out.add("on_streams", engine.submissions().count());
    LastError last;
    uint64_t now = 0;
    out.begin_array("loops");
    engine.inside_each([&](ShardCore &shard) {
        write_loop(out, shard);
        if (shard.last_error.at >= last.at) last = shard.last_error;
        now = std::max(now, shard.now());
    });
    out.end_array();
    write_error(out, last, now);
    write_regions(out, "regions", engine, false);
    write_regions(out, "grants", engine, true);
    out.end_object();
    return out.text();
}

}  // namespace xfer
