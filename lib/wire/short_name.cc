// SPDX-License-Identifier: Apache-2.0
#include "wire/short_name.h"

namespace xfer {

Text short_name(const EngineId &id) {
    constexpr char digits[] = "0123456789abcdef";
    char text[8];
    for (size_t i = 0; i < sizeof text; ++i)
        text[i] = digits[i % 2 ? id[i / 2] & 15 : id[i / 2] >> 4];
    return std::string_view(text, sizeof text);
}

}  // namespace xfer
