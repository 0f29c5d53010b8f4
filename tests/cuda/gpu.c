/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

Gpu gpu;
static void *driver;

#define NAME_OF(call) #call
#define NAME(call) NAME_OF(call)

#define LOAD(call)                                   \
    *(void **)&gpu.call = dlsym(driver, NAME(call)); \
    if (gpu.call == NULL) return "libcuda.so.1 has no " NAME(call);

static const char *load(void) {
    static char why[128];
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) return "no libcuda.so.1";
    GPU_CALLS(LOAD)
    CUresult result = gpu.cuInit(0);
    if (result == CUDA_SUCCESS) {
        CUdevice device;
        GPU(cuDeviceGet(&device, 0));
        GPU(cuDevicePrimaryCtxRetain(&gpu.context, device));
        return NULL;
    }
    snprintf(why, sizeof why, "cuInit says %d", (int)result);
    return why;
}

const char *gpu_open(void) {
    static const char *why;
    static bool tried;
    if (!tried) why = load();
    tried = true;
    if (why == NULL) GPU(cuCtxSetCurrent(gpu.context));
    return why;
}

const char *gpu_open_streams(void) {
    const char *const why = gpu_open();
    if (why != NULL) return why;
    GPU_STREAM_CALLS(LOAD)
    return NULL;
}

void gpu_check(CUresult result, const char *call, const char *file, int line) {
    const char *name = "?";
    if (result == CUDA_SUCCESS) return;
    gpu.cuGetErrorName(result, &name);
    fprintf(stderr, "%s:%d: ERROR: %s: %s\n", file, line, call, name);
    exit(1);
}

/* By the name that older drivers have, too. */
CUcontext gpu_context(void) {
    CUcontext context = NULL;
    PFN_cuCtxCreate_v3020 create;
    *(void **)&create = dlsym(driver, "cuCtxCreate_v2");
    gpu_check(create(&context, 0, 0), "cuCtxCreate", __FILE__, __LINE__);
    return context;
}

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return wanted;
}

CUdeviceptr gpu_map(int mappings, size_t *size) {
    const CUmemAllocationProp wanted = on_device();
    const CUmemAccessDesc access = {.location = wanted.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr reserved;
    GPU(cuMemGetAllocationGranularity(size, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GPU(cuMemAddressReserve(&reserved, (size_t)(mappings + 1) * *size, 0, 0, 0));
    for (int i = 0; i < mappings; i++) {
        CUmemGenericAllocationHandle memory;
        GPU(cuMemCreate(&memory, *size, &wanted, 0));
        GPU(cuMemMap(reserved + (size_t)i * *size, *size, 0, memory, 0));
        GPU(cuMemRelease(memory)); /* the mapping keeps it */
    }
    GPU(cuMemSetAccess(reserved, (size_t)mappings * *size, &access, 1));
    return reserved;
}

void gpu_unmap(CUdeviceptr reserved, int mappings, size_t size) {
    GPU(cuMemUnmap(reserved, (size_t)mappings * size));
    GPU(cuMemAddressFree(reserved, (size_t)(mappings + 1) * size));
}
