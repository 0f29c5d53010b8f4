// SPDX-License-Identifier: Apache-2.0
// What neighbours send for each other's regions: the key of a region, through the rings, and the
// descriptor of an allocation that can be mapped, by the rendezvous socket, before the first key
// that names it. Numbers are as the host has them: it is one host.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "transport/one_sided.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/ids.h"
#include "xfer/xfer.h"

namespace xfer::shm {

// What a region allows that takes a mapping which may be written. Who may do atomics can give each
// aligned word any value by them: such a mapping lets it do no more than that.
constexpr uint64_t kChanges = XFER_WRITE | XFER_ATOMIC;

// An allocation as a neighbour maps it: for reading, or for both.
using MappingId = Id<struct MappingKind>;
inline MappingId mapping_of(MemoryId memory, bool writable) {
    return {memory.value << 1 | (writable ? 1 : 0)};
}

struct RegionKey {
    uint64_t slot = 0, stamp = 0;
    uint64_t base = 0, length = 0, access = 0;
    uint64_t mapping = 0, offset = 0;  // where it lies; 0: in nothing that can be mapped
};

inline ExportKey encode(const RegionKey &key) {
    static_assert(sizeof key <= kMaxExportKey);
    uint8_t bytes[sizeof key];
    std::memcpy(bytes, &key, sizeof key);
    ExportKey out;
    for (const uint8_t byte : bytes)
        out.push_back(byte);
    return out;
}

inline std::optional<RegionKey> decode_region_key(ConstBytes bytes) {
    RegionKey key;
    if (bytes.size() != sizeof key) return std::nullopt;
    std::memcpy(&key, bytes.data(), sizeof key);
    return key;
}

// The packet that a descriptor comes with.
inline std::optional<MappingId> decode_mapping(ConstBytes bytes) {
    MappingId mapping;
    if (bytes.size() != sizeof mapping.value) return std::nullopt;
    std::memcpy(&mapping.value, bytes.data(), sizeof mapping.value);
    return mapping;
}

// An initiator that leaves before it has the rings says its bye by the socket.
inline std::optional<Frame> decode_bye(ConstBytes bytes) {
    if (bytes.size() != Frame::kSize) return std::nullopt;
    auto frame = decode_frame(bytes.data());
    return frame && frame->type == FrameType::bye ? frame : std::nullopt;
}

}  // namespace xfer::shm
