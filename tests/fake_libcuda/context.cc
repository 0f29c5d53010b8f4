// SPDX-License-Identifier: Apache-2.0
// The device, and the contexts that an application has there.
#include <utility>

#include "calls.h"
#include "fake_driver.h"
#include "state.h"

namespace fake_cuda {

CUresult device_get(CUdevice *device, int ordinal) {
    ENTER("cuDeviceGet", false);
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice) {
    ENTER("cuDeviceGetAttribute", false);
    if (attribute != CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    *value = driver().concurrent;
    return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice, unsigned *flags, int *active) {
    ENTER("cuDevicePrimaryCtxGetState", false);
    *flags = 0;
    *active = driver().primary.is_there && (driver().has_primary || driver().retained > 0);
    return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext *context, CUdevice) {
    ENTER("cuDevicePrimaryCtxRetain", false);
    ++driver().retained;
    driver().begin_primary();
    *context = reinterpret_cast<CUcontext>(&driver().primary);
    return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice) {
    ENTER("cuDevicePrimaryCtxRelease", false);
    if (driver().retained == 0) die("cuDevicePrimaryCtxRelease", "no more was retained");
    --driver().retained;
    return CUDA_SUCCESS;
}

CUresult push_current(CUcontext context) {
    ENTER("cuCtxPushCurrent", false);
    auto *const pushed = reinterpret_cast<Context *>(context);
    if (!pushed->is_there) die("cuCtxPushCurrent", "the context has gone");
    current.push_back(pushed);
    return CUDA_SUCCESS;
}

// Of the primary one as long as the process is there, and of another one until its end.
CUresult context_id(CUcontext context, unsigned long long *id) {
    ENTER("cuCtxGetId", false);
    const auto *const asked = reinterpret_cast<const Context *>(context);
    if (!asked->is_there && asked != &driver().primary) die("cuCtxGetId", "the context has gone");
    *id = asked->id;
    return CUDA_SUCCESS;
}

CUresult pop_current(CUcontext *context) {
    if (in_callback) die("cuCtxPopCurrent", "called by what the driver calls");
    *context = reinterpret_cast<CUcontext>(current.empty() ? nullptr : current.back());
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    current.pop_back();
    return CUDA_SUCCESS;
}

CUresult exchange_capture_mode(CUstreamCaptureMode *mode) {
    if (in_callback) die("cuThreadExchangeStreamCaptureMode", "called by what the driver calls");
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// ---- what an application calls by its name

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return primary_retain(context, device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return primary_release(device);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    return push_current(context);
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    return pop_current(context);
}

// ---- what a test does

void fake_cuda_without_context(int without) {
    const std::lock_guard lock(driver().mutex);
    driver().has_primary = !without;
    driver().without_context = without != 0;
}

void fake_cuda_reset(void) {
    const std::lock_guard lock(driver().mutex);
    driver().end(driver().primary);
}

int fake_cuda_retained(void) {
    const std::lock_guard lock(driver().mutex);
    return driver().retained;
}

void fake_cuda_own_context(int own) {
    const std::lock_guard lock(driver().mutex);
    Driver &all = driver();
    if (all.own.is_there) all.end(all.own);
    if (own) all.own = {++all.last_context, true};
    all.has_primary = !own;
}
