// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened at run time so that one binary runs everywhere. Types and numbers are
// those of its own header; nothing here initialises it. To look asks for no context; who copies
// retains the primary one, and leaves the current one as it is (device/cuda_context.h).
#pragma once

#include <cudaTypedefs.h>

#include "device/device.h"

namespace xfer {

// What is called of it. A name ends with the version that is asked for.
struct CudaTable {
    PFN_cuPointerGetAttributes_v7000 cuPointerGetAttributes = nullptr;
    // For copies; all of them or none.
    PFN_cuDeviceGet_v2000 cuDeviceGet = nullptr;
    PFN_cuDevicePrimaryCtxGetState_v7000 cuDevicePrimaryCtxGetState = nullptr;
    PFN_cuDevicePrimaryCtxRetain_v7000 cuDevicePrimaryCtxRetain = nullptr;
    PFN_cuDevicePrimaryCtxRelease_v11000 cuDevicePrimaryCtxRelease = nullptr;
    PFN_cuCtxPushCurrent_v4000 cuCtxPushCurrent = nullptr;
    PFN_cuCtxPopCurrent_v4000 cuCtxPopCurrent = nullptr;
    PFN_cuThreadExchangeStreamCaptureMode_v10010 cuThreadExchangeStreamCaptureMode = nullptr;
    PFN_cuStreamCreate_v2000 cuStreamCreate = nullptr;
    PFN_cuStreamDestroy_v4000 cuStreamDestroy = nullptr;
    PFN_cuStreamSynchronize_v2000 cuStreamSynchronize = nullptr;
    PFN_cuEventCreate_v2000 cuEventCreate = nullptr;
    PFN_cuEventDestroy_v4000 cuEventDestroy = nullptr;
    PFN_cuEventRecord_v2000 cuEventRecord = nullptr;
    PFN_cuEventSynchronize_v2000 cuEventSynchronize = nullptr;
    PFN_cuMemcpyDtoHAsync_v3020 cuMemcpyDtoHAsync = nullptr;
    PFN_cuMemcpyHtoDAsync_v3020 cuMemcpyHtoDAsync = nullptr;
    PFN_cuMemHostRegister_v6050 cuMemHostRegister = nullptr;
    bool copies = false;
    PFN_cuDeviceGetAttribute_v2000 cuDeviceGetAttribute = nullptr;
    // Since 12.0, of which a header may not know yet: a context that comes at the address of
    // another one has another number. Null in older drivers.
    CUresult(CUDAAPI *cuCtxGetId)(CUcontext, unsigned long long *) = nullptr;
    // Where a driver, or the header that this was built with, is older than 12.8: one copy a call.
#if CUDA_VERSION >= 12080
    PFN_cuMemcpyBatchAsync_v12080 cuMemcpyBatchAsync = nullptr;
#endif
    bool batches = false;
    // For calls into streams; all of them or none. The wait for memory in its version of 11.7, as
    // before that no graph has it.
    PFN_cuStreamGetCtx_v9020 cuStreamGetCtx = nullptr;
    PFN_cuStreamGetCaptureInfo_v11030 cuStreamGetCaptureInfo = nullptr;
    PFN_cuLaunchHostFunc_v10000 cuLaunchHostFunc = nullptr;
    CUresult(CUDAAPI *cuStreamWaitValue32)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
    PFN_cuMemHostGetDevicePointer_v3020 cuMemHostGetDevicePointer = nullptr;
    PFN_cuUserObjectCreate_v11030 cuUserObjectCreate = nullptr;
    PFN_cuUserObjectRelease_v11030 cuUserObjectRelease = nullptr;
    PFN_cuGraphRetainUserObject_v11030 cuGraphRetainUserObject = nullptr;
    bool stream_calls = false;
};

class CudaDevice final : public Device {
public:
    explicit CudaDevice(const CudaTable &table) : table_(table) {}
    Status look(const void *address, uint64_t length, Memory &memory, Failure &why) const override;
    bool copies() const override { return table_.copies; }
    std::shared_ptr<CopyStreams> open_streams(int32_t number, uint64_t address, uint32_t marks,
                                              int32_t &error) const override;
    std::unique_ptr<StreamEntry> enter_stream(void *stream) const override;

private:
    bool is_of_host(const Memory &found) const;

    const CudaTable table_;
};

// False if the driver is not installed, or older than 11.3. One that lacks something of what copies
// take still tells what memory is.
bool load_cuda(CudaTable &table);

}  // namespace xfer
