// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <fmt/format.h>

#ifdef XFER_WITH_CUDA
#include "device/cuda.h"
#endif

namespace xfer {

Text name_of(const Memory &memory) {
    switch (memory.origin) {
    case Memory::Origin::plain:
        return "host memory";
    case Memory::Origin::pinned:
        return "pinned host memory";
    case Memory::Origin::managed:
        return "managed memory";
    case Memory::Origin::allocated:
    case Memory::Origin::pooled:
        return fmt::format("memory of CUDA device {}", memory.device);
    case Memory::Origin::imported:
        return fmt::format("memory of CUDA device {}, imported from another process",
                           memory.device);
    case Memory::Origin::mapped:
        return fmt::format("memory of CUDA device {}, mapped by cuMemMap", memory.device);
    }
    return {};
}

std::unique_ptr<Device> make_device() {
#ifdef XFER_WITH_CUDA
    CudaTable table;
    if (load_cuda(table)) return std::make_unique<CudaDevice>(table);
#endif
    return nullptr;
}

}  // namespace xfer
