/* SPDX-License-Identifier: Apache-2.0
 *
 * A trainer hands its weights to three workers. Each worker lends memory for them under the name
 * "weights", and counts one notification. The trainer puts its weights to all of them in chunks,
 * without an event for each; a flush says how they went, and only then the worker is told.
 */
#include <string.h>

#include "must.h"

enum { WORKERS = 3, CHUNK = 1 << 20, CHUNKS = 8, BYTES = CHUNKS * CHUNK, READY = 7, MS = 10000 };

static uint32_t weights[BYTES / 4]; /* the trainer's */

typedef struct Worker {
    xfer_engine_t *engine;
    xfer_region_t *region;
    xfer_counter_t *counter;
    xfer_ep_t *ep; /* the trainer's handle for it */
    uint32_t memory[BYTES / 4];
} Worker;

static Worker workers[WORKERS];

static xfer_event_t next(xfer_engine_t *engine) {
    xfer_event_t event;
    uint32_t count = 0;
    MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 2 * MS, &count));
    EXPECT(count == 1); /* not even the word that a deadline passed */
    MUST(event.status); /* of a quiet put, too, a failure has an event */
    return event;
}

/* Puts all weights where the lookup found the worker's memory, and asks to be told of the end. */
static void push(const xfer_event_t *found) {
    xfer_ref_t ref;
    memcpy(&ref, found->data, sizeof ref);
    xfer_op_options_t quiet = {.size = sizeof quiet, .flags = XFER_FLAG_QUIET};
    for (uint64_t at = 0; at < BYTES; at += CHUNK)
        MUST(xfer_put(found->ep, weights + at / 4, &ref, at, CHUNK, 0, &quiet));
    MUST(xfer_ep_flush(found->ep, NULL, 0, NULL));
}

int main(void) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .timeout_ms = MS};
    xfer_engine_t *trainer = NULL;
    MUST_ERR(xfer_engine_open(&options, &trainer, &error));
    for (uint32_t i = 0; i < BYTES / 4; i++)
        weights[i] = i * 2654435761u + 1; /* no two are the same */

    for (Worker *worker = workers; worker < workers + WORKERS; worker++) {
        MUST_ERR(xfer_engine_open(&options, &worker->engine, &error));
        char uri[256];
        MUST_ERR(
            xfer_engine_listen(worker->engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
        xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "weights"};
        MUST_ERR(xfer_region_open(worker->engine, &lent, worker->memory, BYTES, &worker->region,
                                  &error));

        /* Without weights by its deadline the counter ends with an error. */
        xfer_counter_options_t deadline = {.size = sizeof deadline, .timeout_ms = MS};
        MUST_ERR(xfer_counter_open(worker->engine, READY, 1, &deadline, &worker->counter, &error));
        MUST_ERR(xfer_ep_open(trainer, uri, NULL, &worker->ep, &error));
        MUST_ERR(xfer_ep_lookup(worker->ep, "weights", 0, NULL, &error));
    }

    /* The workers go ahead one by one, each as its own events say. A flush that ends well says that
     * all chunks are applied there. An ordered batch that notifies would save that round trip, but
     * it comes after chunks that failed, too. */
    for (int told = 0; told < WORKERS;) {
        xfer_event_t event = next(trainer);
        if (event.kind == XFER_EVENT_LOOKUP) push(&event);
        if (event.kind == XFER_EVENT_FLUSH) MUST(xfer_notify(event.ep, NULL, 0, READY, 0, NULL));
        if (event.kind == XFER_EVENT_NOTIFIED) told++;
    }

    for (Worker *worker = workers; worker < workers + WORKERS; worker++) {
        while (next(worker->engine).kind != XFER_EVENT_COUNTER)
            continue;
        EXPECT(memcmp(worker->memory, weights, BYTES) == 0);
    }
    printf("%d workers have %d bytes each, in %d chunks\n", WORKERS, BYTES, CHUNKS);

    for (Worker *worker = workers; worker < workers + WORKERS; worker++)
        MUST(xfer_ep_close(worker->ep));
    MUST(xfer_engine_join(trainer, MS));
    for (Worker *worker = workers; worker < workers + WORKERS; worker++) {
        MUST(xfer_counter_close(worker->counter));
        MUST(xfer_region_close(worker->region));
        MUST(xfer_engine_join(worker->engine, MS));
    }
    printf("ok\n");
    return 0;
}
