// SPDX-License-Identifier: Apache-2.0
#include "util/utf8.h"

#include <cstdint>

namespace xfer {

namespace {

// The length of the sequence that begins with `lead`, and the range of its second byte; 0: none
// does.
size_t sequence(uint8_t lead, uint8_t &low, uint8_t &high) {
    low = 0x80;
    high = 0xbf;
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0;
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
        return 3;
    }
    if (lead > 0xf4) return 0;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    return 4;
}

}  // namespace

bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        uint8_t low = 0, high = 0;
        const size_t length = sequence(static_cast<uint8_t>(text[at]), low, high);
        if (length == 0 || length > text.size() - at) return false;
        for (size_t i = 1; i < length; ++i) {
            const auto byte = static_cast<uint8_t>(text[at + i]);
            if (byte < low || byte > high) return false;
            low = 0x80;
            high = 0xbf;
        }
        at += length;
    }
    return true;
}

}  // namespace xfer
