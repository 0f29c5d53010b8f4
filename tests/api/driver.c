/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver of devices that there are none of, so that memory of a kind that nothing serves can be
 * had everywhere. It goes by the name of CUDA's, and is loaded before that would be. */
#include <cudaTypedefs.h>
#include <stdint.h>
#include <string.h>

static uintptr_t begin;
static size_t length;

void driver_has(const void *address, size_t size);
void driver_has(const void *address, size_t size) {
    begin = (uintptr_t)address;
    length = size;
}

static void write_attribute(CUpointer_attribute attribute, void *value) {
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(CUmemorytype *)value = CU_MEMORYTYPE_DEVICE;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)value = begin;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)value = length;
}

static CUresult get_attributes(unsigned count, CUpointer_attribute *attributes, void **values,
                               CUdeviceptr pointer) {
    if (pointer - begin < length)
        for (unsigned i = 0; i < count; i++)
            write_attribute(attributes[i], values[i]);
    return CUDA_SUCCESS;
}

/* Exported by its first name, which the header gives to the second version. */
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    const PFN_cuPointerGetAttributes_v7000 found = get_attributes;
    if (flags != CU_GET_PROC_ADDRESS_DEFAULT || version != 7000 ||
        strcmp(symbol, "cuPointerGetAttributes") != 0)
        return CUDA_ERROR_NOT_FOUND;
    memcpy(function, &found, sizeof found);
    return CUDA_SUCCESS;
}
