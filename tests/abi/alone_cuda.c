/* SPDX-License-Identifier: Apache-2.0
 * Nor does the one of CUDA: libcuda's headers are not needed, and may come before or behind. */
#include <xfer/cuda.h>

/* It may be included twice, and beside the other. */
#include <xfer/xfer.h>

#include <xfer/cuda.h>

int main(void) {
    return sizeof(xfer_cuda_result_t) == 0;
}
