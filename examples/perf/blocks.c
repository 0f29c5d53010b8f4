/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint8_t *memory_map(uint64_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) err(1, "memory of %llu bytes", (unsigned long long)length);
    return memory;
}

bool plan_reads(const struct plan *plan) {
    return plan->op == OP_GET;
}

bool plan_is_taken(const struct plan *plan) {
    return plan->op == OP_MESSAGE || plan->op == OP_NOTIFY || plan->op == OP_PUT_NOTIFY;
}

bool plan_is_message(const struct plan *plan) {
    return plan->op == OP_MESSAGE || plan->op == OP_NOTIFY || plan->op == OP_ECHO;
}

static uint64_t mix(uint64_t word) {
    word *= 0x9e3779b97f4a7c15U;
    return word ^ (word >> 29);
}

uint64_t *page_order(uint64_t count, enum side side) {
    uint64_t *order = malloc(count * sizeof order[0]);
    if (order == NULL) err(1, "page order");
    for (uint64_t i = 0; i < count; i++)
        order[i] = i;
    uint64_t state = 1 + (uint64_t)side;
    for (uint64_t i = count; i > 1; i--) {
        state = mix(state + i);
        uint64_t other = state % i;
        uint64_t moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
    return order;
}

struct blocks blocks_make(const struct plan *plan, uint8_t *memory, enum side side) {
    uint64_t piece = plan->page_size != 0 ? plan->page_size : plan->size;
    struct blocks blocks = {.per_block = plan->size / piece, .count = plan->window};
    blocks.pieces = malloc(blocks.per_block * blocks.count * sizeof blocks.pieces[0]);
    if (blocks.pieces == NULL) err(1, "pieces");
    uint64_t *order = page_order(blocks.per_block, side);
    for (size_t b = 0; b < blocks.count; b++) {
        for (size_t i = 0; i < blocks.per_block; i++) {
            blocks.pieces[b * blocks.per_block + i] = (struct iovec){
                .iov_base = memory + b * plan->size + order[i] * piece, .iov_len = piece};
        }
    }
    free(order);
    return blocks;
}

void blocks_free(struct blocks *blocks) {
    free(blocks->pieces);
    blocks->pieces = NULL;
}

/* The word at `place` of the pattern; of seed 0 all are zero. */
static uint64_t pattern(uint64_t seed, uint64_t place) {
    return seed != 0 ? mix((seed << 40) + place + 1) : 0;
}

/* With the pattern of `seed` less that of `less`. */
static void fill(const struct blocks *blocks, uint64_t seed, uint64_t less) {
    uint64_t place = 0;
    for (size_t p = 0; p < blocks->per_block * blocks->count; p++) {
        uint8_t *bytes = blocks->pieces[p].iov_base;
        for (size_t at = 0; at < blocks->pieces[p].iov_len; at += sizeof place) {
            uint64_t word = pattern(seed, place) - pattern(less, place);
            place++;
            size_t left = blocks->pieces[p].iov_len - at;
            memcpy(bytes + at, &word, left < sizeof word ? left : sizeof word);
        }
    }
}

void blocks_fill(const struct blocks *blocks, uint64_t seed) {
    fill(blocks, seed, 0);
}

void blocks_fill_difference(const struct blocks *blocks, uint64_t from, uint64_t to) {
    fill(blocks, to, from);
}

uint64_t blocks_wrong(const struct blocks *blocks, uint64_t seed) {
    uint64_t place = 0;
    uint64_t wrong = 0;
    for (size_t p = 0; p < blocks->per_block * blocks->count; p++) {
        const uint8_t *bytes = blocks->pieces[p].iov_base;
        bool same = true;
        for (size_t at = 0; at < blocks->pieces[p].iov_len; at += sizeof place) {
            uint64_t word = pattern(seed, place++);
            size_t left = blocks->pieces[p].iov_len - at;
            same &= memcmp(bytes + at, &word, left < sizeof word ? left : sizeof word) == 0;
        }
        wrong += !same;
    }
    return wrong;
}
