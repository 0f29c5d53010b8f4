// SPDX-License-Identifier: Apache-2.0
// A rate limit for log lines that others can provoke: so many in an interval, which begins with the
// first of them. The first line after a limited interval tells how many were left out.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace xfer {

class LogLimit {
public:
    LogLimit(uint32_t lines, uint64_t interval) : lines_(lines), interval_(interval) {}

    // How many were left out before this one; nothing: so is this one.
    std::optional<uint64_t> admit(uint64_t now) {
        if (written_ == 0 || now - begun_ >= interval_) {
            begun_ = now;
            written_ = 0;
        }
        if (written_ == lines_) {
            ++left_out_;
            return std::nullopt;
        }
        ++written_;
        return std::exchange(left_out_, 0);
    }

private:
    const uint32_t lines_;
    const uint64_t interval_;
    uint32_t written_ = 0;  // in the interval that began then
    uint64_t begun_ = 0;
    uint64_t left_out_ = 0;
};

}  // namespace xfer
