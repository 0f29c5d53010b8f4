/* SPDX-License-Identifier: Apache-2.0
 * Nor does the one of RDMA. */
#include <xfer/rdma.h>

/* It may be included twice, and beside the other. */
#include <xfer/xfer.h>

#include <xfer/rdma.h>

/* What the engine's options point to is that struct. */
const xfer_rdma_options_t *rdma_of(const xfer_engine_options_t *options);
const xfer_rdma_options_t *rdma_of(const xfer_engine_options_t *options) {
    return options->rdma;
}

int main(void) {
    return sizeof(xfer_rdma_options_t) == 0;
}
