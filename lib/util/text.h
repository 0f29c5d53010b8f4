// SPDX-License-Identifier: Apache-2.0
// A short text that lives where it stands: it needs no memory, and what does not fit is cut. So an
// error can be told, kept and passed on also where memory has run out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace xfer {

class alignas(8) Text {  // as events give it out
public:
    Text() { clear(); }
    Text(std::string_view text) : Text() { *this += text; }
    Text(const char *text) : Text(std::string_view(text)) {}
    Text(const std::string &text) : Text(std::string_view(text)) {}

    Text &operator+=(std::string_view text) {
        size_t size = std::min(text.size(), kRoom - size_);
        while (size && size < text.size() && (text[size] & 0xc0) == 0x80)
            --size;  // no character is cut in two
        if (size) std::memcpy(bytes_ + size_, text.data(), size);
        size_ = static_cast<uint8_t>(size_ + size);
        bytes_[size_] = '\0';
        return *this;
    }
    operator std::string_view() const { return {bytes_, size_}; }
    const char *c_str() const { return bytes_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() {
        size_ = 0;
        bytes_[0] = '\0';
    }

private:
    static constexpr size_t kRoom = 190;
    char bytes_[kRoom + 1];
    uint8_t size_;
};

inline Text operator+(Text left, std::string_view right) {
    return left += right;
}

}  // namespace xfer
