// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened at run time so that one binary runs everywhere. Types and numbers are
// those of its own header; nothing here initialises it, or asks for or changes a context.
#pragma once

#include <cudaTypedefs.h>

#include "device/device.h"

namespace xfer {

// What is called of it. A name ends with the version that is asked for.
struct CudaTable {
    PFN_cuPointerGetAttributes_v7000 cuPointerGetAttributes = nullptr;
};

class CudaDevice final : public Device {
public:
    explicit CudaDevice(const CudaTable &table) : table_(table) {}
    Status look(const void *address, uint64_t length, Memory &memory, Failure &why) const override;

private:
    const CudaTable table_;
};

// False if the driver is not installed, or older than 11.3.
bool load_cuda(CudaTable &table);

}  // namespace xfer
