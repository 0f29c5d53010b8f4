// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/export_key.h"

namespace xfer::rdma {

namespace {

constexpr uint8_t kKeyVersion = 1;
// version, number of keys, zero (2); access (4), base (8), length (8), bytes of a part (8); keys.
constexpr size_t kKeyHeader = 32;
static_assert(kKeyHeader + kMaxParts * sizeof(uint32_t) == kMaxExportKey);

uint64_t parts_of(const RegionKeys &region) {
    return (region.length - 1) / region.part_bytes + 1;
}

}  // namespace

ExportKey encode(const RegionKeys &region) {
    uint8_t bytes[kMaxExportKey] = {kKeyVersion, static_cast<uint8_t>(region.keys.size())};
    store<uint32_t>(bytes + 4, region.access);
    store<uint64_t>(bytes + 8, region.base);
    store<uint64_t>(bytes + 16, region.length);
    store<uint64_t>(bytes + 24, region.part_bytes);
    size_t size = kKeyHeader;
    for (const uint32_t key : region.keys) {
        store<uint32_t>(bytes + size, key);
        size += sizeof key;
    }
    ExportKey out;
    for (size_t i = 0; i < size; ++i)
        out.push_back(bytes[i]);
    return out;
}

std::optional<RegionKeys> decode_region_keys(ConstBytes bytes) {
    if (bytes.size() < kKeyHeader || bytes[0] != kKeyVersion || bytes[1] > kMaxParts)
        return std::nullopt;
    if (bytes[2] || bytes[3]) return std::nullopt;
    if (bytes.size() != kKeyHeader + bytes[1] * sizeof(uint32_t)) return std::nullopt;
    RegionKeys region;
    region.access = load<uint32_t>(&bytes[4]);
    region.base = load<uint64_t>(&bytes[8]);
    region.length = load<uint64_t>(&bytes[16]);
    region.part_bytes = load<uint64_t>(&bytes[24]);
    if (region.access & ~(XFER_READ | XFER_WRITE | XFER_ATOMIC)) return std::nullopt;
    if (region.length == 0 || region.part_bytes == 0) return std::nullopt;
    if (region.length - 1 > UINT64_MAX - region.base) return std::nullopt;
    if (parts_of(region) != bytes[1]) return std::nullopt;
    for (size_t at = kKeyHeader; at < bytes.size(); at += sizeof(uint32_t))
        region.keys.push_back(load<uint32_t>(&bytes[at]));
    return region;
}

}  // namespace xfer::rdma
