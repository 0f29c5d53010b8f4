// SPDX-License-Identifier: Apache-2.0
// What a peer must know of a region to reach it through its adapter, and its bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/one_sided.h"
#include "util/fixed_vector.h"
#include "wire/bytes.h"

namespace xfer::rdma {

// Keys that one export key has room for. A region in more parts goes by its owner.
constexpr size_t kMaxParts = 24;

struct RegionKeys {
    uint64_t base = 0;  // its address, as the owner has it
    uint64_t length = 0;
    uint64_t part_bytes = 0;                // of each part but the last
    uint32_t access = 0;                    // XFER_READ, XFER_WRITE, XFER_ATOMIC
    FixedVector<uint32_t, kMaxParts> keys;  // of the parts
};

ExportKey encode(const RegionKeys &region);
// Of a peer's bytes, whatever they are. Nothing: no region of an honest peer has such a key.
std::optional<RegionKeys> decode_region_keys(ConstBytes bytes);

}  // namespace xfer::rdma
