// SPDX-License-Identifier: Apache-2.0
#include "device/cuda.h"

#include <dlfcn.h>

#include "xfer/xfer.h"

namespace xfer {

// Ordinary host memory is unknown to the driver, which answers with an error. Managed memory may be
// touched by the CPU wherever it resides. A range is judged by both of its ends: an allocation is
// of one kind.
uint32_t CudaDevice::kind_of(const void *address, uint64_t length) const {
    const auto first = reinterpret_cast<unsigned long long>(address);
    for (const auto pointer : {first, first + (length ? length - 1 : 0)}) {
        unsigned type = 0;
        if (table_.cuPointerGetAttribute(&type, CudaTable::kMemoryType, pointer) != 0) continue;
        if (type != CudaTable::kDeviceMemory) continue;
        unsigned managed = 0;
        if (table_.cuPointerGetAttribute(&managed, CudaTable::kIsManaged, pointer) == 0 && managed)
            continue;
        return XFER_MEM_CUDA;
    }
    return XFER_MEM_HOST;
}

// The handle stays open: other parts of the process may hold what comes from it.
bool load_cuda(CudaTable &table) {
    void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return false;
    table.cuPointerGetAttribute = reinterpret_cast<decltype(table.cuPointerGetAttribute)>(
        ::dlsym(driver, "cuPointerGetAttribute"));
    return table.cuPointerGetAttribute != nullptr;
}

}  // namespace xfer
