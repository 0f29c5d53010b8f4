// SPDX-License-Identifier: Apache-2.0
#include "util/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace xfer;
using nlohmann::json;

namespace {

// What a text is after it was written and read again.
std::string read_again(std::string_view text) {
    JsonWriter out;
    out.begin_object();
    out.add("text", text);
    out.end_object();
    return json::parse(out.text())["text"].get<std::string>();
}

}  // namespace

TEST_CASE("objects and arrays, empty and nested") {
    JsonWriter out;
    out.begin_object();
    out.begin_object("nothing");
    out.end_object();
    out.begin_array("none");
    out.end_array();
    out.add("most", UINT64_MAX);
    out.add("least", INT32_MIN);
    out.add("yes", true);
    out.begin_array("all");
    out.element("one");
    out.begin_object();
    out.add("no", false);
    out.end_object();
    out.end_array();
    out.add("last", 7u);
    out.end_object();
    const json read = json::parse(out.text());
    const json wanted = {{"nothing", json::object()},
                         {"none", json::array()},
                         {"most", UINT64_MAX},
                         {"least", INT32_MIN},
                         {"yes", true},
                         {"all", {"one", {{"no", false}}}},
                         {"last", 7}};
    CHECK(read == wanted);
}

TEST_CASE("every byte, alone and between others, is read again or replaced") {
    const std::string replacement = "\xef\xbf\xbd";
    for (int byte = 0; byte < 256; ++byte) {
        const std::string text{'a', static_cast<char>(byte), 'b'};
        CHECK(read_again(text) == (byte < 0x80 ? text : "a" + replacement + "b"));
    }
}

TEST_CASE("UTF-8 stays, and what is none is replaced") {
    for (const char *text : {"\u00e9", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000",
                             "\U0010ffff", "\u00df\u00e9 x \u20ac"})
        CHECK(read_again(text) == text);
    // Overlong, a surrogate, past the last, cut.
    for (const char *text :
         {"\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
        const std::string read = read_again(std::string("a") + text + "b");
        CHECK(read.starts_with("a\xef\xbf\xbd"));
        CHECK(read.ends_with("b"));
    }
}
