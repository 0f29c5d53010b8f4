// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver that tells what a pointer is, opened at run time so that one binary
// runs everywhere.
#pragma once

#include "device/device.h"

namespace xfer {

// Named and numbered as in cuda.h.
struct CudaTable {
    int (*cuPointerGetAttribute)(void *data, int attribute, unsigned long long pointer) = nullptr;

    static constexpr int kMemoryType = 2, kIsManaged = 8;  // CU_POINTER_ATTRIBUTE_*
    static constexpr unsigned kDeviceMemory = 2;           // CU_MEMORYTYPE_DEVICE
};

class CudaDevice final : public Device {
public:
    explicit CudaDevice(const CudaTable &table) : table_(table) {}
    uint32_t kind_of(const void *address, uint64_t length) const override;

private:
    const CudaTable table_;
};

// False if the driver is not installed.
bool load_cuda(CudaTable &table);

}  // namespace xfer
