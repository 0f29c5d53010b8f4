// SPDX-License-Identifier: Apache-2.0
#include "core/describe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/engine.h"

namespace xfer {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(const EngineId &id) {
    std::string text;
    for (uint8_t byte : id)
        text += fmt::format("{:02x}", byte);
    return text;
}

Json options_of(const Options &options) {
    constexpr const char *kDispatch[] = {"", "thread", "loop", "poll"};
    return {{"dispatch", kDispatch[options.dispatch]},
            {"io_threads", options.io_threads},
            {"spin_us", options.spin_us},
            {"keyed", !options.key.empty()},
            {"timeout_ms", options.timeout_ms},
            {"stall_ms", options.stall_ms},
            {"connect_ms", options.connect_ms},
            {"heartbeat_ms", options.heartbeat_ms},
            {"idle_ms", options.idle_ms},
            {"yield_ms", options.yield_ms},
            {"lanes", options.lanes == XFER_NONE ? 0 : options.lanes},
            {"advertise", options.advertise},
            {"max_connections", options.max_connections},
            {"max_operations", options.max_operations}};
}

// The number of the lane that work of so many bytes would take.
Json lane_of(const Connection &connection, uint64_t bytes) {
    const std::optional<size_t> path = connection.route(bytes).path;
    return path ? Json(connection.lanes()[*path]->number) : Json();
}

Json connection_of(const Connection &connection) {
    Json lanes = Json::array();
    for (const auto &lane : connection.lanes()) {
        constexpr const char *kState[] = {"dialing", "joining", "ready", "down"};
        lanes.push_back({{"lane", lane->number},
                         {"state", kState[static_cast<int>(lane->state)]},
                         {"remote", lane->link ? lane->link->remote() : ""},
                         {"operations", lane->ops},
                         {"bytes", lane->bytes}});
    }
    const std::string why_not(std::string_view(connection.near_failure().message));
    return {{"initiator", connection.side == Side::ours ? "us" : "peer"},
            {"control", connection.is_near() ? "near" : "first"},
            {"near_failure", why_not},
            {"small", lane_of(connection, 1)},
            {"bulk", lane_of(connection, UINT64_MAX)},
            {"sequence", connection.sequence},
            {"live", connection.live()},
            {"rtt_ns", connection.rtt_ns},
            {"lanes", lanes}};
}

Json peer_of(Peer &peer) {
    Json addresses = Json::array(), connections = Json::array();
    peer.addresses().each([&](const std::string &uri) { addresses.push_back(uri); });
    for (Connection &connection : peer.connections())
        connections.push_back(connection_of(connection));
    uint32_t endpoints = 0;
    for ([[maybe_unused]] Endpoint &ep : peer.endpoints())
        ++endpoints;
    Json out = {{"id", peer.id ? hex(*peer.id) : ""},
                {"addresses", addresses},
                {"endpoints", endpoints},
                {"connections", connections}};
    if (peer.last_failure().status)
        out["last_failure"] = {{"status", xfer_status_name(peer.last_failure().status)},
                               {"message", peer.last_failure().message}};
    return out;
}

Json shard_of(Shard &shard) {
    Json listeners = Json::array(), transports = Json::array(), peers = Json::array();
    for (const auto &listener : shard.listeners())
        listeners.push_back(listener->bound());
    for (const auto &transport : shard.transports)
        transports.push_back(transport->name());
    for (Peer &peer : shard.peers())
        peers.push_back(peer_of(peer));
    Json out = {{"transports", transports}, {"listeners", listeners}, {"peers", peers}};
    if (HalfOpen *half_open = shard.half_open())
        out["half_open"] = {
            {"now", half_open->count()},
            {"places", half_open->places()},
            {"most_from", half_open->count() ? to_string(half_open->busiest()) : ""},
            {"most", half_open->most()},
            {"under_pressure", half_open->under_pressure(shard.now())},
            {"turned_away", half_open->turned_away()},
            {"displaced", half_open->displaced()}};
    return out;
}

}  // namespace

std::string describe(Engine &engine) {
    Json loops = Json::array();
    engine.inside_each([&](Shard &shard) { loops.push_back(shard_of(shard)); });
    Json regions = Json::array();
    engine.each_region([&](const Region &region) {
        if (region.is_grant()) return;
        regions.push_back({{"id", region.id},
                           {"name", region.name},
                           {"length", region.length},
                           {"access", region.access},
                           {"kind", region.kind}});
    });
    const Json all = {{"version", xfer_version_string()},
                      {"id", hex(engine.identity().id)},
                      {"incarnation", engine.identity().incarnation},
                      {"options", options_of(engine.options())},
                      {"loops", loops},
                      {"regions", regions}};
    // Names and blobs come from users and peers: bytes that are no UTF-8 are replaced, not thrown
    // at.
    return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace xfer
