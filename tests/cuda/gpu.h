/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver as an application has it, opened at run time: these programs run, and are
 * skipped, where there is none. */
#ifndef XFER_TESTS_CUDA_GPU_H
#define XFER_TESTS_CUDA_GPU_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_CALLS(X)                 \
    X(cuInit)                        \
    X(cuGetErrorName)                \
    X(cuDeviceGet)                   \
    X(cuDevicePrimaryCtxRetain)      \
    X(cuCtxGetCurrent)               \
    X(cuCtxDestroy)                  \
    X(cuCtxSetCurrent)               \
    X(cuCtxSynchronize)              \
    X(cuMemAlloc)                    \
    X(cuMemFree)                     \
    X(cuMemAllocManaged)             \
    X(cuMemHostAlloc)                \
    X(cuMemFreeHost)                 \
    X(cuMemHostRegister)             \
    X(cuMemHostUnregister)           \
    X(cuMemAllocAsync)               \
    X(cuMemFreeAsync)                \
    X(cuStreamSynchronize)           \
    X(cuMemsetD8)                    \
    X(cuMemcpyDtoH)                  \
    X(cuMemcpyHtoD)                  \
    X(cuMemCreate)                   \
    X(cuMemRelease)                  \
    X(cuMemAddressReserve)           \
    X(cuMemAddressFree)              \
    X(cuMemMap)                      \
    X(cuMemUnmap)                    \
    X(cuMemSetAccess)                \
    X(cuMemGetAllocationGranularity) \
    X(cuIpcGetMemHandle)             \
    X(cuIpcOpenMemHandle)            \
    X(cuIpcCloseMemHandle)           \
    X(cuPointerGetAttributes)        \
    X(cuModuleLoadData)              \
    X(cuModuleGetFunction)           \
    X(cuLaunchKernel)

/* Those of batches on streams: older drivers have not all of them. */
#define GPU_STREAM_CALLS(X)        \
    X(cuDeviceGetCount)            \
    X(cuStreamCreate)              \
    X(cuStreamDestroy)             \
    X(cuStreamQuery)               \
    X(cuMemsetD8Async)             \
    X(cuMemcpyDtoDAsync)           \
    X(cuMemcpyAsync)               \
    X(cuMemHostGetDevicePointer)   \
    X(cuLaunchHostFunc)            \
    X(cuStreamWaitValue32)         \
    X(cuStreamBeginCapture)        \
    X(cuStreamEndCapture)          \
    X(cuGraphInstantiateWithFlags) \
    X(cuGraphLaunch)               \
    X(cuGraphDestroy)              \
    X(cuGraphExecDestroy)

typedef struct Gpu {
#ifdef __cplusplus
#define GPU_FIELD(call) decltype(&::call) call;
#else
#define GPU_FIELD(call) __typeof__(&call) call;
#endif
    GPU_CALLS(GPU_FIELD)
    GPU_STREAM_CALLS(GPU_FIELD) /* NULL before gpu_open_streams */
#undef GPU_FIELD
    CUcontext context; /* the primary one of device 0 */
} Gpu;

extern Gpu gpu;

/* Initialises the driver, once, and makes the context current in this thread. Why there is no GPU,
 * or NULL. */
const char *gpu_open(void);
/* The same, with the calls of streams. */
const char *gpu_open_streams(void);

/* Ends the program with a word about what failed. */
#define GPU(call) gpu_check(gpu.call, #call, __FILE__, __LINE__)
void gpu_check(CUresult result, const char *call, const char *file, int line);

/* Another context of device 0, current in this thread. */
CUcontext gpu_context(void);

/* Memory of device 0, by cuMemCreate: `mappings` beside each other, each of *size bytes, in a
 * reservation with room for one more. */
CUdeviceptr gpu_map(int mappings, size_t *size);
void gpu_unmap(CUdeviceptr reserved, int mappings, size_t size);

#ifdef __cplusplus
}
#endif
#endif
