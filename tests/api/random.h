/* SPDX-License-Identifier: Apache-2.0
 *
 * What random.c (engines, threads, rules) and random_calls.c (the calls) share. A call is one row
 * of `calls`. */
#ifndef XFER_TESTS_API_RANDOM_H
#define XFER_TESTS_API_RANDOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <xfer/xfer.h>

enum { kEngines = 2, kMaxWorkers = 4, kSlots = 4, kMaxOps = 8192, kBlock = 4096 };

/* One call that promises an event, or a handle that is told its own word. The place in the table,
 * from 1, is its user word. */
typedef struct Op {
    uint32_t kind;             /* of the event */
    uint32_t ep;               /* the word of its endpoint, 0: none */
    uint32_t side;             /* of the engine */
    bool exact;                /* an accepted call gets its event, not only at most one */
    uint64_t asked;            /* when the call was made, by a clock that counts calls */
    _Atomic uint64_t accepted; /* when it had returned XFER_OK; 0: it has not */
    _Atomic int events;
} Op;

typedef struct Side {
    uint32_t dispatch, io_threads;
    xfer_engine_t *engine;
    char uri[256];
    uv_loop_t loop;
    pthread_t driver;
    pthread_mutex_t
        hold; /* recursive: no event is delivered, so no handle ends, while it is held */
    _Atomic int ready, closed, joined;
    _Atomic int draining, closing; /* from before the call */
    _Atomic int met_others;        /* of another process, which had found the port in use again */
    uint64_t last_sequence;
} Side;

typedef struct Handle {
    void *handle;
    uint32_t word; /* of an endpoint */
    xfer_ref_t ref;
} Handle;

/* One thread, with handles and memory of its own. Side `i` has the objects of engine `i`. */
typedef struct Worker {
    pthread_t thread;
    uint64_t state; /* of its random numbers */
    Handle eps[kEngines][kSlots], regions[kEngines][kSlots], batches[kEngines][kSlots];
    Handle counters[kEngines][kSlots];
    Handle grants[kEngines][kSlots]; /* `handle` is the region */
    uint8_t *local[kEngines];        /* what puts and gets of that engine move */
} Worker;

extern Side sides[kEngines];

uint32_t draw(Worker *worker, uint32_t below);
/* Memory that lives until the script is over. */
uint8_t *script_memory(uint64_t length);
/* A word for a call that is about to be made on the engine of that side. */
uint32_t begin(uint32_t kind, uint32_t side, uint32_t ep, bool exact);
/* What the call returned. */
void end(uint32_t word, xfer_status_t status, const char *call);
void end_object(const void *object, xfer_status_t status, const char *call);
/* A call that promises nothing. */
void plain(xfer_status_t status, const char *call);
/* A call that must be refused. */
void refused(xfer_status_t status, const char *call);
void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct CallRow {
    const char *name;
    uint32_t weight;
    void (*make)(Worker *worker);
} CallRow;

void prepare(Worker *worker);
extern const CallRow calls[];
extern const uint32_t call_count;

#endif
