// SPDX-License-Identifier: Apache-2.0
// Writes one JSON text front to back, indented; strings as nlohmann-json writes them, with what is
// no UTF-8 replaced. That objects and arrays are closed in order is the caller's affair.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xfer {

class JsonWriter {
public:
    // Members of the object that is open. `key` is ASCII and needs no escape.
    template <typename T>
    void add(std::string_view key, const T &value) {
        name(key);
        write(value);
    }
    void begin_object(std::string_view key) { name(key), open('{'); }
    void begin_array(std::string_view key) { name(key), open('['); }

    // Elements of the array that is open; the text itself is one object.
    template <typename T>
    void element(const T &value) {
        separate();
        write(value);
    }
    void begin_object() { separate(), open('{'); }

    void end_object() { close('}'); }
    void end_array() { close(']'); }

    const std::string &text() const { return text_; }

private:
    void name(std::string_view key);
    void separate();
    void open(char bracket);
    void close(char bracket);
    void write(std::string_view value);
    void write(const char *value) { write(std::string_view(value)); }
    void write(bool value) { text_ += value ? "true" : "false"; }
    void write(uint64_t value) { text_ += std::to_string(value); }
    void write(uint32_t value) { write(uint64_t{value}); }
    void write(int32_t value) { text_ += std::to_string(value); }

    std::string text_;
    uint32_t depth_ = 0;
    bool first_ = true;  // nothing stands yet in what is open
};

}  // namespace xfer
