// SPDX-License-Identifier: Apache-2.0
#include "wire/cbor.h"

#include <cbor.h>

#include "util/check.h"

namespace xfer::cbor {

// ---- writing

void Writer::took(size_t size) {
    XFER_CHECK(size > 0);
    used_ += size;
}

void Writer::number(uint64_t value) {
    took(cbor_encode_uint(value, rest().data(), rest().size()));
}

void Writer::negative(int64_t value) {
    took(cbor_encode_negint(static_cast<uint64_t>(-1 - value), rest().data(), rest().size()));
}

void Writer::flag(bool value) {
    took(cbor_encode_bool(value, rest().data(), rest().size()));
}

void Writer::bytes(ConstBytes value) {
    string(cbor_encode_bytestring_start, value);
}

void Writer::text(std::string_view value) {
    string(cbor_encode_string_start,
           {reinterpret_cast<const uint8_t *>(value.data()), value.size()});
}

void Writer::string(Encoder start, ConstBytes value) {
    took(start(value.size(), rest().data(), rest().size()));
    XFER_CHECK(value.size() <= rest().size());
    if (!value.empty()) std::memcpy(rest().data(), value.data(), value.size());
    used_ += value.size();
}

void Writer::list(size_t count) {
    took(cbor_encode_array_start(count, rest().data(), rest().size()));
}

void Writer::map(size_t count) {
    took(cbor_encode_map_start(count, rest().data(), rest().size()));
}

// ---- reading

namespace {

void set(void *to, Type type, uint64_t value, ConstBytes bytes = {}) {
    *static_cast<Item *>(to) = {type, value, bytes};
}

template <Type type, typename Number>
void on_number(void *to, Number value) {
    set(to, type, value);
}

template <Type type>
void on_string(void *to, cbor_data bytes, size_t size) {
    set(to, type, 0, {bytes, size});
}

template <Type type>
void on_many(void *to, size_t count) {
    set(to, type, count);
}

template <typename Number>
void on_float(void *to, Number) {
    set(to, Type::other, 0);
}

// What is malformed to us leaves the item as it was.
constexpr cbor_callbacks kCallbacks = {
    .uint8 = on_number<Type::number, uint8_t>,
    .uint16 = on_number<Type::number, uint16_t>,
    .uint32 = on_number<Type::number, uint32_t>,
    .uint64 = on_number<Type::number, uint64_t>,
    .negint64 = on_number<Type::negative, uint64_t>,
    .negint32 = on_number<Type::negative, uint32_t>,
    .negint16 = on_number<Type::negative, uint16_t>,
    .negint8 = on_number<Type::negative, uint8_t>,
    .byte_string_start = cbor_null_byte_string_start_callback,
    .byte_string = on_string<Type::bytes>,
    .string = on_string<Type::text>,
    .string_start = cbor_null_string_start_callback,
    .indef_array_start = cbor_null_indef_array_start_callback,
    .array_start = on_many<Type::list>,
    .indef_map_start = cbor_null_indef_map_start_callback,
    .map_start = on_many<Type::map>,
    .tag = cbor_null_tag_callback,
    .float2 = on_float<float>,
    .float4 = on_float<float>,
    .float8 = on_float<double>,
    .undefined = cbor_null_undefined_callback,
    .null = [](void *to) { set(to, Type::other, 0); },
    .boolean = [](void *to, bool value) { set(to, Type::flag, value); },
    .indef_break = cbor_null_indef_break_callback,
};

}  // namespace

Item Reader::next() {
    Item item;
    const cbor_decoder_result result =
        cbor_stream_decode(rest_.data(), rest_.size(), &kCallbacks, &item);
    if (result.status != CBOR_DECODER_FINISHED) return {};
    rest_ = rest_.subspan(result.read);
    // Each entry of a list takes a byte or more, each pair of a map two.
    const bool list = item.type == Type::list, map = item.type == Type::map;
    if ((list || map) && item.value > rest_.size() / (list ? 1 : 2)) return {};
    return item;
}

bool Reader::skip(int nesting) {
    const Item item = next();
    if (item.type != Type::list && item.type != Type::map) return item.type != Type::malformed;
    if (nesting == 0) return false;
    for (uint64_t left = item.value; left > 0; --left) {
        if (item.type == Type::map && next().type != Type::text) return false;
        if (!skip(nesting - 1)) return false;
    }
    return true;
}

}  // namespace xfer::cbor
