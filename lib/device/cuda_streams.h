// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/copy_streams.h"
#include "device/cuda.h"
#include "device/cuda_batch.h"
#include "device/cuda_context.h"

namespace xfer {

class CudaStreams final : public CopyStreams {
public:
    // Null: `error` is the driver's. Of a device whose primary context nobody has, it is not made
    // where the allocation has a context: that would take 100 ms, and memory of the device.
    static std::shared_ptr<CudaStreams> open(const CudaTable &table, int32_t number,
                                             uint64_t address, uint32_t marks, int32_t &error);
    explicit CudaStreams(const CudaTable &table) : cuda_(table) {}
    ~CudaStreams() override;

    Begun begin(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                uint32_t mark) override;
    int32_t wait(uint32_t mark) override;
    int32_t wait_all() override;
    bool pin(uint8_t *host, uint64_t length) override;

private:
    CUresult make(uint32_t marks);
    CUresult begin_all(Way way, std::span<const DeviceRange> ranges, uint8_t *host, bool &any);
    CUresult begin_each(Way way, std::span<const DeviceRange> ranges, uint8_t *host, bool &any);
    CUresult copy(Way way, const DeviceRange &range, uint8_t *host) const;
    CUstream stream(Way way) const { return streams_[static_cast<size_t>(way)]; }

    const CudaTable cuda_;
    CudaContext context_{cuda_};
    CUstream streams_[2] = {};  // by Way
    std::vector<CUevent> marks_;
    CudaBatch batch_;
    static constexpr uint32_t kMaxRefusals = 3;
    uint32_t refusals_ = cuda_.batches ? 0 : kMaxRefusals;  // of batches, one after the other
};

}  // namespace xfer
