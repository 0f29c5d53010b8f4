// SPDX-License-Identifier: Apache-2.0
// Which devices and ports may be used, as XFER_RDMA_DEVICES says it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/status.h"

namespace xfer::rdma {

// By default all.
struct DeviceFilter {
    struct Part {
        std::string device;
        std::optional<uint8_t> port;       // none: all of the device
        std::optional<uint8_t> gid_index;  // none: the best of the port's table
    };

    bool except = true;  // all but the parts; else only they
    std::vector<Part> parts;

    // Whether any port of the device may be used: one of which none may is not even opened.
    bool admits(std::string_view device) const;
    bool admits(std::string_view device, uint8_t port) const;
    // The last that the parts say of the port.
    std::optional<uint8_t> gid_index(std::string_view device, uint8_t port) const;
};

// Why a device or a port that is not admitted is not in use.
Failure not_admitted();

// A list of `device`, `device:port` and `device:port:gid_index` with commas between; all but those
// if `^` stands before it. Empty: all devices; `none`: none. Spaces around a part are skipped. The
// failure names the part that is wrong. May throw.
Result<DeviceFilter> parse_device_filter(std::string_view text);

}  // namespace xfer::rdma
