// SPDX-License-Identifier: Apache-2.0
// Many copies of one chunk in one call of the driver (cuMemcpyBatchAsync, since 12.8), which takes
// a sixth of what a call for each takes (design/0051). It promises no order among them. Thread: one
// at a time.
#pragma once

#include <span>
#include <vector>

#include "device/copy_streams.h"
#include "device/cuda.h"

namespace xfer {

class CudaBatch {
public:
    // Between these ranges and as many bytes at `host`. False: they have to go one by one, since
    // two of their destinations overlap, or memory lacks.
    bool fill(CopyStreams::Way way, std::span<const DeviceRange> ranges, const uint8_t *host);
    // What was filled in. Where it fails, some of the copies may have begun.
    CUresult begin(const CudaTable &table, CUdevice device, CUstream stream);

private:
    bool overlap(std::span<const DeviceRange> ranges);

    CopyStreams::Way way_ = CopyStreams::Way::to_host;
    std::vector<CUdeviceptr> to_, from_;
    std::vector<size_t> lengths_;
    std::vector<DeviceRange> sorted_;
};

}  // namespace xfer
