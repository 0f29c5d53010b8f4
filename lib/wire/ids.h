// SPDX-License-Identifier: Apache-2.0
// Numbers of different things are different types: none turns into another, or into a plain number,
// unless the code says so.
#pragma once

#include <cstdint>
#include <optional>

namespace xfer {

template <typename Kind>
struct Id {
    uint64_t value = 0;
    explicit operator bool() const { return value != 0; }
    friend bool operator==(Id, Id) = default;
    friend bool operator<(Id a, Id b) { return a.value < b.value; }
};

using RegionId = Id<struct RegionKind>;    // of a region or a grant, within its engine
using MessageId = Id<struct MessageKind>;  // of a message, within its connection and direction
using MemoryId = Id<struct MemoryKind>;    // of an allocation that can be mapped, within its engine
using NotificationId = Id<struct NotificationKind>;  // within its connection and direction

// Marks the ids of grants, so that the owner can tell what was revoked from what never was, without
// remembering either.
constexpr uint64_t kGrantBit = 1ull << 62;
constexpr bool is_grant(RegionId region) {
    return region.value & kGrantBit;
}

// What a message is pulled by: a get of "region" kMessageBit | number, generation and key 0.
constexpr uint64_t kMessageBit = 1ull << 63;

// What a put, a get or the end of either is about: a region, or a message that is pulled. On the
// wire both are one number, and a region's may equal a message's but for the top bit.
class Target {
public:
    Target(RegionId region) : wire_(region.value) {}
    Target(MessageId message) : wire_(kMessageBit | message.value) {}
    static Target from_wire(uint64_t number) { return Target(number); }
    uint64_t wire() const { return wire_; }
    std::optional<RegionId> region() const {
        if (wire_ & kMessageBit) return std::nullopt;
        return RegionId{wire_};
    }
    std::optional<MessageId> message() const {
        if (!(wire_ & kMessageBit)) return std::nullopt;
        return MessageId{wire_ & ~kMessageBit};
    }
    friend bool operator==(Target, Target) = default;

private:
    explicit Target(uint64_t wire) : wire_(wire) {}
    uint64_t wire_;
};

}  // namespace xfer
