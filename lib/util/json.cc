// SPDX-License-Identifier: Apache-2.0
#include "util/json.h"

#include <nlohmann/json.hpp>

namespace xfer {

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
    using Json = nlohmann::json;
    text_ += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace xfer
