/* SPDX-License-Identifier: Apache-2.0
 *
 * Two engines of one process, for the child that tries one case. Nothing here allocates while the
 * engines live, so that the allocations that are counted are theirs. What is not as it should be
 * ends the process with a word about it: nothing else can be relied on then. */
#ifndef XFER_TESTS_FAULTS_WORLD_H
#define XFER_TESTS_FAULTS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include <xfer/xfer.h>

typedef struct Mode {
    const char *name;
    uint32_t dispatch;
    uint32_t io_threads;
} Mode;

enum { kMaxEvents = 64, kLimitMs = 10000 };

typedef struct Host {
    const Mode *mode;
    xfer_engine_t *engine;
    uv_loop_t loop; /* LOOP only */
    char uri[256];
    uint8_t id; /* of the engine: the first byte of its identity; 0: any */
    _Atomic int count;
    xfer_event_t events[kMaxEvents];
    xfer_ref_t ref; /* of the last LOOKUP */
} Host;

/* Ends the process: the case has failed. */
_Noreturn void fail_case(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A status that the header lists, and that is not the library's own fault. */
void check_status(xfer_status_t status, const char *call);
void must(xfer_status_t status, const char *call);
uint64_t now_ms(void);
/* How long an operation may move nothing, in hosts that are opened from here on. */
extern uint32_t stall_ms;

void loop_make(Host *host, const Mode *mode); /* the caller's loop, if the mode has one */
xfer_status_t host_try(Host *host, xfer_error_t *err);
void host_open(Host *host, const Mode *mode);
void host_listen(Host *host);
/* Closes, joins, and ends the caller's loop. */
void host_end(Host *host);
void loop_end(Host *host);
/* One turn of both, of a millisecond at most. */
void turn(Host *one, Host *other);

#define ANY_USER UINT64_MAX
int count_events(Host *host, uint32_t kind, uint64_t user);
/* The event of that kind and user, or of ANY_USER; turns both until it is there. */
xfer_event_t wait_event(Host *host, Host *other, uint32_t kind, uint64_t user);
/* The same, by its object. */
xfer_event_t wait_object(Host *host, Host *other, uint32_t kind, const void *object);

extern uint8_t served[4096]; /* the memory of "memory" */
xfer_status_t region_try(Host *host, xfer_region_t **region, xfer_error_t *err);
/* Connects anew, looks "memory" up, puts, gets, compares. */
void talk(Host *client, Host *server);

typedef struct Resources {
    int descriptors;
    int threads;
    long live;
} Resources;

Resources resources(void);
Resources alone(void); /* when all other threads have ended */
/* Both as before; `memory` says whether allocations count, too. */
void check_resources(const Resources *before, bool memory, const char *when);

#endif
