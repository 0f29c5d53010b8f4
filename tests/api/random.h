/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs: one to four threads of a process make calls, legal and not, on two engines of
 * random modes that talk to each other. random.c has both engines in one process, random_pair.c one
 * in each of two. A call is one row of `calls` (random_calls.c); what holds for every event is in
 * random_rules.c; random_cells.c has the memory whose bytes are verified; random_run.c opens the
 * engines, runs the threads and ends it all.
 *
 * A failure prints its seed; XFER_TEST_SEED=n runs that script alone, with XFER_TEST_ROUNDS=m also
 * those after it, m in all. Threads interleave as they like, so one run of a seed may not show what
 * another did. */
#ifndef XFER_TESTS_API_RANDOM_H
#define XFER_TESTS_API_RANDOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <xfer/xfer.h>

#include "within.h"

enum {
    kEngines = 2,
    kBoth = kEngines, /* of which engine's objects a thread has some */
    kMaxWorkers = 4,
    kSlots = 4,
    kMaxOps = 8192,
    kBlock = 4096,
    kCells = 8, /* of one verified region */
    kMaxLent = 256,
    kCellBatches = 2,
    kEndMs = 20000
};

/* ---- what both processes see ---- */

/* A verified region. Each cell has one writer, a thread of the other engine's process, and one
 * operation at a time. Every word of it tells its region, its place and its version. */
typedef struct Lent {
    _Atomic uint32_t number; /* stands in each word; 0: not there yet */
    uint32_t words;          /* of a cell */
    xfer_ref_t ref;
    _Atomic uint8_t busy[kCells];
    _Atomic uint8_t begun[kCells];   /* the version of the newest put */
    _Atomic uint8_t applied[kCells]; /* of the newest that ended XFER_OK */
} Lent;

typedef struct Shown {
    char uri[256];
    xfer_id_t id;
    _Atomic int ready, done;       /* it listens; its threads have ended */
    _Atomic int draining, closing; /* from before the call */
    _Atomic int killed;            /* from before the signal */
    _Atomic int turned_away;       /* a peer that may have been up */
    _Atomic uint32_t lent_count;
    Lent lent[kMaxLent];
    xfer_ref_t refs[kMaxWorkers][2 * kSlots]; /* regions, grants */
} Shown;

typedef struct Board {
    Shown sides[kEngines];
    _Atomic int is_broken;
    char first_broken[256];
} Board;

extern Board *board;

/* ---- of one process ---- */

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

    uint8_t *memory; /* borrowed until the event, if its bytes are verified */
    uint64_t length;
    Lent *lent;     /* whose cells it moves */
    uint32_t cells; /* a bit for each */
    uint32_t gets;  /* of them */
} Op;

typedef struct Side {
    uint32_t dispatch, io_threads;
    uint64_t random; /* of its driver */
    bool owns_peers; /* XFER_ENGINE_OWN_PEERS */
    bool asks;       /* XFER_ENGINE_ASK */
    xfer_engine_t *engine;
    uv_loop_t loop;
    pthread_t driver;
    pthread_mutex_t
        hold; /* recursive: no event is delivered, so no handle ends, while it is held */
    _Atomic int ready, closed, joined;
    _Atomic int met_others; /* of another test, which had found the port in use again */
    uint64_t last_sequence;
    void *kept[16];   /* handles of PEER events that are ours now, until their CLOSED */
    uint32_t untaken; /* a bit for each that no thread has */
} Side;

typedef struct Handle {
    void *handle;
    uint32_t word; /* of an endpoint */
    xfer_ref_t ref;
} Handle;

/* What its owner knows of a verified region. */
typedef struct Owned {
    _Atomic(void *) handle; /* looked at by the callbacks of both engines */
    const uint64_t *words;
    uint8_t *memory; /* NULL: the engine's own */
    Lent *lent;
    _Atomic int closed;
} Owned;

/* One thread, with handles and memory of its own. Side `i` has the objects of engine `i`. */
typedef struct Worker {
    pthread_t thread;
    uint32_t index; /* among those that share a side */
    uint32_t side;  /* kBoth: any */
    uint64_t state; /* of its random numbers */
    Handle eps[kEngines][kSlots], regions[kEngines][kSlots], batches[kEngines][kSlots];
    Handle counters[kEngines][kSlots];
    Handle grants[kEngines][kSlots]; /* `handle` is the region */
    Owned *owned[kEngines][kSlots];
    Handle cell_batches[kEngines][kCellBatches];
    uint8_t *local[kEngines]; /* what puts and gets of that engine move */
    uint8_t *copied;          /* what calls read before they return: no get writes there */
} Worker;

extern Side sides[kEngines];
extern uint64_t seed;

uint64_t next_random(uint64_t *state);
uint32_t draw(Worker *worker, uint32_t below);
uint32_t side_of(Worker *worker);
Handle *slot(Worker *worker, Handle handles[kSlots]);

/* ---- random_rules.c ---- */

void rules_begin(void);
/* After the engines have ended. */
void rules_end(void);
/* Memory that lives until the script is over. */
uint8_t *script_memory(uint64_t length);
/* A word for a call that is about to be made on the engine of that side. */
uint32_t begin(uint32_t kind, uint32_t side, uint32_t ep, bool exact);
Op *op_of(uint32_t word);
/* What the call returned. */
void end(uint32_t word, xfer_status_t status, const char *call);
void end_object(const void *object, xfer_status_t status, const char *call);
/* A call that promises nothing. */
void plain(xfer_status_t status, const char *call);
/* A call that must be refused. */
void refused(xfer_status_t status, const char *call);
void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was told; once all of one poll were, their handles can be used. */
void take(Side *side, const xfer_event_t *event);
void use_handle(Side *side, const xfer_event_t *event);

/* ---- random_cells.c ---- */

void cells_begin(void);
void cells_end(void);
/* At the event of an operation whose bytes are verified; once all is over. */
void cells_told(Op *op, const xfer_event_t *event);
void cells_quiet(const Op *op);
void cells_closed(const void *region);
/* Looks at all that this thread lends. */
void cells_check(Worker *worker);
void cells_open(Worker *worker);
void cells_close(Worker *worker);
void cell_put(Worker *worker);
void cell_get(Worker *worker);
void cell_batch(Worker *worker);
/* Bytes of a message that tell whose they are, and their place; borrowed by that call. */
uint8_t *message_to_send(uint32_t word, uint64_t length);
uint8_t *message_room(uint32_t word, uint64_t length);

/* ---- random_calls.c ---- */

/* Options as an older or a newer program would pass them, and now and then a malformed one. */
typedef union OpOptions {
    xfer_op_options_t options;
    uint8_t bytes[128];
} OpOptions;

const xfer_op_options_t *op_options(Worker *worker, OpOptions *room);
uint32_t some_timeout(Worker *worker);

typedef struct CallRow {
    const char *name;
    uint32_t weight;
    void (*make)(Worker *worker);
} CallRow;

void prepare(Worker *worker);
extern const CallRow calls[];
extern const uint32_t call_count;

/* ---- random_run.c ---- */

/* Of the first script, and how many: the environment may say. */
uint64_t first_seed(void);
uint64_t scripts(uint32_t if_quick, uint32_t otherwise);
/* One script on `board`, which is empty: the engines and threads of one side, or of both. */
void run_script(uint32_t side);

#endif
