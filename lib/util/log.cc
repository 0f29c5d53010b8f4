// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <fmt/format.h>

#include <iterator>

namespace xfer {

void Log::send(uint32_t at, fmt::string_view format, fmt::format_args args) const {
    fmt::memory_buffer text;
    fmt::vformat_to(std::back_inserter(text), format, args);
    text.push_back('\0');
    callback(at, text.data(), user);
}

}  // namespace xfer
