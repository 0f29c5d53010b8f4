/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that is moved: where the pieces of each operation lie on either side, and what is in
 * them. The limits and libxfer move the same pieces of the same buffers. */
#ifndef PERF_BLOCKS_H
#define PERF_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* One point of a sweep. The initiator writes with a put and reads with a get. Operation i uses
 * block i % window, which is `size` bytes: in one piece, or in pages that lie scattered on both
 * sides. */
struct plan {
    uint64_t size;
    uint64_t window;
    uint64_t count;     /* operations */
    uint64_t page_size; /* 0: in one piece */
    uint32_t get;
    uint32_t acked;   /* limits only: each operation is acknowledged before the next one starts */
    uint32_t spin;    /* limits only: never sleep in the kernel */
    uint32_t message; /* a message there and one back; window 1 */
};

enum side { INITIATOR = 0, OWNER = 1 };

struct blocks {
    struct iovec *pieces; /* per_block pieces of each block, block by block */
    size_t per_block;
    size_t count;
};

/* Memory of `length` bytes, present. */
uint8_t *memory_map(uint64_t length);

/* The order of the pages on one side: page i of the operation lies at the place order[i]. */
uint64_t *page_order(uint64_t count, enum side side);

struct blocks blocks_make(const struct plan *plan, uint8_t *memory, enum side side);
void blocks_free(struct blocks *blocks);

/* Writes a pattern that differs at every place and for every seed, over the pieces in their order.
 */
void blocks_fill(const struct blocks *blocks, uint64_t seed);

/* Returns how many pieces do not hold what blocks_fill wrote on the other side. */
uint64_t blocks_wrong(const struct blocks *blocks, uint64_t seed);

#endif
