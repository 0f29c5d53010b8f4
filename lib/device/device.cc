// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include "device/cuda.h"
#include "xfer/xfer.h"

namespace xfer {
namespace {

class HostOnly final : public Device {
public:
    uint32_t kind_of(const void *, uint64_t) const override { return XFER_MEM_HOST; }
};

}  // namespace

std::unique_ptr<Device> make_device() {
    CudaTable table;
    if (load_cuda(table)) return std::make_unique<CudaDevice>(table);
    return std::make_unique<HostOnly>();
}

}  // namespace xfer
