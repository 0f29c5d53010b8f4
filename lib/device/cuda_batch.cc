// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_batch.h"

#include <algorithm>

#include "util/memory.h"

namespace xfer {

bool CudaBatch::fill(CopyStreams::Way way, std::span<const DeviceRange> ranges,
                     const uint8_t *host) {
    const bool to_host = way == CopyStreams::Way::to_host;
    bool fit = false;
    way_ = way;
    const bool had_memory = catch_bad_alloc([&] {
        to_.clear();
        from_.clear();
        lengths_.clear();
        auto near = reinterpret_cast<CUdeviceptr>(host);
        for (const DeviceRange &range : ranges) {
            to_.push_back(to_host ? near : range.address);
            from_.push_back(to_host ? range.address : near);
            lengths_.push_back(range.length);
            near += range.length;
        }
        fit = to_host || !overlap(ranges);
    });
    return had_memory && fit;
}

// An operation writes its pieces in order, so that of two at one place the later one stays.
bool CudaBatch::overlap(std::span<const DeviceRange> ranges) {
    sorted_.assign(ranges.begin(), ranges.end());
    std::sort(sorted_.begin(), sorted_.end(),
              [](const DeviceRange &a, const DeviceRange &b) { return a.address < b.address; });
    const auto reaches_next = [](const DeviceRange &a, const DeviceRange &b) {
        return b.address - a.address < a.length;
    };
    return std::adjacent_find(sorted_.begin(), sorted_.end(), reaches_next) != sorted_.end();
}

#if CUDA_VERSION >= 12080

// The hints are for memory that no driver knows: bounce memory that it did not pin.
CUresult CudaBatch::begin(const CudaTable &table, CUdevice device, CUstream stream) {
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    const bool to_host = way_ == CopyStreams::Way::to_host;
    (to_host ? attributes.dstLocHint : attributes.srcLocHint).type = CU_MEM_LOCATION_TYPE_HOST;
    CUmemLocation &far = to_host ? attributes.srcLocHint : attributes.dstLocHint;
    far.type = CU_MEM_LOCATION_TYPE_DEVICE;
    far.id = device;
    size_t first = 0, failed = 0;
    return table.cuMemcpyBatchAsync(to_.data(), from_.data(), lengths_.data(), lengths_.size(),
                                    &attributes, &first, 1, &failed, stream);
}

#else

CUresult CudaBatch::begin(const CudaTable &, CUdevice, CUstream) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

}  // namespace xfer
