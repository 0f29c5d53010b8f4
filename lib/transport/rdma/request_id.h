// SPDX-License-Identifier: Apache-2.0
// The number of a work request (wr_id), by which its completion is known again: what kind of
// request it was, of which life of its queue pair, and which one. A completion of an earlier life,
// or of another kind, is never taken for one of this.
#pragma once

#include <cstdint>

namespace xfer::rdma {

// None is 0: a driver that fills in nothing names no request.
enum class RequestKind : uint8_t {
    chain = 1,   // of a post list: all of its requests have the same number
    marker = 2,  // behind all else, to tell that a queue has been flushed
    receive = 3,
};

struct RequestId {
    RequestKind kind{};
    uint32_t generation = 0;  // of the queue pair: 24 bits
    uint32_t index = 0;

    bool operator==(const RequestId &) const = default;
    uint64_t word() const {
        return uint64_t{static_cast<uint8_t>(kind)} << 56 | uint64_t{generation & 0xffffff} << 32 |
               index;
    }
    static RequestId of(uint64_t word) {
        return {static_cast<RequestKind>(word >> 56), static_cast<uint32_t>(word >> 32) & 0xffffff,
                static_cast<uint32_t>(word)};
    }
};

}  // namespace xfer::rdma
