// SPDX-License-Identifier: Apache-2.0
#include "transport/source.h"

#include <fmt/format.h>

namespace xfer {

std::string to_string(const Source &source) {
    const auto part = [&](int shift, uint64_t mask) { return source.value >> shift & mask; };
    switch (source.kind) {
    case Source::Kind::ipv4:
        return fmt::format("{}.{}.{}.{}", part(24, 255), part(16, 255), part(8, 255), part(0, 255));
    case Source::Kind::ipv6:
        return fmt::format("{:x}:{:x}:{:x}:{:x}::/64", part(48, 0xffff), part(32, 0xffff),
                           part(16, 0xffff), part(0, 0xffff));
    default:
        return fmt::format("user {}", source.value);
    }
}

}  // namespace xfer
