// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace rdma_test {

namespace {

constexpr double kPatience = 60;  // seconds; far beyond what anything here needs

xfer_op_options_t within(double seconds) {
    xfer_op_options_t options{};
    options.size = sizeof options;
    options.timeout_ms = uint32_t(seconds * 1000);
    return options;
}

nlohmann::json described(xfer_engine_t *engine) {
    uint64_t needed = 0;
    xfer_engine_describe(engine, nullptr, 0, &needed);
    std::string text(needed + 4096, '\0');  // it may have grown meanwhile
    must(xfer_engine_describe(engine, text.data(), text.size(), &needed), "describe");
    return nlohmann::json::parse(text.c_str());
}

}  // namespace

double now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
}

void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    std::fprintf(stderr, "%s: %s\n", what, xfer_status_name(status));
    std::exit(1);
}

void fill(std::vector<uint8_t> &memory, uint64_t seed) {
    uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint8_t &byte : memory) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        byte = uint8_t(word >> 56);
    }
}

// ---- an engine

Engine::Engine(const char *devices) {
    xfer_rdma_options_t rdma{};
    rdma.size = sizeof rdma;
    rdma.devices = devices;
    xfer_engine_options_t options{};
    options.size = sizeof options;
    options.dispatch = XFER_DISPATCH_POLL;
    options.flags = XFER_ENGINE_INSECURE;  // beyond loopback without a key
    options.transports = "tcp,rdma";
    options.heartbeat_ms = 1000;
    options.rdma = &rdma;
    xfer_error_t error;
    must(xfer_engine_open(&options, &engine_, &error), "xfer_engine_open");
}

Engine::~Engine() {
    must(xfer_engine_join(engine_, uint32_t(kPatience * 1000)), "xfer_engine_join");
    for (xfer_region_t *region : regions_)
        xfer_region_close(region);
}

std::string Engine::listen(const std::string &uri) {
    char bound[256];
    must(xfer_engine_listen(engine_, uri.c_str(), nullptr, bound, sizeof bound, nullptr),
         "xfer_engine_listen");
    return bound;
}

void Engine::lend(std::vector<uint8_t> &memory) {
    xfer_region_options_t options{};
    options.size = sizeof options;
    options.access = XFER_READ | XFER_WRITE;
    options.name = "memory";
    xfer_region_t *&region = regions_.emplace_back();
    must(xfer_region_open(engine_, &options, memory.data(), memory.size(), &region, nullptr),
         "xfer_region_open");
}

std::optional<xfer_event_t> Engine::next(double seconds) {
    const double end = now() + seconds;
    for (double left = seconds; left > 0; left = end - now()) {
        xfer_event_t event;
        uint32_t count = 0;
        must(xfer_engine_poll(engine_, &event, sizeof event, 1, uint32_t(left * 1000) + 1, &count),
             "xfer_engine_poll");
        if (count && (event.kind <= XFER_EVENT_GET || event.kind == XFER_EVENT_LOOKUP))
            return event;
    }
    return {};
}

uint64_t Engine::carried_by_adapters() const {
    uint64_t bytes = 0;
    const nlohmann::json engine = described(engine_);
    for (const auto &loop : engine.at("loops"))
        for (const auto &peer : loop.at("peers"))
            for (const auto &connection : peer.at("connections"))
                for (const auto &lane : connection.at("lanes"))
                    if (const auto &by = lane.at("carried_by"); by.contains("adapter"))
                        bytes += by.at("adapter").at("bytes").get<uint64_t>();
    return bytes;
}

std::vector<uint64_t> Engine::open_paths() const {
    std::vector<uint64_t> carried;
    const nlohmann::json engine = described(engine_);
    for (const auto &loop : engine.at("loops"))
        for (const auto &peer : loop.at("peers"))
            for (const auto &connection : peer.at("connections"))
                for (const auto &path : connection.at("attached_paths"))
                    if (path.at("state") == "open")
                        carried.push_back(path.at("carried").at("bytes").get<uint64_t>());
    return carried;
}

std::vector<uint64_t> Engine::connections(bool frames_by_adapters) const {
    std::vector<uint64_t> numbers;
    const nlohmann::json engine = described(engine_);
    for (const auto &loop : engine.at("loops"))
        for (const auto &peer : loop.at("peers"))
            for (const auto &connection : peer.at("connections"))
                if (!frames_by_adapters || connection.at("control") == "adapter")
                    numbers.push_back(connection.at("sequence").get<uint64_t>());
    return numbers;
}

// ---- the memory of another one

Remote::Remote(Engine &engine, const std::string &uri) : engine_(engine) {
    const xfer_op_options_t options = within(kPatience);
    must(xfer_ep_open(engine.raw(), uri.c_str(), nullptr, &ep_, nullptr), "xfer_ep_open");
    must(xfer_ep_lookup(ep_, "memory", 0, &options, nullptr), "xfer_ep_lookup");
    const auto event = engine.next(kPatience);
    must(event ? event->status : XFER_ETIMEDOUT, "the lookup");
    std::memcpy(&ref_, event->data, sizeof ref_);
}

Remote::~Remote() {
    must(xfer_ep_close(ep_), "xfer_ep_close");
}

void Remote::put(const uint8_t *from, uint64_t offset, uint64_t length, uint64_t user,
                 double deadline) {
    const xfer_op_options_t options = within(deadline);
    must(xfer_put(ep_, from, &ref_, offset, length, user, &options), "xfer_put");
}

void Remote::get(uint8_t *to, uint64_t offset, uint64_t length, uint64_t user, double deadline) {
    const xfer_op_options_t options = within(deadline);
    must(xfer_get(ep_, to, &ref_, offset, length, user, &options), "xfer_get");
}

xfer_status_t Remote::end() {
    const auto event = engine_.next(kPatience);
    return event ? event->status : XFER_ETIMEDOUT;
}

void Remote::await_adapter() {
    uint8_t byte;
    const double limit = now() + kPatience;
    const uint64_t before = engine_.carried_by_adapters();
    while (engine_.carried_by_adapters() == before) {
        must(now() < limit ? XFER_OK : XFER_ETIMEDOUT, "a byte by an adapter");
        get(&byte, 0, 1, 0, kPatience);
        must(end(), "a get");
    }
}

xfer_status_t Remote::put_all(const std::vector<uint8_t> &from) {
    put(from.data(), 0, from.size(), 0, kPatience);
    return end();
}

xfer_status_t Remote::get_all(std::vector<uint8_t> &to) {
    get(to.data(), 0, to.size(), 0, kPatience);
    return end();
}

}  // namespace rdma_test
