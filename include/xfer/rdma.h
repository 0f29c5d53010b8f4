/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of RDMA: which adapters an engine uses, and how.
 *
 * Words and rules are those of xfer.h. libibverbs is opened at run time: nothing of it is needed to compile or to link.
 * An adapter moves what is put and got on connections that another transport makes; where there is none that may be
 * used, or it fails, the others move it, and xfer_engine_describe says why.
 */
#ifndef XFER_RDMA_H
#define XFER_RDMA_H

#include <stddef.h>
#include <stdint.h>

#include "xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cdef:begin */

/* ---- adapters ---- */

/* For xfer_engine_options_t.rdma. A library that was built without RDMA takes none: XFER_EUNSUPPORTED. */
typedef struct xfer_rdma_options {
    uint32_t size;
    uint32_t queue_depth; /* requests that a queue pair may have in its send queue, 1 to 32,768, and no more than the
                             adapter has; default 128 */
    const char *devices;  /* The adapters that may be used: a comma list of `device`, `device:port` and
                             `device:port:gid_index`, such as "mlx5_0,mlx5_1:1"; with "^" before it all but those;
                             "none"; "" for all. Default: what XFER_RDMA_DEVICES has in the environment, or all. */
    uint32_t ack_timeout; /* A packet is sent again if it is not acknowledged within 4.096 us times two to the power of
                             this, 1 to 31; default 14, which is 67 ms. */
    uint32_t retries;     /* how often it is, 1 to 6, before the queue pair fails; XFER_NONE: not at all; default 6.
                             Puts and gets wait as long as these two say. Frames, such as messages and notifications,
                             go by the socket when the adapter has brought none for a third of a second, so that longer
                             times do not bind them. */
    uint32_t traffic_class; /* in the header of packets that are routed, as all on Ethernet: 0 to 255; its upper 6 bits
                               are the DSCP */
    uint32_t service_level; /* of packets on InfiniBand, 0 to 15 */
    uint32_t reserved[4];
} xfer_rdma_options_t;

/* cdef:end */

#ifdef __cplusplus
}
#endif

#endif
