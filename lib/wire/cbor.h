// SPDX-License-Identifier: Apache-2.0
// CBOR (RFC 8949) as the handshake speaks it, by libcbor's encoders and its streaming decoder:
// one item at a time, in memory of the caller's. Nothing here allocates.
//
// Accepted: numbers, bytes and text, lists and maps of definite length whose count the bytes that
// are left can hold, maps whose keys are text, false, true, null, floats. All else is malformed:
// tags, indefinite lengths, other simple values, an item that is cut.
#pragma once

#include <optional>
#include <string_view>

#include "wire/bytes.h"

namespace xfer::cbor {

class Writer {
public:
    // What is written must fit.
    explicit Writer(Bytes out) : out_(out) {}
    size_t size() const { return used_; }

    void number(uint64_t value);
    void negative(int64_t value);  // below zero
    void flag(bool value);
    void bytes(ConstBytes value);
    void text(std::string_view value);
    void list(size_t count);  // its entries follow
    void map(size_t count);   // its keys, each with its value behind it, follow

private:
    using Encoder = size_t (*)(size_t, unsigned char *, size_t);
    void took(size_t size);
    void string(Encoder start, ConstBytes value);
    Bytes rest() const { return out_.subspan(used_); }

    Bytes out_;
    size_t used_ = 0;
};

enum class Type : uint8_t { malformed, number, negative, bytes, text, list, map, flag, other };

struct Item {
    Type type = Type::malformed;
    // A number; of a negative one, -1 minus it; a flag; the entries or pairs that follow.
    uint64_t value = 0;
    ConstBytes bytes;  // of bytes and text

    std::string_view text() const {
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }
};

class Reader {
public:
    explicit Reader(ConstBytes from) : rest_(from) {}
    size_t left() const { return rest_.size(); }
    Item next();
    // Steps over one item with all that is in it: at most `nesting` lists and maps in each other.
    bool skip(int nesting);

private:
    ConstBytes rest_;
};

}  // namespace xfer::cbor
