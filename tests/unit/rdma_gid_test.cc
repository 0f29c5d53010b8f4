// SPDX-License-Identifier: Apache-2.0
// The GID that a port's queue pairs use, and the filter of devices, ports and GIDs.
#include "transport/rdma/gid.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fake_rdma_devices.h"
#include "transport/rdma/device_filter.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr auto kIb = IBV_GID_TYPE_IB;
constexpr auto kV1 = IBV_GID_TYPE_ROCE_V1, kV2 = IBV_GID_TYPE_ROCE_V2;
constexpr auto kInfiniband = LinkLayer::infiniband, kEthernet = LinkLayer::ethernet;
constexpr const char *kIpv4 = "::ffff:192.0.2.7", *kIpv6 = "2001:db8::7", *kLocal = "fe80::7";
constexpr int kNone = -1;

struct Row {
    const char *name;
    LinkLayer layer;
    std::vector<ibv_gid_entry> table;
    int index;
    std::optional<uint8_t> wanted = {};
};

const std::vector<ibv_gid_entry> kUsual = {
    make_gid(0, kV1, kLocal), make_gid(1, kV2, kLocal), make_gid(2, kV1, kIpv4),
    make_gid(3, kV2, kIpv4),  make_gid(4, kV1, kIpv6),  make_gid(5, kV2, kIpv6),
};

const std::vector<Row> kTable = {
    {"as drivers of RoCE have it", kEthernet, kUsual, 3},
    {"IPv6 alone", kEthernet, {make_gid(1, kV2, kLocal), make_gid(5, kV2, kIpv6)}, 5},
    {"unique local IPv6 is routed, too",
     kEthernet,
     {make_gid(0, kV2, kLocal), make_gid(1, kV2, "fd00::7")},
     1},
    {"the link's own, up to the last bit of its prefix",
     kEthernet,
     {make_gid(0, kV2, "febf::1"), make_gid(1, kV2, "fec0::1")},
     1},
    {"nothing but what is valid on the link", kEthernet, {make_gid(9, kV2, kLocal)}, 9},
    {"v2 on the link before v1 with IPv4",
     kEthernet,
     {make_gid(0, kV1, kIpv4), make_gid(1, kV2, kLocal)},
     1},
    {"v1 alone, IPv4 first", kEthernet, {make_gid(0, kV1, kLocal), make_gid(2, kV1, kIpv4)}, 2},
    {"of equals the lowest index, whatever the order",
     kEthernet,
     {make_gid(7, kV2, kIpv4), make_gid(3, kV2, "::ffff:192.0.2.8"), make_gid(5, kV2, kIpv4)},
     3},
    {"almost IPv4 is IPv6",
     kEthernet,
     {make_gid(0, kV2, "::fffe:192.0.2.7"), make_gid(1, kV2, "1::ffff:192.0.2.7"),
      make_gid(4, kV2, "::feff:192.0.2.7"), make_gid(5, kV2, kIpv4)},
     5},
    {"zeros are no address", kEthernet, {make_gid(0, kV2, "::"), make_gid(1, kV1, kLocal)}, 1},
    {"iWARP has none of RoCE", kEthernet, {make_gid(0, kIb, kLocal)}, kNone},
    {"an empty table", kEthernet, {}, kNone},
    {"what is wanted, though there are better", kEthernet, kUsual, 0, 0},
    {"what is wanted is empty", kEthernet, kUsual, kNone, 6},
    {"what is wanted is of another kind", kEthernet, {make_gid(0, kIb, kIpv4)}, kNone, 0},
    {"InfiniBand: the first, whatever its prefix",
     kInfiniband,
     {make_gid(1, kIb, kIpv6), make_gid(0, kIb, kLocal)},
     0},
    {"InfiniBand: what is wanted",
     kInfiniband,
     {make_gid(0, kIb, kLocal), make_gid(1, kIb, kIpv6)},
     1,
     1},
    {"InfiniBand has no RoCE", kInfiniband, {make_gid(0, kV2, kIpv4)}, kNone},
};

std::string text_of(const DeviceFilter &filter) {
    std::string text = filter.except ? "^" : "";
    for (const auto &[device, port, gid_index] : filter.parts) {
        text += device;
        if (port) text += ":" + std::to_string(*port);
        if (gid_index) text += ":" + std::to_string(*gid_index);
        text += ",";
    }
    return text;
}

}  // namespace

TEST_CASE("the GID of a port is that of the table") {
    for (const Row &row : kTable) {
        CAPTURE(std::string(row.name));
        auto found = choose_gid(row.table, row.layer, row.wanted);
        CHECK((found ? static_cast<int>(found->gid_index) : kNone) == row.index);
        if (!found) {
            CHECK(found.error().status == XFER_EADDR);
            CHECK(found.error().message.size() > 0);
        } else {
            const auto same = std::find_if(row.table.begin(), row.table.end(), [&](const auto &e) {
                return e.gid_index == found->gid_index;
            });
            CHECK(std::equal(same->gid.raw, same->gid.raw + 16, found->gid.raw));
        }
    }
    CHECK(std::string(choose_gid(kUsual, kEthernet, 6).error().message.c_str()) ==
          "no RoCE GID at index 6");
}

