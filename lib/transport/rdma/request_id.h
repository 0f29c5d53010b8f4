// SPDX-License-Identifier: Apache-2.0
// The wr_id of what is posted: which queue it was posted to, and which of its requests it is. The
// kinds share no value, and 0, which drivers report for what nobody named, is none of them.
#pragma once

#include <cstdint>
#include <optional>

namespace xfer::rdma {

struct RequestId {
    enum class Kind : uint8_t {
        send = 1,   // a request of a chain
        drain = 2,  // the last one of a queue pair in ERR: it is flushed when all others are
        receive = 3,
    };
    // Queues are numbered from 1 by the completion queue that tells of them. What is told of a
    // queue that is gone meets no other: a number is used again after 2^24 queues at the earliest.
    static constexpr uint32_t kQueues = uint32_t{1} << 24;

    Kind kind{};
    uint32_t queue = 0;
    uint32_t sequence = 0;  // of the request in its queue, modulo 2^32; of a receive, its buffer

    bool operator==(const RequestId &) const = default;
};

constexpr uint64_t encode(const RequestId &id) {
    return static_cast<uint64_t>(id.kind) << 56 | static_cast<uint64_t>(id.queue) << 32 |
           id.sequence;
}

// Nothing: no request of ours has it.
constexpr std::optional<RequestId> decode_request_id(uint64_t wr_id) {
    const auto kind = static_cast<RequestId::Kind>(wr_id >> 56);
    if (kind < RequestId::Kind::send || kind > RequestId::Kind::receive) return std::nullopt;
    const auto queue = static_cast<uint32_t>(wr_id >> 32) & (RequestId::kQueues - 1);
    if (queue == 0) return std::nullopt;
    return RequestId{kind, queue, static_cast<uint32_t>(wr_id)};
}

}  // namespace xfer::rdma
