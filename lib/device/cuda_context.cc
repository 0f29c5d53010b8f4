// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_context.h"

namespace xfer {

// A reset ends the context, and not what was retained of it (CUDA driver API,
// cuDevicePrimaryCtxReset).
CudaContext::~CudaContext() {
    if (retained_) cuda_.cuDevicePrimaryCtxRelease(device_);
}

CUresult CudaContext::find(int32_t number, uint64_t address) {
    unsigned flags = 0;
    int active = 0;
    if (const CUresult result = cuda_.cuDeviceGet(&device_, number)) return result;
    if (const CUresult result = cuda_.cuDevicePrimaryCtxGetState(device_, &flags, &active))
        return result;
    if (!active) context_ = context_of(address);
    witness_ = address;
    if (!context_)
        if (const CUresult result = retain_primary()) return result;
    const bool numbered = cuda_.cuCtxGetId && cuda_.cuCtxGetId(context_, &id_) == CUDA_SUCCESS;
    if (!numbered) id_ = 0;
    return CUDA_SUCCESS;
}

// Memory of a pool, and what cuMemMap has mapped, is of the device and of no context. Where the
// application has none but its own, the primary one is made, which takes a worker a while.
CUresult CudaContext::retain_primary() {
    const CUresult result = cuda_.cuDevicePrimaryCtxRetain(&context_, device_);
    retained_ = result == CUDA_SUCCESS;
    return result;
}

// Null: of none, or the driver can't tell.
CUcontext CudaContext::context_of(uint64_t address) const {
    CUcontext context = nullptr;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT};
    void *answers[] = {&context};
    const CUresult result = cuda_.cuPointerGetAttributes(1, asked, answers, address);
    return result == CUDA_SUCCESS ? context : nullptr;
}

bool CudaContext::serves(uint64_t address) {
    if (retained_) return true;
    if (context_of(address) != context_) return false;
    witness_ = address;
    return true;
}

// One that is not retained may be asked about only as long as memory of it shows that it is there.
bool CudaContext::is_there() const {
    if (!context_) return false;
    const bool shown = retained_ ? !is_reset() : context_of(witness_) == context_;
    return shown && !is_another();
}

// What is retained is active, unless it was reset.
bool CudaContext::is_reset() const {
    unsigned flags = 0;
    int active = 1;
    const CUresult result = cuda_.cuDevicePrimaryCtxGetState(device_, &flags, &active);
    return result == CUDA_SUCCESS && !active;
}

// The primary one keeps its address for good, and has another number after each reset.
bool CudaContext::is_another() const {
    unsigned long long now = id_;
    if (!id_) return false;
    const CUresult result = cuda_.cuCtxGetId(context_, &now);
    return now != id_ || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CudaContext::Current::Current(const CudaContext &context)
    : cuda_(context.cuda_),
      result(context.is_there() ? cuda_.cuCtxPushCurrent(context.context_)
                                : CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    if (result == CUDA_SUCCESS) cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
}

CudaContext::Current::~Current() {
    CUcontext popped;
    if (result != CUDA_SUCCESS) return;
    cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
    cuda_.cuCtxPopCurrent(&popped);
}

}  // namespace xfer
