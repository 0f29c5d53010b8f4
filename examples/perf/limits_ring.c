/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations between two processes of one host through a ring in shared memory: the plainest way in
 * which the other side takes part. */
#include <err.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "measure.h"

/* `turn` is one more than the number of the operation whose bytes are in the slot. */
struct slot {
    _Atomic uint64_t turn;
    uint8_t bytes[];
};

/* As in limits_memory.c: a line and its neighbour. */
struct ring {
    _Alignas(128) _Atomic uint64_t answered;
    char rest[128 - sizeof(uint64_t)];
    uint8_t slots[];
};

static uint64_t slot_length(const struct plan *plan) {
    return (sizeof(struct slot) + plan->size + 63) / 64 * 64;
}

uint64_t ring_length(const struct plan *plan) {
    return sizeof(struct ring) + plan->window * slot_length(plan);
}

static struct slot *slot_of(struct ring *ring, const struct plan *plan, uint64_t i) {
    return (struct slot *)(void *)(ring->slots + (i % plan->window) * slot_length(plan));
}

void ring_reset(struct ring *ring, const struct plan *plan) {
    atomic_store(&ring->answered, 0);
    for (uint64_t i = 0; i < plan->window; i++)
        atomic_store(&slot_of(ring, plan, i)->turn, 0);
}

/* ---- the initiator ---- */

static void ask(struct slot *slot, const void *block, const struct plan *plan, uint64_t i) {
    if (!plan_reads(plan)) memcpy(slot->bytes, block, plan->size);
    atomic_store_explicit(&slot->turn, i + 1, memory_order_release);
}

static void take_answer(const struct slot *slot, void *block, const struct plan *plan) {
    if (plan_reads(plan) || plan->op == OP_ATOMIC) memcpy(block, slot->bytes, plan->size);
}

void ring_ask(struct ring *ring, const struct blocks *blocks, const struct plan *plan,
              double *times) {
    uint64_t asked = 0;
    uint64_t done = 0;
    unsigned turns = 0;
    uint64_t start = now_ns();
    while (done < plan->count) {
        for (; asked < plan->count && asked - done < plan->window; asked++)
            ask(slot_of(ring, plan, asked), blocks->pieces[asked % blocks->count].iov_base, plan,
                asked);
        uint64_t answered = atomic_load_explicit(&ring->answered, memory_order_acquire);
        if (answered == done) spin_rest(&turns);
        for (; done < answered; done++) {
            take_answer(slot_of(ring, plan, done), blocks->pieces[done % blocks->count].iov_base,
                        plan);
            if (times == NULL) continue;
            uint64_t end = now_ns();
            times[done] = (double)(end - start);
            start = end;
        }
    }
}

/* ---- the owner ---- */

static void serve(struct slot *slot, void *block, const struct plan *plan) {
    if (plan->op == OP_ATOMIC) {
        uint64_t operand;
        memcpy(&operand, slot->bytes, sizeof operand);
        uint64_t before = atomic_fetch_add((_Atomic uint64_t *)block, operand);
        memcpy(slot->bytes, &before, sizeof before);
    } else if (plan_reads(plan)) {
        memcpy(slot->bytes, block, plan->size);
    } else {
        memcpy(block, slot->bytes, plan->size);
    }
}

void ring_answer(struct ring *ring, const struct plan *plan) {
    uint8_t *memory = calloc(plan->window, plan->size);
    if (memory == NULL) err(1, "ring");
    unsigned turns = 0;
    for (uint64_t i = 0; i < plan->count; i++) {
        struct slot *slot = slot_of(ring, plan, i);
        while (atomic_load_explicit(&slot->turn, memory_order_acquire) != i + 1)
            spin_rest(&turns);
        serve(slot, memory + (i % plan->window) * plan->size, plan);
        atomic_store_explicit(&ring->answered, i + 1, memory_order_release);
    }
    free(memory);
}
