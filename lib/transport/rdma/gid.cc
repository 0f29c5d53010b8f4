// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/gid.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace xfer::rdma {

namespace {

bool is_zero(const ibv_gid &gid) {
    return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t b) { return b == 0; });
}

// ::ffff:a.b.c.d
bool is_ipv4(const ibv_gid &gid) {
    return std::all_of(gid.raw, gid.raw + 10, [](uint8_t b) { return b == 0; }) &&
           gid.raw[10] == 0xff && gid.raw[11] == 0xff;
}

// fe80::/10
bool is_link_local(const ibv_gid &gid) {
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

bool serves(const ibv_gid_entry &entry, LinkLayer layer) {
    const bool infiniband = entry.gid_type == IBV_GID_TYPE_IB;
    return infiniband == (layer == LinkLayer::infiniband) && !is_zero(entry.gid);
}

// The least is the best.
std::tuple<int, int, uint32_t> rank(const ibv_gid_entry &entry, LinkLayer layer) {
    if (layer == LinkLayer::infiniband) return {0, 0, entry.gid_index};
    const int reach = is_ipv4(entry.gid) ? 0 : is_link_local(entry.gid) ? 2 : 1;
    return {entry.gid_type != IBV_GID_TYPE_ROCE_V2, reach, entry.gid_index};
}

Failure no_gid(LinkLayer layer, std::optional<uint8_t> wanted) {
    Text why = layer == LinkLayer::infiniband ? "no InfiniBand GID" : "no RoCE GID";
    if (wanted) why += " at index " + std::to_string(*wanted);
    return {XFER_EADDR, XFER_ORIGIN_VERBS, 0, why};
}

}  // namespace

Result<ibv_gid_entry> choose_gid(std::span<const ibv_gid_entry> table, LinkLayer layer,
                                 std::optional<uint8_t> wanted) {
    const ibv_gid_entry *best = nullptr;
    for (const ibv_gid_entry &entry : table) {
        if (!serves(entry, layer) || (wanted && entry.gid_index != *wanted)) continue;
        if (!best || rank(entry, layer) < rank(*best, layer)) best = &entry;
    }
    if (!best) return no_gid(layer, wanted);
    return *best;
}

}  // namespace xfer::rdma
