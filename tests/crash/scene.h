/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of this folder share: memory that outlives who dies, random moments, and counts
 * of what must not leak. */
#ifndef XFER_TESTS_CRASH_SCENE_H
#define XFER_TESTS_CRASH_SCENE_H

#include "fixture.h"

/* Memory of several processes: a role maps the descriptor, which it inherits, by its number. */
typedef struct Shared {
    int fd;
    uint8_t *memory;
    uint64_t length;
} Shared;
Shared shared_new(uint64_t length);
void shared_drop(Shared *shared);
/* In a role: NULL if it can't be. */
void *shared_map(int fd, uint64_t length);

/* Of XFER_TEST_SEED, or fresh; it is printed at once, so that the output of a failure has it. */
uint64_t first_seed(const char *test);
uint64_t draw(uint64_t *seed, uint64_t below);
/* `usual`, an eighth of it for quick runs, or what XFER_TEST_ROUNDS says. */
int rounds_of(int usual);

uint64_t now_us(void);
/* Lets `us` pass while hosts go on. */
void pass_us(uint64_t us);
bool all_zero(const void *memory, uint64_t length);

/* What this process holds. */
typedef struct Holdings {
    int descriptors, threads;
    int mappings; /* of memory that has a descriptor, or a name */
    int files;    /* in /dev/shm, of all processes */
} Holdings;
Holdings holdings(void);
/* Fails the test if it stays above `before`; the end of a connection takes its moment. */
void assert_holdings(Holdings before);

/* A line of the suite's summary: what it took, in milliseconds. */
typedef struct Times {
    double ms[1024];
    int count;
} Times;
void times_add(Times *times, uint64_t us);
double times_at(Times *times, double part); /* 0.5: the median; 1: the longest */
void times_print(Times *times, const char *what, const char *target);

#endif
