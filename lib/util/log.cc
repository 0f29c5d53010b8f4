// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <fmt/format.h>

#include <iterator>

#include "util/memory.h"

namespace xfer {

// A line for which memory lacks is left out: what is told of may be just that.
void Log::send(uint32_t at, fmt::string_view format, fmt::format_args args) const {
    fmt::memory_buffer text;
    const bool written = catch_bad_alloc([&] {
        text.append(std::string_view(prefix));
        fmt::vformat_to(std::back_inserter(text), format, args);
        text.push_back('\0');
    });
    if (written) callback(at, text.data(), user);
}

}  // namespace xfer
