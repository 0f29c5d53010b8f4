// SPDX-License-Identifier: Apache-2.0
#include "api/input.h"

#include <fmt/format.h>

#include <cstddef>

#include "core/base/limits.h"
#include "util/utf8.h"
#include "wire/limits.h"

namespace xfer {

namespace {

// What the header tells is what the wire carries.
static_assert(kMaxName == XFER_MAX_NAME && kMaxBlob == XFER_MAX_BLOB && kMaxKey == XFER_MAX_KEY &&
              kMaxNotifyData == XFER_MAX_NOTIFY && kMaxCopy == XFER_MAX_COPY);

#define XFER_RESERVED(type, field) \
    { #field, offsetof(type, field), sizeof(type::field) }

constexpr Reserved kEngine[] = {XFER_RESERVED(xfer_engine_options_t, reserved),
                                {"cuda", offsetof(xfer_engine_options_t, cuda), sizeof(void *)},
                                {"tls", offsetof(xfer_engine_options_t, tls), sizeof(void *)}};
constexpr Reserved kRdma[] = {XFER_RESERVED(xfer_rdma_options_t, reserved)};
constexpr Reserved kRegion[] = {XFER_RESERVED(xfer_region_options_t, reserved)};
constexpr Reserved kGrant[] = {XFER_RESERVED(xfer_grant_options_t, reserved)};
constexpr Reserved kEndpoint[] = {XFER_RESERVED(xfer_ep_options_t, reserved)};
constexpr Reserved kOperation[] = {XFER_RESERVED(xfer_op_options_t, reserved)};
constexpr Reserved kSubmit[] = {XFER_RESERVED(xfer_submit_options_t, stream)};
constexpr Reserved kCounter[] = {XFER_RESERVED(xfer_counter_options_t, reserved)};
constexpr Reserved kListen[] = {XFER_RESERVED(xfer_listen_options_t, reserved),
                                XFER_RESERVED(xfer_listen_options_t, reserved1)};
constexpr Reserved kPages[] = {XFER_RESERVED(xfer_pages_t, reserved)};
constexpr Reserved kStrided[] = {XFER_RESERVED(xfer_strided_t, reserved)};

#undef XFER_RESERVED

template <typename T>
constexpr Shape shape(const char *name, std::span<const Reserved> reserved) {
    return {name, sizeof(T), alignof(T), reserved};
}

}  // namespace

#define XFER_SHAPE(type, reserved)                                   \
    const Shape &shape_of(const type *) {                            \
        static constexpr Shape known = shape<type>(#type, reserved); \
        return known;                                                \
    }

XFER_SHAPE(xfer_engine_options_t, kEngine)
XFER_SHAPE(xfer_rdma_options_t, kRdma)
XFER_SHAPE(xfer_listen_options_t, kListen)
XFER_SHAPE(xfer_region_options_t, kRegion)
XFER_SHAPE(xfer_grant_options_t, kGrant)
XFER_SHAPE(xfer_ep_options_t, kEndpoint)
XFER_SHAPE(xfer_op_options_t, kOperation)
XFER_SHAPE(xfer_batch_options_t, {})
XFER_SHAPE(xfer_submit_options_t, kSubmit)
XFER_SHAPE(xfer_strided_t, kStrided)
XFER_SHAPE(xfer_pages_t, kPages)
XFER_SHAPE(xfer_counter_options_t, kCounter)

#undef XFER_SHAPE

Status refuse(Failure &why, Status status, std::string_view text) {
    why = {status, XFER_ORIGIN_NONE, 0, text};
    return status;
}

Status check_input(const Shape &shape, const void *from, Failure &why) {
    const auto *bytes = static_cast<const unsigned char *>(from);
    uint32_t size = 0;
    std::memcpy(&size, bytes, sizeof size);
    const char *name = shape.name;
    if (size < sizeof size || (size < shape.size && size % shape.alignment))
        return refuse(why, XFER_EINVAL,
                      fmt::format("{}.size is {}: set it to sizeof({})", name, size, name));
    if (size > kLongestInput)
        return refuse(why, XFER_E2BIG,
                      fmt::format("{}.size is {}: set it to sizeof({})", name, size, name));
    for (size_t at = shape.size; at < size; ++at)
        if (bytes[at])
            return refuse(why, XFER_E2BIG,
                          fmt::format("{}.size is {}: this library knows {} bytes of it, and byte "
                                      "{} is not 0",
                                      name, size, shape.size, at));
    for (const Reserved &field : shape.reserved)
        for (size_t at = field.offset; at < std::min<size_t>(size, field.offset + field.size); ++at)
            if (bytes[at])
                return refuse(why, XFER_E2BIG,
                              fmt::format("{}.{} is not 0: this library knows no use of it", name,
                                          field.name));
    return XFER_OK;
}

Status invalid(Failure &why, std::string_view text) {
    return refuse(why, XFER_EINVAL, text);
}

Status unknown_flags(const char *field, uint32_t unknown, Failure &why) {
    return invalid(why, fmt::format("{} has unknown bits: {:#x}", field, unknown));
}

Status check_name(const char *field, const char *name, Failure &why) {
    const size_t length = name ? strnlen(name, kMaxName + 1) : 0;
    if (length == 0 || length > kMaxName)
        return invalid(why, fmt::format("{} has not 1 to {} bytes", field, kMaxName));
    if (!is_utf8({name, length})) return invalid(why, fmt::format("{} is not UTF-8", field));
    return XFER_OK;
}

}  // namespace xfer
