/* SPDX-License-Identifier: Apache-2.0
 *
 * Many engines of one process that connect at the same moment. All of them live on one uv loop, so
 * that a thousand engines need one thread and not a thousand. */
#ifndef PERF_CROWD_H
#define PERF_CROWD_H

#include <stdint.h>

#include "engine.h"

/* Crosses to the process that is to open the crowd. */
struct crowd_order {
    uint64_t engines;
    struct mode mode; /* but for dispatch and io_threads, which the loop decides */
    char one[64];     /* the engine that all of them meet; empty: they meet each other */
    uint8_t key[256];
    uint64_t key_length;
};

/* What it was like, for all engines of the crowd. */
struct crowd_figures {
    uint64_t ready_ns; /* when the last of them was told of its last connection, by now_ns() */
    uint64_t connects;
    uint64_t accepts;
    uint64_t ends;        /* of connections that are live: each has two */
    uint64_t failures;    /* that users of the engines saw */
    uint64_t descriptors; /* at the peak, of the processes */
    uint64_t peak_bytes;  /* resident, of processes that have nothing but a crowd */
    uint64_t base_bytes;  /* the same before they opened it */
};

struct crowd;

struct crowd *crowd_open(const struct crowd_order *order);

/* Lets them go, and returns a while after all have met, so that what comes too late is counted. */
struct crowd_figures crowd_meet(struct crowd *crowd);

void crowd_close(struct crowd *crowd);

/* Adds those of other engines. */
void figures_add(struct crowd_figures *figures, const struct crowd_figures *part);

/* Adds what an engine counted. */
void figures_add_engine(struct crowd_figures *figures, xfer_engine_t *engine);

/* An event that no user should have seen. */
void figures_add_failure(struct crowd_figures *figures, const xfer_event_t *event);

#endif