TEST_CASE("a filter of devices is read") {
    const struct {
        const char *text, *read;  // with a comma behind each part
    } rows[] = {
        {"", "^"},
        {"  ", "^"},
        {"none", ""},
        {" none ", ""},
        {"mlx5_0", "mlx5_0,"},
        {"mlx5_0:1", "mlx5_0:1,"},
        {"mlx5_0:255:0", "mlx5_0:255:0,"},
        {" rocep1s0f0:2:255 , bnxt-re.1", "rocep1s0f0:2:255,bnxt-re.1,"},
        {"^mlx5_0,mlx5_1:2", "^mlx5_0,mlx5_1:2,"},
        {"^ mlx5_0", "^mlx5_0,"},
        {"nonesuch", "nonesuch,"},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.text));
        auto filter = parse_device_filter(row.text);
        REQUIRE(filter);
        CHECK(text_of(*filter) == row.read);
    }
}

TEST_CASE("a filter that is wrong is refused, and its part is named") {
    const struct {
        const char *text, *part, *why;
    } rows[] = {
        {"^", "``", "the name of a device"},
        {",", "``", "the name of a device"},
        {"mlx5_0,", "``", "the name of a device"},
        {"mlx5_0,,mlx5_1", "``", "the name of a device"},
        {"mlx5_0, :1", "`:1`", "the name of a device"},
        {"mlx5_0,mlx5 1", "`mlx5 1`", "the name of a device"},
        {"mlx5_0,^mlx5_1", "`^mlx5_1`", "the name of a device"},
        {"^^mlx5_1", "`^mlx5_1`", "the name of a device"},
        {"mlx5_0:", "`mlx5_0:`", "the port"},
        {"mlx5_0:0", "`mlx5_0:0`", "the port"},
        {"mlx5_0:256", "`mlx5_0:256`", "the port"},
        {"mlx5_0:1x", "`mlx5_0:1x`", "the port"},
        {"mlx5_0:-1", "`mlx5_0:-1`", "the port"},
        {"mlx5_0: 1", "`mlx5_0: 1`", "the port"},
        {"a,mlx5_0:1:", "`mlx5_0:1:`", "the GID index"},
        {"mlx5_0:1:256", "`mlx5_0:1:256`", "the GID index"},
        {"mlx5_0:1:+3", "`mlx5_0:1:+3`", "the GID index"},
        {"mlx5_0:1:3:", "`mlx5_0:1:3:`", "nothing follows"},
        {"^mlx5_0:1:3", "`mlx5_0:1:3`", "no GID index"},
        {"none,mlx5_0", "`none`", "stands alone"},
        {"^none", "`none`", "stands alone"},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.text));
        const auto filter = parse_device_filter(row.text);
        REQUIRE_FALSE(filter);
        CHECK(filter.error().status == XFER_EINVAL);
        const std::string message = filter.error().message.c_str();
        CAPTURE(message);
        CHECK(message.find(row.part) != message.npos);
        CHECK(message.find(row.why) != message.npos);
    }
    const auto filter = parse_device_filter(std::string(1000, '?'));  // it is cut, its reason isn't
    CHECK(std::string(filter.error().message.c_str()).find("letters") != std::string::npos);
}

TEST_CASE("a filter admits devices and ports") {
    const struct {
        const char *text, *device;
        bool device_admitted, port1, port2;
        int gid1 = kNone, gid2 = kNone;
    } rows[] = {
        {"", "a", true, true, true},
        {"none", "a", false, false, false},
        {"a", "a", true, true, true},
        {"a", "ab", false, false, false},
        {"a:2", "a", true, false, true},
        {"b:1,a:2:7", "a", true, false, true, kNone, 7},
        {"a,a:2:7", "a", true, true, true, kNone, 7},
        {"a:1:3,a:1:5,a:2:5,a:2", "a", true, true, true, 5, 5},
        {"^a", "a", false, false, false},
        {"^a", "b", true, true, true},
        {"^a:1", "a", true, false, true},
        {"^a:1,a:2", "a", true, false, false},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.text));
        auto filter = parse_device_filter(row.text);
        REQUIRE(filter);
        CHECK(filter->admits(row.device) == row.device_admitted);
        CHECK(filter->admits(row.device, 1) == row.port1);
        CHECK(filter->admits(row.device, 2) == row.port2);
        const auto gid1 = filter->gid_index(row.device, 1), gid2 = filter->gid_index(row.device, 2);
        CHECK((gid1 ? *gid1 : kNone) == row.gid1);
        CHECK((gid2 ? *gid2 : kNone) == row.gid2);
    }
}
