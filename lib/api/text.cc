// SPDX-License-Identifier: Apache-2.0
// Refs, identities and native codes as text.
#include <ares.h>
#include <fmt/format.h>
#include <sodium.h>
#include <uv.h>

#include "api/guard.h"
#include "wire/ref.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

constexpr int kBase64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr size_t kIdDigits = 2 * sizeof(xfer_id_t::bytes);
constexpr size_t kIncarnationDigits = 2 * sizeof(xfer_id_t::incarnation);

// Whole groups of three bytes: each character has six bits of the ref, and none is left over that
// could differ.
static_assert(sizeof(xfer_ref_t) % 3 == 0);
static_assert(XFER_REF_TEXT_SIZE == sodium_base64_ENCODED_LEN(sizeof(xfer_ref_t), kBase64));
static_assert(XFER_ID_TEXT_SIZE == kIdDigits + 1 + kIncarnationDigits + 1);

bool has_length(const char *text, size_t size_with_nul) {
    return ::strnlen(text, size_with_nul) == size_with_nul - 1;
}

std::string text_of(const xfer_ref_t &ref) {
    char text[XFER_REF_TEXT_SIZE];
    ::sodium_bin2base64(text, sizeof text, ref.bytes, sizeof ref.bytes, kBase64);
    return text;
}

// What is read must be the text that would be written: libsodium takes bytes past ASCII for digits.
bool read_ref(const char *text, xfer_ref_t &ref) {
    return ::sodium_base642bin(ref.bytes, sizeof ref.bytes, text, XFER_REF_TEXT_SIZE - 1, nullptr,
                               nullptr, nullptr, kBase64) == 0 &&
           text_of(ref) == text;
}

std::string text_of(const xfer_id_t &id) {
    char digits[kIdDigits + 1];
    ::sodium_bin2hex(digits, sizeof digits, id.bytes, sizeof id.bytes);
    return fmt::format("{}-{:016x}", digits, id.incarnation);
}

// The same, since upper case is read as well.
bool read_id(const char *text, xfer_id_t &id) {
    const char *const incarnation = text + kIdDigits + 1;
    uint8_t bytes[sizeof id.incarnation];
    if (::sodium_hex2bin(id.bytes, sizeof id.bytes, text, kIdDigits, nullptr, nullptr, nullptr) ||
        ::sodium_hex2bin(bytes, sizeof bytes, incarnation, kIncarnationDigits, nullptr, nullptr,
                         nullptr))
        return false;
    id.incarnation = 0;
    for (const uint8_t byte : bytes)
        id.incarnation = id.incarnation << 8 | byte;
    return text_of(id) == text;
}

std::string words_of_peer(int32_t code) {
    if (code == XFER_OK) return "the peer decided the status";
    return fmt::format("the peer answered {}", xfer_status_name(code));
}

std::string native_words(uint32_t origin, int32_t code) {
    char room[256];
    switch (origin) {
    case XFER_ORIGIN_NONE:
        return "no native code";
    case XFER_ORIGIN_OS:
        return ::strerror_r(code, room, sizeof room);  // GNU's: may be a text of its own
    case XFER_ORIGIN_UV:
        return ::uv_strerror_r(code, room, sizeof room);
    case XFER_ORIGIN_CARES:
        return ::ares_strerror(code);
    case XFER_ORIGIN_PEER:
        return words_of_peer(code);
    default:
        return fmt::format("origin {}, code {}", origin, code);
    }
}

}  // namespace

xfer_status_t xfer_ref_text(const xfer_ref_t *ref, char *text, uint64_t cap) {
    return guarded([&]() -> Status {
        if (!ref || !text) return XFER_EINVAL;
        if (auto region = decode_ref(*ref); !region) return region.error().status;
        return copy_text(text_of(*ref), text, cap);
    });
}

xfer_status_t xfer_ref_parse(const char *text, xfer_ref_t *ref) {
    return guarded([&]() -> Status {
        xfer_ref_t read;
        if (!text || !ref || !has_length(text, XFER_REF_TEXT_SIZE) || !read_ref(text, read))
            return XFER_EINVAL;
        if (auto region = decode_ref(read); !region) return region.error().status;
        *ref = read;
        return XFER_OK;
    });
}

xfer_status_t xfer_id_text(const xfer_id_t *id, char *text, uint64_t cap) {
    return guarded([&]() -> Status {
        if (!id || !text) return XFER_EINVAL;
        return copy_text(text_of(*id), text, cap);
    });
}

xfer_status_t xfer_id_parse(const char *text, xfer_id_t *id) {
    return guarded([&]() -> Status {
        xfer_id_t read;
        if (!text || !id || !has_length(text, XFER_ID_TEXT_SIZE) || !read_id(text, read))
            return XFER_EINVAL;
        *id = read;
        return XFER_OK;
    });
}

xfer_status_t xfer_native_text(uint32_t origin, int32_t native_code, char *text, uint64_t cap) {
    return guarded([&]() -> Status {
        if (!text) return XFER_EINVAL;
        return copy_text(native_words(origin, native_code), text, cap);
    });
}
