// SPDX-License-Identifier: Apache-2.0
// Errors are values: a Status where the number says all, a Failure where a person will read it.
// Neither needs memory.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "util/check.h"
#include "util/text.h"
#include "xfer/xfer.h"

namespace xfer {

using Status = xfer_status_t;

struct Failure {
    Status status = XFER_OK;
    uint32_t origin = XFER_ORIGIN_NONE;
    int32_t native = 0;
    Text message;
};

// The failure of what could not have memory.
inline Failure no_memory() {
    return {XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "no memory"};
}

// The status that stands for an errno of socket, memory and descriptor calls.
Status status_of_errno(int error);

// "what: strerror" with the errno kept as the native code.
Failure os_failure(int error, Text what);

template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(const Failure &failure) : state_(std::in_place_index<1>, failure) {
        XFER_CHECK(error().status != XFER_OK);
    }
    explicit operator bool() const { return state_.index() == 0; }
    T &operator*() { return *operator->(); }
    T *operator->() {
        T *value = std::get_if<0>(&state_);
        XFER_CHECK(value);
        return value;
    }
    const Failure &error() const {
        const Failure *failure = std::get_if<1>(&state_);
        XFER_CHECK(failure);
        return *failure;
    }

private:
    std::variant<T, Failure> state_;
};

}  // namespace xfer
