// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/port_state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "transport/rdma/gid.h"

namespace xfer::rdma {

namespace {

constexpr uint16_t kFullMember = 0x8000;  // of a partition: the top bit of its key
constexpr size_t kGids = 256;             // as an address handle has 8 bits for the index
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;  // by the specification of InfiniBand

const char *name_of(ibv_port_state state) {
    switch (state) {
    case IBV_PORT_DOWN:
        return "DOWN";
    case IBV_PORT_INIT:
        return "INIT: no subnet manager has configured it";
    case IBV_PORT_ARMED:
        return "ARMED";
    case IBV_PORT_ACTIVE_DEFER:
        return "ACTIVE_DEFER";
    default:
        return "in no known state";
    }
}

Failure refused(Status status, Text why) {
    return {status, XFER_ORIGIN_VERBS, 0, why};
}

// Of the bits of the port's attributes; each speed is one bit.
uint64_t bits_per_second(uint8_t width, uint8_t speed) {
    static constexpr std::array<uint64_t, 8> kTenthsOfGigabit = {25,  50,  100, 100,
                                                                 140, 250, 500, 1000};
    static constexpr struct {
        uint8_t bit;
        uint64_t lanes;
    } kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    for (const auto &[bit, lanes] : kWidths)
        for (size_t i = 0; i < kTenthsOfGigabit.size(); ++i)
            if (width == bit && speed == 1 << i) return lanes * kTenthsOfGigabit[i] * 100'000'000;
    return 0;
}

Result<ibv_gid_entry> query_gid(const Verbs &verbs, ibv_context *context, uint8_t port,
                                LinkLayer layer, int size, std::optional<uint8_t> wanted) {
    std::array<ibv_gid_entry, kGids> table;
    size_t count = 0;
    int error = 0;
    for (uint32_t i = 0; i < std::min<uint32_t>(std::max(size, 0), kGids); ++i) {
        ibv_gid_entry &entry = table[count] = {};
        const int result = verbs.query_gid_ex(context, port, i, &entry, 0, sizeof entry);
        if (!result)
            ++count;
        else if (verbs_errno(result) != ENODATA)  // that is an empty entry
            error = verbs_errno(result);
    }
    Result<ibv_gid_entry> found = choose_gid({table.data(), count}, layer, wanted);
    if (!found && error) return verbs_failure(error, "its GID table can't be read");
    return found;
}

// A limited member of a partition can't speak with another one, so the first full membership.
Result<uint16_t> query_pkey_index(const Verbs &verbs, ibv_context *context, uint8_t port,
                                  uint16_t size) {
    std::optional<uint16_t> limited;
    for (uint16_t i = 0; i < size; ++i) {
        __be16 key = 0;
        if (const int result = verbs.query_pkey(context, port, i, &key))
            return verbs_failure(verbs_errno(result), "its partition keys can't be read");
        const uint16_t value = be16toh(key);
        if (value & kFullMember) return i;
        if (value && !limited) limited = i;
    }
    if (!limited) return refused(XFER_EADDR, "it is in no partition");
    return *limited;
}

Result<PortState> infiniband_state(const Verbs &verbs, ibv_context *context, uint8_t number,
                                   const ibv_port_attr &port, std::optional<uint8_t> wanted) {
    PortState state;
    state.address.layer = LinkLayer::infiniband;
    if (!port.lid) return refused(XFER_EADDR, "it has no LID: no subnet manager has given one");
    state.address.lid = port.lid;
    auto pkey = query_pkey_index(verbs, context, number, port.pkey_tbl_len);
    if (!pkey) return pkey.error();
    state.pkey_index = *pkey;
    auto gid = query_gid(verbs, context, number, LinkLayer::infiniband, port.gid_tbl_len, wanted);
    if (!gid && wanted) return gid.error();
    if (!gid) return state;  // within a subnet the LID is enough
    state.address.gid = gid->gid;
    state.gid_index = static_cast<uint8_t>(gid->gid_index);
    return state;
}

Result<PortState> ethernet_state(const Verbs &verbs, ibv_context *context, uint8_t number,
                                 const ibv_port_attr &port, std::optional<uint8_t> wanted) {
    PortState state;
    auto gid = query_gid(verbs, context, number, LinkLayer::ethernet, port.gid_tbl_len, wanted);
    if (!gid) return gid.error();
    state.address.gid = gid->gid;
    state.gid_index = static_cast<uint8_t>(gid->gid_index);
    return state;
}

}  // namespace

Result<PortState> query_port_state(const Verbs &verbs, ibv_context *context, uint8_t number,
                                   std::optional<uint8_t> wanted) {
    ibv_port_attr port{};
    if (const int result = verbs.query_port(context, number, &port))
        return verbs_failure(verbs_errno(result), "it can't be queried");
    if (port.state != IBV_PORT_ACTIVE)
        return refused(XFER_EUNREACHABLE, Text("it is ") + name_of(port.state));
    if (port.active_mtu < IBV_MTU_256 || port.active_mtu > IBV_MTU_4096)
        return refused(XFER_EUNSUPPORTED, "its MTU is unknown: " + std::to_string(port.active_mtu));
    const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    Result<PortState> state =
        (ethernet ? ethernet_state : infiniband_state)(verbs, context, number, port, wanted);
    if (!state) return state;
    state->address.mtu = port.active_mtu;
    state->bits_per_second = bits_per_second(port.active_width, port.active_speed);
    // A driver that says nothing of it has no limit of its own.
    state->message_bytes = port.max_msg_sz ? port.max_msg_sz : kMaxMessageBytes;
    return state;
}

bool update(Port &port, const PortState &state) {
    const PortAddress &was = port.address, &is = state.address;
    const bool changed = was.layer != is.layer || was.lid != is.lid || was.mtu != is.mtu ||
                         std::memcmp(&was.gid, &is.gid, sizeof is.gid) != 0 ||
                         port.gid_index != state.gid_index || port.pkey_index != state.pkey_index;
    port.address = is;
    port.gid_index = state.gid_index;
    port.pkey_index = state.pkey_index;
    port.bits_per_second = state.bits_per_second;
    port.message_bytes = state.message_bytes;
    return changed;
}

}  // namespace xfer::rdma
