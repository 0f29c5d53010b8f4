// SPDX-License-Identifier: Apache-2.0
#include "core/base/options.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "core/base/limits.h"
#include "transport/builtin.h"
#include "xfer/rdma.h"

using namespace xfer;

namespace {

using Given = xfer_engine_options_t;

void no_event(const xfer_event_t *, uint64_t) {}
void no_log(uint32_t, const char *, uint64_t) {}

uint8_t secret[300];
char loop_memory[1];  // an address is all that is looked at

Given given() {
    Given options{};
    options.size = sizeof options;
    options.on_event = no_event;
    return options;
}

Status status_of(const std::function<void(Given &)> &change) {
    Given options = given();
    change(options);
    auto resolved = resolve_options(options);
    if (resolved) return XFER_OK;
    CHECK_FALSE(resolved.error().message.empty());
    return resolved.error().status;
}

Options resolve(const std::function<void(Given &)> &change) {
    Given options = given();
    change(options);
    auto resolved = resolve_options(options);
    REQUIRE(resolved);
    return *resolved;
}

void set_poll(Given &options) {
    options.dispatch = XFER_DISPATCH_POLL;
    options.on_event = nullptr;
}

void set_loop(Given &options) {
    options.dispatch = XFER_DISPATCH_LOOP;
    options.uv_loop = reinterpret_cast<uv_loop_s *>(loop_memory);
}

}  // namespace

