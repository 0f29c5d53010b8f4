/* SPDX-License-Identifier: Apache-2.0
 *
 * The initiator's engine: reaches the owner, and keeps a window of operations in flight. */
#ifndef PERF_ENGINE_H
#define PERF_ENGINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xfer/xfer.h>

#include "blocks.h"
#include "control.h"
#include "looped.h"

extern const char kRegionName[];

/* Who submits the next operation when one has ended: the callback, or a thread that sleeps until
 * the callback wakes it, or spins on what it sets. */
enum submitter { SUBMIT_CALLBACK, SUBMIT_THREAD, SUBMIT_SPIN };

/* One run of a plan: state of the window while it lasts. */
struct run {
    const struct plan *plan;
    uint8_t *memory;
    xfer_batch_t **batches; /* one for each block if the plan has pages */
    uint64_t batch_count;
    double *times;     /* NULL, or nanoseconds of each operation */
    uint64_t *started; /* when the operation in each block was submitted */
    uint32_t *ended;   /* of a thread: blocks whose operations have ended, oldest first */
    uint64_t issued;
    _Atomic uint64_t done;
    uint64_t goal; /* the operations, and one more if the owner says that it has taken all */
    enum submitter submitter;
};

struct client {
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    bool poll, loop, busy;
    struct looped looped;
    struct run run;
    sem_t progress; /* posted by the callback: an answer, a block that ended, the end of a run */
    xfer_status_t answer;
    bool contact; /* the operation of block 0 follows the lookup */
};

/* Ends the program if `status` is a failure. */
void must(xfer_status_t status, const char *what, const xfer_error_t *error);

/* Options that both sides have in common. */
xfer_engine_options_t engine_options(const struct mode *mode, const void *key, size_t key_length);

/* tcp://host:port, with brackets around an IPv6 address, which are dropped. */
void split_uri(const char *uri, char *host, size_t capacity, uint16_t *port);

void client_open(struct client *client, const struct mode *mode, const void *key, size_t length);

/* Makes the endpoint and looks up the owner's region. */
void client_reach(struct client *client, const char *uri);

/* The same, and the first operation of `plan` behind the lookup, submitted where its answer
 * arrives. Ends when that operation has. */
void client_contact(struct client *client, const char *uri, const struct plan *plan,
                    uint8_t *memory);

/* Waits until all counted operations of `plan` have ended, OK each, which means applied at the
 * owner. Returns seconds. `times`, if not NULL, receives the nanoseconds of each operation. */
double client_run(struct client *client, const struct plan *plan, uint8_t *memory,
                  enum submitter submitter, double *times);

/* Prepares what client_run submits; needed once before the runs of a plan, and its end after them.
 */
void client_prepare(struct client *client, const struct plan *plan, uint8_t *memory);
void client_forget(struct client *client);

/* POLL: takes what there is, or waits for it unless the client is busy. */
void client_poll(struct client *client);
/* Waits until the callback has posted `progress`. */
void client_wait(struct client *client);

/* Lets the engine do for a while what nobody waits for. */
void client_linger(struct client *client, uint32_t ms);

void client_close(struct client *client);

#endif
