// SPDX-License-Identifier: Apache-2.0
// Log lines of one engine. Thread: any.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "util/text.h"
#include "xfer/xfer.h"

namespace xfer {

// What a log line takes as it is, and a Text as what it holds.
template <typename T>
const T &loggable(const T &value) {
    return value;
}
inline std::string_view loggable(const Text &text) {
    return text;
}
template <typename... Args>
using LogFormat = fmt::format_string<
    std::remove_cvref_t<decltype(loggable(std::declval<const std::remove_cvref_t<Args> &>()))>...>;

struct Log {
    xfer_log_cb callback = nullptr;
    uint64_t user = 0;
    uint32_t level = XFER_LOG_WARN;
    Text prefix;  // of every line: the engine, once it has an id

    bool enabled(uint32_t at) const { return callback && at <= level; }

    template <typename... Args>
    void error(LogFormat<Args...> format, const Args &...args) const {
        write(XFER_LOG_ERROR, format, loggable(args)...);
    }
    template <typename... Args>
    void warn(LogFormat<Args...> format, const Args &...args) const {
        write(XFER_LOG_WARN, format, loggable(args)...);
    }
    template <typename... Args>
    void info(LogFormat<Args...> format, const Args &...args) const {
        write(XFER_LOG_INFO, format, loggable(args)...);
    }
    template <typename... Args>
    void debug(LogFormat<Args...> format, const Args &...args) const {
        write(XFER_LOG_DEBUG, format, loggable(args)...);
    }

private:
    // The line is put together in log.cc, so that a call costs the compiler little.
    template <typename... Args>
    void write(uint32_t at, fmt::string_view format, const Args &...args) const {
        if (enabled(at)) send(at, format, fmt::make_format_args(args...));
    }
    void send(uint32_t at, fmt::string_view format, fmt::format_args args) const;
};

}  // namespace xfer
