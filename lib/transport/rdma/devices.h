// SPDX-License-Identifier: Apache-2.0
// All adapters of this host that may be used.
#pragma once

#include <memory>
#include <vector>

#include "transport/rdma/device.h"

namespace xfer::rdma {

struct Devices {
    std::vector<std::unique_ptr<Device>> open;  // some of their ports may be down
    std::vector<LeftOut> left_out;  // with those ports, and what the filter names in vain
};

// One that fails hides no other: it is told in `left_out`. The failure is that of the list. May
// block; may throw, and nothing stays open then. Thread: any.
Result<Devices> open_devices(const Verbs &verbs, const DeviceFilter &filter);

}  // namespace xfer::rdma
