// SPDX-License-Identifier: Apache-2.0
// The structs that calls take, brought from the caller's size to ours. What is wrong with one is
// told with the names of the struct and the field.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "util/status.h"
#include "xfer/rdma.h"

namespace xfer {

// Far past every struct, far below what an uninitialized size mostly holds: nothing is read there.
constexpr uint32_t kLongestInput = 4096;

// A field that no caller may set yet.
struct Reserved {
    const char *name;
    size_t offset, size;
};

struct Shape {
    const char *name;
    size_t size, alignment;
    std::span<const Reserved> reserved;
};

const Shape &shape_of(const xfer_engine_options_t *);
const Shape &shape_of(const xfer_rdma_options_t *);
const Shape &shape_of(const xfer_listen_options_t *);
const Shape &shape_of(const xfer_region_options_t *);
const Shape &shape_of(const xfer_grant_options_t *);
const Shape &shape_of(const xfer_ep_options_t *);
const Shape &shape_of(const xfer_op_options_t *);
const Shape &shape_of(const xfer_batch_options_t *);
const Shape &shape_of(const xfer_submit_options_t *);
const Shape &shape_of(const xfer_strided_t *);
const Shape &shape_of(const xfer_pages_t *);
const Shape &shape_of(const xfer_counter_options_t *);

// Whether `from`, which begins with its size, is of some version of the struct, and sets nothing
// that this library does not know.
Status check_input(const Shape &shape, const void *from, Failure &why);

// Shorter: the rest is zero, so default; it ends where a struct of that alignment can, never inside
// a pointer. Longer: its tail must be zero. Null: all default.
template <typename T>
Status copy_input(const T *from, T &to, Failure &why) {
    to = {};
    if (!from) return XFER_OK;
    if (Status status = check_input(shape_of(from), from, why); status != XFER_OK) return status;
    std::memcpy(&to, from, std::min<size_t>(from->size, sizeof(T)));
    return XFER_OK;
}

Status refuse(Failure &why, Status status, std::string_view text);
// XFER_EINVAL with `text`.
Status invalid(Failure &why, std::string_view text);
Status unknown_flags(const char *field, uint32_t unknown, Failure &why);
// XFER_EINVAL if `flags`, the field of that name, has others than the known ones.
inline Status check_flags(const char *field, uint32_t flags, uint32_t known, Failure &why) {
    return flags & ~known ? unknown_flags(field, flags & ~known, why) : XFER_OK;
}
// A region's name: 1 to 255 bytes of UTF-8.
Status check_name(const char *field, const char *name, Failure &why);

}  // namespace xfer