TEST_CASE("zero means default") {
    const Options options = resolve([](Given &) {});
    CHECK(options.dispatch == XFER_DISPATCH_THREAD);
    CHECK(options.io_threads == 0);
    CHECK(options.spin_us == 0);
    CHECK(!options.own_id);
    CHECK(!options.insecure);
    CHECK(!options.checksum);
    CHECK(!options.unref);
    CHECK(options.blob.empty());
    CHECK(options.key.empty());
    CHECK(options.transports.empty());
    CHECK(options.advertise.empty());
    CHECK(options.timeout_ms == 0);
    CHECK(options.stall_ms == 30'000);
    CHECK(options.connect_ms == 5'000);
    CHECK(options.heartbeat_ms == 5'000);
    CHECK(options.idle_ms == 300'000);
    CHECK(options.lanes == 1);
    CHECK(options.max_connections == 1'024);
    CHECK(options.max_operations == 1'024);
}

TEST_CASE("the caller's thread serves nobody unless that is asked for") {
    CHECK(resolve(set_loop).io_threads == 1);
    CHECK(resolve(set_poll).io_threads == 1);
}

TEST_CASE("what is given is taken") {
    const Options options = resolve([](Given &o) {
        o.io_threads = 3;
        o.spin_us = 50;
        o.user = 9;
        o.flags = XFER_ENGINE_INSECURE;
        o.id[15] = 1;
        o.blob = "blob";
        o.blob_length = 4;
        o.key = secret;
        o.key_length = 32;
        o.transports = "tcp,loopback";
        o.advertise = "tcp://127.0.0.1:7000,tcp://[::1]:7001";
        o.timeout_ms = 1;
        o.stall_ms = 2;
        o.connect_ms = 3;
        o.heartbeat_ms = 4;
        o.idle_ms = 5;
        o.lanes = 6;
        o.max_connections = 7;
        o.max_operations = 8;
        o.yield_ms = 9;
    });
    CHECK(options.io_threads == 3);
    CHECK(options.spin_us == 50);
    CHECK((options.on_event == no_event));
    CHECK(options.user == 9);
    CHECK(options.insecure);
    CHECK(options.own_id);
    CHECK(options.id[15] == 1);
    CHECK(options.blob == std::vector<uint8_t>{'b', 'l', 'o', 'b'});
    CHECK(options.key.bytes().size() == 32);
    CHECK(options.transports == std::vector<std::string>{"tcp", "loopback"});
    CHECK(options.advertise ==
          std::vector<std::string>{"tcp://127.0.0.1:7000", "tcp://[::1]:7001"});
    CHECK(options.timeout_ms == 1);
    CHECK(options.stall_ms == 2);
    CHECK(options.connect_ms == 3);
    CHECK(options.heartbeat_ms == 4);
    CHECK(options.idle_ms == 5);
    CHECK(options.lanes == 6);
    CHECK(options.max_connections == 7);
    CHECK(options.max_operations == 8);
    CHECK(options.yield_ms == 9);
}

TEST_CASE("none, where it is allowed") {
    const Options options = resolve([](Given &o) {
        o.io_threads = XFER_NONE;
        o.spin_us = XFER_NONE;
        o.timeout_ms = XFER_NONE;
        o.lanes = XFER_NONE;
        o.yield_ms = XFER_NONE;
    });
    CHECK(options.io_threads == 0);
    CHECK(options.spin_us == 0);
    CHECK(options.timeout_ms == 0);
    CHECK(options.lanes == XFER_NONE);
    CHECK(options.yield_ms == 0);
}

TEST_CASE("each limit, at it and past it") {
    const struct {
        const char *what;
        std::function<void(Given &, uint64_t)> set;
        uint64_t last;
    } rows[] = {
        {"I/O threads", [](Given &o, uint64_t v) { o.io_threads = static_cast<uint32_t>(v); }, 64},
        {"spin", [](Given &o, uint64_t v) { o.spin_us = static_cast<uint32_t>(v); }, 1'000'000},
        {"lanes", [](Given &o, uint64_t v) { o.lanes = static_cast<uint32_t>(v); }, 16},
        {"connections", [](Given &o, uint64_t v) { o.max_connections = static_cast<uint32_t>(v); },
         1'048'576},
        {"operations", [](Given &o, uint64_t v) { o.max_operations = static_cast<uint32_t>(v); },
         1'048'576},
        {"blob", [](Given &o, uint64_t v) { o.blob = "", o.blob_length = v; }, 0},
        {"key", [](Given &o, uint64_t v) { o.key = secret, o.key_length = v; }, 256},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.what));
        const uint64_t past = row.last ? row.last + 1 : kMaxBlob + 1;
        CHECK(status_of([&](Given &o) { row.set(o, row.last); }) == XFER_OK);
        CHECK(status_of([&](Given &o) { row.set(o, past); }) == XFER_EINVAL);
    }
    std::vector<uint8_t> blob(kMaxBlob, 5);
    CHECK(resolve([&](Given &o) { o.blob = blob.data(), o.blob_length = kMaxBlob; }).blob == blob);
}

TEST_CASE("mistakes have a status and a text") {
    const struct {
        const char *what;
        std::function<void(Given &)> change;
        Status status;
    } rows[] = {
        {"unknown flag", [](Given &o) { o.flags = 1u << 31; }, XFER_EINVAL},
        {"unref of a thread", [](Given &o) { o.flags = XFER_ENGINE_UNREF; }, XFER_EINVAL},
        {"unknown dispatch", [](Given &o) { o.dispatch = 4; }, XFER_EINVAL},
        {"thread without callback", [](Given &o) { o.on_event = nullptr; }, XFER_EINVAL},
        {"poll with callback", [](Given &o) { o.dispatch = XFER_DISPATCH_POLL; }, XFER_EINVAL},
        {"loop without loop", [](Given &o) { o.dispatch = XFER_DISPATCH_LOOP; }, XFER_EINVAL},
        {"loop without callback", [](Given &o) { set_loop(o), o.on_event = nullptr; }, XFER_EINVAL},
        {"thread with loop", [](Given &o) { set_loop(o), o.dispatch = 0; }, XFER_EINVAL},
        {"blob missing", [](Given &o) { o.blob_length = 1; }, XFER_EINVAL},
        {"key too short", [](Given &o) { o.key = secret, o.key_length = 31; }, XFER_EINVAL},
        {"key without length", [](Given &o) { o.key = secret; }, XFER_EINVAL},
        {"key missing", [](Given &o) { o.key_length = 32; }, XFER_EINVAL},
        {"unknown transport", [](Given &o) { o.transports = "tcp,pigeon"; }, XFER_EUNSUPPORTED},
        {"transport in capitals", [](Given &o) { o.transports = "TCP"; }, XFER_EUNSUPPORTED},
        {"advertise nonsense", [](Given &o) { o.advertise = "here"; }, XFER_EINVAL},
        {"advertise port 0", [](Given &o) { o.advertise = "tcp://127.0.0.1:0"; }, XFER_EINVAL},
        {"advertise a range", [](Given &o) { o.advertise = "tcp://127.0.0.1:1-2"; }, XFER_EINVAL},
        {"advertise any", [](Given &o) { o.advertise = "tcp://0.0.0.0:80"; }, XFER_EINVAL},
        {"advertise the second is wrong",
         [](Given &o) { o.advertise = "tcp://127.0.0.1:1,tcp://127.0.0.1:0"; }, XFER_EINVAL},
        {"advertise the first is wrong",
         [](Given &o) { o.advertise = "tcp://127.0.0.1:0,tcp://127.0.0.1:1"; }, XFER_EINVAL},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.what));
        CHECK(status_of(row.change) == row.status);
    }
    CHECK(resolve(set_poll).dispatch == XFER_DISPATCH_POLL);
    CHECK((resolve(set_loop).loop == reinterpret_cast<uv_loop_s *>(loop_memory)));
}

TEST_CASE("what is said of adapters") {
    xfer_rdma_options_t rdma{};
    rdma.size = sizeof rdma;
    const auto give = [&](Given &o) { o.rdma = &rdma; };
    if (!has_rdma()) {
        CHECK(status_of(give) == XFER_EUNSUPPORTED);
        return;
    }
    for (const RdmaOptions &by_default : {resolve(give).rdma, resolve([](Given &) {}).rdma}) {
        CHECK(by_default.devices.empty());
        CHECK(by_default.queue_depth == 128);
        CHECK(by_default.ack_timeout == 14);
        CHECK(by_default.retries == 6);
        CHECK(by_default.traffic_class == 0);
        CHECK(by_default.service_level == 0);
    }
    const struct {
        uint32_t xfer_rdma_options_t::*field;
        uint32_t last;
    } rows[] = {{&xfer_rdma_options_t::queue_depth, 32'768},
                {&xfer_rdma_options_t::ack_timeout, 31},
                {&xfer_rdma_options_t::retries, 6},
                {&xfer_rdma_options_t::traffic_class, 255},
                {&xfer_rdma_options_t::service_level, 15}};
    for (const auto &[field, last] : rows) {
        for (const uint32_t past : {last + 1, last + 256, UINT32_MAX - 1}) {
            CAPTURE(past);
            rdma.*field = past;
            CHECK(status_of(give) == XFER_EINVAL);
        }
        rdma.*field = last;
        CHECK(status_of(give) == XFER_OK);
        rdma.*field = XFER_NONE;
        CHECK((status_of(give) == XFER_OK) == (field == &xfer_rdma_options_t::retries));
        rdma.*field = last;
    }
    rdma.devices = "mlx5_0,mlx5_1:2:3";
    const RdmaOptions taken = resolve(give).rdma;
    CHECK(taken.devices == "mlx5_0,mlx5_1:2:3");
    CHECK(taken.queue_depth == 32'768);
    CHECK(taken.ack_timeout == 31);
    CHECK(taken.retries == 6);
    CHECK(taken.traffic_class == 255);
    CHECK(taken.service_level == 15);
    rdma.retries = XFER_NONE;
    CHECK(resolve(give).rdma.retries == 0);
    rdma.devices = "mlx5_0:none";
    CHECK(status_of(give) == XFER_EINVAL);
}

TEST_CASE("lists") {
    CHECK(resolve([](Given &o) { o.transports = ""; }).transports.empty());
    CHECK(resolve([](Given &o) { o.transports = ",tcp,,"; }).transports ==
          std::vector<std::string>{"tcp"});
    std::string eight, nine;
    for (int i = 1; i <= 9; ++i) {
        nine += "tcp://127.0.0.1:" + std::to_string(i) + ",";
        if (i == 8) eight = nine;
    }
    CHECK(resolve([&](Given &o) { o.advertise = eight.c_str(); }).advertise.size() == 8);
    CHECK(status_of([&](Given &o) { o.advertise = nine.c_str(); }) == XFER_EINVAL);
}

TEST_CASE("the log") {
    CHECK(resolve([](Given &o) { o.on_log = no_log; }).log.enabled(XFER_LOG_WARN));
    CHECK(!resolve([](Given &o) { o.on_log = no_log; }).log.enabled(XFER_LOG_INFO));
    const auto debug = [](Given &o) { o.on_log = no_log, o.log_level = XFER_LOG_DEBUG; };
    CHECK(resolve(debug).log.enabled(XFER_LOG_DEBUG));
    CHECK(!resolve([](Given &o) { o.log_level = XFER_LOG_DEBUG; }).log.enabled(XFER_LOG_ERROR));
}
