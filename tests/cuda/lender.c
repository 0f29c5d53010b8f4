/* SPDX-License-Identifier: Apache-2.0
 *
 * Another process with device memory: writes a handle of it (cuIpcGetMemHandle) to its output, and
 * keeps it until its input ends. */
#include <unistd.h>

#include "gpu.h"

int main(void) {
    CUdeviceptr memory;
    CUipcMemHandle handle;
    char byte;
    if (gpu_open() != NULL) return 1;
    GPU(cuMemAlloc(&memory, 4 << 20));
    GPU(cuIpcGetMemHandle(&handle, memory));
    if (write(STDOUT_FILENO, &handle, sizeof handle) != sizeof handle) return 1;
    return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : 1;
}
