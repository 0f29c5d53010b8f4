// SPDX-License-Identifier: Apache-2.0
#include "wire/cbor.h"

#include <doctest/doctest.h>

#include <vector>

using namespace xfer::cbor;

namespace {

using Body = std::vector<uint8_t>;

Item first(const Body &body) {
    return Reader(body).next();
}

bool skips(const Body &body, int nesting) {
    Reader reader(body);
    return reader.skip(nesting) && reader.left() == 0;
}

}  // namespace

TEST_CASE("what was written is read") {
    uint8_t out[128];
    Writer writer(out);
    writer.map(2);
    writer.text("list");
    writer.list(4);
    writer.number(UINT64_MAX);
    writer.negative(INT64_MIN);
    writer.flag(true);
    writer.bytes({});
    writer.text("");
    writer.number(23);

    Reader reader({out, writer.size()});
    Item item = reader.next();
    CHECK(item.type == Type::map);
    CHECK(item.value == 2);
    CHECK(reader.next().text() == "list");
    CHECK(reader.next().value == 4);
    item = reader.next();
    CHECK(item.type == Type::number);
    CHECK(item.value == UINT64_MAX);
    item = reader.next();
    CHECK(item.type == Type::negative);
    CHECK(item.value == uint64_t{INT64_MAX});
    item = reader.next();
    CHECK(item.type == Type::flag);
    CHECK(item.value == 1);
    item = reader.next();
    CHECK(item.type == Type::bytes);
    CHECK(item.bytes.empty());
    CHECK(reader.next().type == Type::text);
    CHECK(reader.next().value == 23);
    CHECK(reader.left() == 0);
    CHECK(reader.next().type == Type::malformed);

    Reader whole({out, writer.size()});
    CHECK(whole.skip(2));
    CHECK(whole.left() == 0);
}

TEST_CASE("the first byte tells what is accepted") {
    for (int byte = 0; byte < 256; ++byte) {
        CAPTURE(byte);
        Body body(300, 0);
        body[0] = static_cast<uint8_t>(byte);
        const int major = byte >> 5, low = byte & 31;
        const bool definite = low < 28 && major != 6;
        const bool simple = (low >= 20 && low <= 22) || (low >= 25 && low <= 27);
        CHECK((first(body).type != Type::malformed) == (major == 7 ? simple : definite));
        // Cut, but for those that are one byte long.
        const bool alone = major == 7 ? low >= 20 && low <= 22 : low < 24 && major < 2;
        const bool empty = low == 0 && major >= 2 && major <= 5;
        CHECK((first({static_cast<uint8_t>(byte)}).type != Type::malformed) == (alone || empty));
    }
}

TEST_CASE("counts that what is left can't hold") {
    CHECK(first({0x82, 1, 2}).type == Type::list);
    CHECK(first({0x83, 1, 2}).type == Type::malformed);
    CHECK(first({0xa1, 0x60, 1}).type == Type::map);
    CHECK(first({0xa2, 0x60, 1, 0x60}).type == Type::malformed);
    CHECK(first({0x42, 1}).type == Type::malformed);
    for (uint8_t major : {0x40, 0x60, 0x80, 0xa0})
        for (uint8_t top : {0x00, 0x7f, 0x80, 0xff})
            CHECK(first({static_cast<uint8_t>(major | 27), top, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                         0xff, 1, 2, 3})
                      .type == Type::malformed);
}

TEST_CASE("skipping keeps to its depth, and to keys that are text") {
    const Body nested = {0x81, 0xa1, 0x61, 'k', 0x81, 0x01};
    CHECK(skips(nested, 3));
    CHECK_FALSE(skips(nested, 2));
    CHECK(skips({0xa1, 0x61, 'k', 0x01}, 1));
    CHECK_FALSE(skips({0xa1, 0x41, 'k', 0x01}, 1));
    CHECK_FALSE(skips({0xa1, 0x01, 0x01}, 1));
    CHECK_FALSE(skips({0xa1, 0x61, 'k', 0xc1}, 1));
    CHECK_FALSE(skips({}, 1));
}
