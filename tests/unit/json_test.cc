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

TEST_CASE("UTF-8 stays, and what is none is replaced byte by byte") {
    const std::string r = "\xef\xbf\xbd";
    for (const char *text : {"\u00e9", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000",
                             "\U0010ffff", "\u00df\u00e9 x \u20ac"})
        CHECK(read_again(text) == text);
    CHECK(read_again("\xc0\x80") == r + r);                  // overlong
    CHECK(read_again("\xe0\x9f\xbf") == r + r + r);          // overlong
    CHECK(read_again("\xf0\x8f\xbf\xbf") == r + r + r + r);  // overlong
    CHECK(read_again("\xed\xa0\x80") == r + r + r);          // a surrogate
    CHECK(read_again("\xf4\x90\x80\x80") == r + r + r + r);  // past the last
    CHECK(read_again("\xe2\x82") == r + r);                  // cut
    CHECK(read_again("\xe2\x82x") == r + r + "x");
}
