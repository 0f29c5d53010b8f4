/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver of devices that there are none of, so that memory of a kind that nothing serves can be
 * had everywhere. It goes by the name of CUDA's, and is loaded before that would be. */
#include <stddef.h>
#include <stdint.h>

enum { kMemoryType = 2, kDeviceMemory = 2, kUnknown = 1 };

static uintptr_t begin;
static size_t length;

void driver_has(const void *address, size_t size);
void driver_has(const void *address, size_t size) {
    begin = (uintptr_t)address;
    length = size;
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer);
int cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer) {
    if (pointer - begin >= length) return kUnknown;
    *(unsigned *)value = attribute == kMemoryType ? kDeviceMemory : 0;
    return 0;
}
