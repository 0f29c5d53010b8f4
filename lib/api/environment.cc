// SPDX-License-Identifier: Apache-2.0
#include "api/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "transport/builtin.h"

namespace xfer {

namespace {

constexpr std::string_view kLevels[] = {"", "error", "warn", "info", "debug"};

// Time in UTC, process, level; the text has the engine and what it is about.
void log_to_stderr(uint32_t level, const char *text, uint64_t) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    char date[32];
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    std::fprintf(stderr, "%s.%03ldZ xfer[%d] %s: %s\n", date, now.tv_nsec / 1'000'000, ::getpid(),
                 kLevels[level].data(), text);
}

// Set, and not to nothing.
const char *environment(const char *name) {
    const char *value = std::getenv(name);
    return value && *value ? value : nullptr;
}

}  // namespace

void choose_log(xfer_engine_options_t &options, Text &warning) {
    const char *wanted = environment("XFER_LOG");
    if (!wanted || options.on_log) return;
    options.on_log = log_to_stderr;
    if (options.log_level == XFER_NONE) return;  // is refused, whatever the environment says
    options.log_level = 0;
    for (uint32_t level = XFER_LOG_ERROR; level <= XFER_LOG_DEBUG; ++level)
        if (wanted == kLevels[level]) options.log_level = level;
    if (options.log_level) return;
    options.log_level = XFER_LOG_WARN;
    warning = fmt::format("XFER_LOG is \"{}\", none of error, warn, info and debug: warn is taken",
                          wanted);
}

Failure choose_transports(xfer_engine_options_t &options) {
    const char *wanted = environment("XFER_TRANSPORTS");
    if (!wanted || options.transports) return {};
    options.transports = wanted;
    if (const std::string unknown = unknown_transport(wanted); !unknown.empty())
        return {XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0,
                fmt::format("XFER_TRANSPORTS: no transport is called \"{}\": this build has {}",
                            unknown, builtin_names())};
    return {};
}

Failure choose_rdma_devices(xfer_engine_options_t &options, xfer_rdma_options_t &rdma) {
    const char *wanted = environment("XFER_RDMA_DEVICES");
    if (!wanted || rdma.devices || !has_rdma()) return {};
    if (Failure why = check_rdma_devices(wanted); why.status != XFER_OK)
        return {why.status, XFER_ORIGIN_NONE, 0, Text("XFER_RDMA_DEVICES: ") + why.message};
    rdma.devices = wanted;
    options.rdma = &rdma;
    return {};
}

}  // namespace xfer
