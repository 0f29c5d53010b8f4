// SPDX-License-Identifier: Apache-2.0
#include "util/json.h"

namespace xfer {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The length of the UTF-8 sequence that `text` begins with, 0 if it is none: cut, overlong, a
// surrogate, or past U+10FFFF.
size_t sequence(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t lead = byte(0);
    if (lead < 0x80) return 1;
    const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || length > text.size()) return 0;
    for (size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    const uint8_t second = byte(1);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
    return overlong || beyond ? 0 : length;
}

void escape(char byte, std::string &out) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        out += '\\';
        out += byte;
    } else if (static_cast<uint8_t>(byte) < 0x20 || byte == 0x7f) {
        out += "\\u00";
        out += kDigits[static_cast<uint8_t>(byte) >> 4];
        out += kDigits[static_cast<uint8_t>(byte) & 15];
    } else {
        out += byte;
    }
}

}  // namespace

void JsonWriter::separate() {
    if (text_.empty()) return;
    if (!first_) text_ += ',';
    first_ = false;
    text_ += '\n';
    text_.append(size_t{2} * depth_, ' ');
}

void JsonWriter::name(std::string_view key) {
    separate();
    text_ += '"';
    text_ += key;
    text_ += "\": ";
}

void JsonWriter::open(char bracket) {
    text_ += bracket;
    first_ = true;
    ++depth_;
}

void JsonWriter::close(char bracket) {
    --depth_;
    if (!first_) {
        text_ += '\n';
        text_.append(size_t{2} * depth_, ' ');
    }
    text_ += bracket;
    first_ = false;
}

void JsonWriter::write(std::string_view value) {
    text_ += '"';
    while (!value.empty()) {
        const size_t length = sequence(value);
        if (length == 0)
            text_ += kReplacement;
        else if (length == 1)
            escape(value[0], text_);
        else
            text_ += value.substr(0, length);
        value.remove_prefix(length ? length : 1);
    }
    text_ += '"';
}

}  // namespace xfer
