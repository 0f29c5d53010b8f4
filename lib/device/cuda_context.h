// SPDX-License-Identifier: Apache-2.0
// The context that copies of a device go by. It is the application's, which may reset or destroy it
// at any time, and have another one at the same address: what was made in it is never used or
// destroyed then, since a handle of it may be of no memory, or the application's by now. Thread:
// one at a time.
#pragma once

#include "device/cuda.h"

namespace xfer {

class CudaContext {
public:
    class Current;

    explicit CudaContext(const CudaTable &table) : cuda_(table) {}
    CudaContext(const CudaContext &) = delete;
    CudaContext &operator=(const CudaContext &) = delete;
    ~CudaContext();  // gives back what find() has retained

    // That of the device, or of its allocation at `address` (Device::open_streams).
    CUresult find(int32_t number, uint64_t address);
    // False: what is at `address` is of another one that is not retained.
    bool serves(uint64_t address);
    // False: it was reset or destroyed, as far as the driver tells.
    bool is_there() const;

    CUdevice device() const { return device_; }

private:
    CUresult retain_primary();
    CUcontext context_of(uint64_t address) const;
    bool is_reset() const;
    bool is_another() const;

    const CudaTable &cuda_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    bool retained_ = false;      // it is the primary one
    uint64_t witness_ = 0;       // where it is not: an address that was of it
    unsigned long long id_ = 0;  // 0: the driver does not number contexts
};

// Current in this thread for as long as it is there. A graph that another thread of the application
// captures meanwhile neither refuses our calls nor is broken by them.
class CudaContext::Current {
public:
    explicit Current(const CudaContext &context);
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
    ~Current();

private:
    const CudaTable &cuda_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;

public:
    const CUresult result;
};

}  // namespace xfer
