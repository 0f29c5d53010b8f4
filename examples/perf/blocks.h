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

/* What an operation does with a block of the initiator's and the same one of the owner's. */
enum op {
    OP_PUT,
    OP_GET,
    OP_ATOMIC, /* adds the initiator's word to the owner's, and leaves here what was there before */
    OP_MESSAGE,    /* from the initiator to the owner's application */
    OP_NOTIFY,     /* the same as a notification */
    OP_PUT_NOTIFY, /* a put, and a notification of it */
    OP_ECHO        /* a message there and one back; window 1 */
};

/* One point of a sweep. Operation i uses block i % window, which is `size` bytes: in one piece, or
 * in pages that lie scattered on both sides. */
struct plan {
    uint64_t size;
    uint64_t window;
    uint64_t count;     /* operations */
    uint64_t page_size; /* 0: in one piece */
    uint32_t op;        /* enum op */
    uint32_t quiet;     /* no event each, but a flush behind each window */
    uint32_t acked;     /* limits only: each operation is acknowledged before the next one starts */
    uint32_t windowed;  /* limits only: as many of them are under way as the window has */
    uint32_t streams;   /* limits only: so many connections at once; 0: one, without threads */
    uint32_t spin;      /* limits only: never sleep in the kernel */
};

bool plan_reads(const struct plan *plan);
/* The owner's application takes each operation, and answers the last one of a run. */
bool plan_is_taken(const struct plan *plan);
bool plan_is_message(const struct plan *plan); /* to an application, not into a region */

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

/* Writes what added to the pattern of seed `from` makes that of seed `to`. */
void blocks_fill_difference(const struct blocks *blocks, uint64_t from, uint64_t to);

/* Returns how many pieces do not hold what blocks_fill wrote on the other side. */
uint64_t blocks_wrong(const struct blocks *blocks, uint64_t seed);

#endif
