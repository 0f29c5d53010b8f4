// SPDX-License-Identifier: Apache-2.0
// How the driver is asked for its calls, and what a test has them say.
#include <cstring>

#include "calls.h"
#include "fake_driver.h"
#include "state.h"

namespace fake_cuda {
namespace {

using CtxGetId = CUresult (*)(CUcontext, unsigned long long *);  // of headers since 12.0
using StreamWaitValue32 = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);  // since 11.7

template <typename Function>
void *address_of(Function function) {
    void *address;
    static_assert(sizeof address == sizeof function);
    std::memcpy(&address, &function, sizeof address);
    return address;
}

struct Row {
    const char *name;
    int version;
    void *function;
};

const Row rows[] = {
    {"cuPointerGetAttributes", 7000,
     address_of<PFN_cuPointerGetAttributes_v7000>(pointer_get_attributes)},
    {"cuDeviceGet", 2000, address_of<PFN_cuDeviceGet_v2000>(device_get)},
    {"cuDeviceGetAttribute", 2000, address_of<PFN_cuDeviceGetAttribute_v2000>(device_attribute)},
    {"cuDevicePrimaryCtxGetState", 7000,
     address_of<PFN_cuDevicePrimaryCtxGetState_v7000>(primary_state)},
    {"cuDevicePrimaryCtxRetain", 7000,
     address_of<PFN_cuDevicePrimaryCtxRetain_v7000>(primary_retain)},
    {"cuDevicePrimaryCtxRelease", 11000,
     address_of<PFN_cuDevicePrimaryCtxRelease_v11000>(primary_release)},
    {"cuCtxPushCurrent", 4000, address_of<PFN_cuCtxPushCurrent_v4000>(push_current)},
    {"cuCtxPopCurrent", 4000, address_of<PFN_cuCtxPopCurrent_v4000>(pop_current)},
    {"cuCtxGetId", 12000, address_of<CtxGetId>(context_id)},
    {"cuThreadExchangeStreamCaptureMode", 10010,
     address_of<PFN_cuThreadExchangeStreamCaptureMode_v10010>(exchange_capture_mode)},
    {"cuStreamCreate", 2000, address_of<PFN_cuStreamCreate_v2000>(stream_create)},
    {"cuStreamDestroy", 4000, address_of<PFN_cuStreamDestroy_v4000>(stream_destroy)},
    {"cuStreamSynchronize", 2000, address_of<PFN_cuStreamSynchronize_v2000>(stream_synchronize)},
    {"cuEventCreate", 2000, address_of<PFN_cuEventCreate_v2000>(event_create)},
    {"cuEventDestroy", 4000, address_of<PFN_cuEventDestroy_v4000>(event_destroy)},
    {"cuEventRecord", 2000, address_of<PFN_cuEventRecord_v2000>(event_record)},
    {"cuEventSynchronize", 2000, address_of<PFN_cuEventSynchronize_v2000>(event_synchronize)},
    {"cuMemcpyDtoHAsync", 3020, address_of<PFN_cuMemcpyDtoHAsync_v3020>(copy_to_host)},
    {"cuMemcpyHtoDAsync", 3020, address_of<PFN_cuMemcpyHtoDAsync_v3020>(copy_to_device)},
#if CUDA_VERSION >= 12080
    {"cuMemcpyBatchAsync", 12080, address_of<PFN_cuMemcpyBatchAsync_v12080>(batch_copy)},
#endif
    {"cuMemHostRegister", 6050, address_of<PFN_cuMemHostRegister_v6050>(host_register)},
    {"cuMemHostGetDevicePointer", 3020,
     address_of<PFN_cuMemHostGetDevicePointer_v3020>(host_device_pointer)},
    {"cuStreamGetCtx", 9020, address_of<PFN_cuStreamGetCtx_v9020>(stream_context)},
    {"cuStreamGetCaptureInfo", 11030, address_of<PFN_cuStreamGetCaptureInfo_v11030>(capture_info)},
    {"cuLaunchHostFunc", 10000, address_of<PFN_cuLaunchHostFunc_v10000>(launch_host)},
    {"cuStreamWaitValue32", 11070, address_of<StreamWaitValue32>(wait_value)},
    {"cuUserObjectCreate", 11030, address_of<PFN_cuUserObjectCreate_v11030>(user_object_create)},
    {"cuUserObjectRelease", 11030, address_of<PFN_cuUserObjectRelease_v11030>(user_object_release)},
    {"cuGraphRetainUserObject", 11030,
     address_of<PFN_cuGraphRetainUserObject_v11030>(graph_retain)},
};

const Row *find(const char *name) {
    for (const Row &row : rows)
        if (std::strcmp(row.name, name) == 0) return &row;
    return nullptr;
}

bool lacks(const char *name) {
    const std::lock_guard lock(driver().mutex);
    return driver().lacking == name;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

// Exported by its first name, which the header gives to the second version.
#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                     cuuint64_t flags) {
    const Row *const row = find(symbol);
    if (!row || lacks(symbol) || row->version != version || flags != CU_GET_PROC_ADDRESS_DEFAULT)
        return CUDA_ERROR_NOT_FOUND;
    *function = row->function;
    return CUDA_SUCCESS;
}

// ---- what a test does

void fake_cuda_fail(const char *call, int nth, int error, int sticky) {
    const std::lock_guard lock(driver().mutex);
    Driver &all = driver();
    all.failing = call ? call : "";
    all.fails_in = nth, all.error = error, all.sticky = sticky;
    all.fails_for_good = false;
}

void fake_cuda_refuse(const char *call) {
    const std::lock_guard lock(driver().mutex);
    driver().refusing = call ? call : "";
}

void fake_cuda_lack(const char *call) {
    const std::lock_guard lock(driver().mutex);
    driver().lacking = call ? call : "";
}

unsigned fake_cuda_calls(const char *call) {
    const std::lock_guard lock(driver().mutex);
    return driver().calls[call];
}
