/* SPDX-License-Identifier: Apache-2.0
 *
 * Which status of which function is shown how. A status that any call of a kind may return is shown
 * by one circumstance for all of them (Shown); what is peculiar to a function has a row of its own.
 */
#ifndef XFER_TESTS_API_RETURNS_H
#define XFER_TESTS_API_RETURNS_H

#include <xfer/cuda.h>
#include <xfer/text.h>

#include "fixture.h"
#include "inject.h"

/* What calls are made on, and how their arguments are spoiled. */
typedef struct Scene {
    Host *host;
    xfer_engine_t *engine;
    xfer_region_t *region; /* "memory", may be read and written */
    xfer_ep_t *ep;         /* nobody answers there */
    xfer_batch_t *batch;
    xfer_counter_t *counter;       /* of the key kKey */
    xfer_ref_t ref;                /* of the region */
    xfer_ref_t grant;              /* of a part of it */
    char text[XFER_REF_TEXT_SIZE]; /* of the ref */
    void *local;
    const void *input; /* in place of the struct that the call takes */
    bool nowhere;      /* pointers that must not be NULL are */
    int hole;
} Scene;

enum { kLength = 4096, kKey = 5 };

/* The circumstances, each with the status that it stands for. */
typedef enum Shown {
    kBadHandle = 1, /* handles of other types */
    kForked = 2,    /* in the child of a fork */
    kClosed = 4,    /* the engine has ended */
    kInvalid = 8,   /* no pointers, and a struct without its size */
    kBig = 16,      /* a longer struct, with more in it */
    kMemory = 32,   /* no allocation succeeds */
    kFull = 64,     /* the endpoint has all the operations that it may have */
    kVersion = 128, /* a later version's ref */
    kWraps = 256,   /* local memory that wraps around */
    kKind = 512,    /* memory of a device */
    kReadOnly = 1024,
    kInFlight = 2048, /* the batch */
    kEntries = 4096   /* the batch has as many as it may have */
} Shown;

/* A call of a function that returns a status, with arguments that are sound but for what the scene
 * spoils. */
typedef struct Function {
    const char *name;
    xfer_status_t (*call)(const Scene *scene);
    unsigned shown; /* Shown: what makes it return that status */
    unsigned never; /* Shown: what the head of the header allows, and this function never returns */
} Function;

/* All of them. Those that end a handle come last, the engine's behind the others'. */
extern const Function functions[];
extern const size_t function_count;

/* One status of one function. */
typedef struct Row {
    const char *function;
    xfer_status_t status;
    xfer_status_t (*provoke)(Scene *scene);
    const char *where; /* without provoke */
} Row;

/* What is peculiar to a function. */
extern const Row rows[];
extern const size_t row_count;

/* What the event of an operation may say. */
typedef struct End {
    uint32_t kind;
    xfer_status_t status;
    xfer_status_t (*provoke)(Scene *scene);
    const char *where;
} End;

extern const End ends[];
extern const size_t end_count;

/* A test of another program, a file in tests/: tests/abi/returns.py looks whether it is there. */
#define ROW_ELSEWHERE(function, status, file) \
    { #function, status, NULL, file }
#define END_ELSEWHERE(kind, status, file) \
    { kind, status, NULL, file }
/* No test can, for a reason. */
#define ROW_UNSHOWN(function, status, reason) \
    { #function, status, NULL, reason }

/* What a row answers that cannot be shown under this sanitizer. */
enum { kSkipped = 1 };

void scene_open(Scene *scene, const Mode *mode, uint32_t max_operations);
void scene_end(Scene *scene);
/* The same ref as a later version would write it. */
xfer_ref_t later_version(const xfer_ref_t *ref);
/* A ref of another region, with that access. */
xfer_ref_t ref_with(Scene *scene, uint32_t access);
/* The status of the event of that kind with the word 1. */
xfer_status_t ended(Scene *scene, uint32_t kind);

/* Makes `size` bytes at `address` memory of a device (driver.c). */
void driver_has(const void *address, size_t size);

#endif
