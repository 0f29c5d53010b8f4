// SPDX-License-Identifier: Apache-2.0
// Log lines of one engine. Thread: any.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "util/text.h"
#include "xfer/xfer.h"

template <>
struct fmt::formatter<xfer::Text> : fmt::formatter<std::string_view> {};

namespace xfer {

struct Log {
    xfer_log_cb callback = nullptr;
    uint64_t user = 0;
    uint32_t level = XFER_LOG_WARN;

    bool enabled(uint32_t at) const { return callback && at <= level; }

    template <typename... Args>
    void error(fmt::format_string<Args...> format, Args &&...args) const {
        write(XFER_LOG_ERROR, format, std::forward<Args>(args)...);
    }
    template <typename... Args>
    void warn(fmt::format_string<Args...> format, Args &&...args) const {
        write(XFER_LOG_WARN, format, std::forward<Args>(args)...);
    }
    template <typename... Args>
    void info(fmt::format_string<Args...> format, Args &&...args) const {
        write(XFER_LOG_INFO, format, std::forward<Args>(args)...);
    }
    template <typename... Args>
    void debug(fmt::format_string<Args...> format, Args &&...args) const {
        write(XFER_LOG_DEBUG, format, std::forward<Args>(args)...);
    }

private:
    template <typename... Args>
    void write(uint32_t at, fmt::format_string<Args...> format, Args &&...args) const {
        if (!enabled(at)) return;
        fmt::memory_buffer text;
        fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
        text.push_back('\0');
        callback(at, text.data(), user);
    }
};

}  // namespace xfer
