/* SPDX-License-Identifier: Apache-2.0
 *
 * Every struct that a call takes, in every call that takes it; and what a refused call says. */
#ifndef XFER_TESTS_API_INPUTS_H
#define XFER_TESTS_API_INPUTS_H

#include <xfer/rdma.h>

#include "fixture.h"

/* Two engines that log at debug, and what the calls are given. */
typedef struct Scene {
    Pair pair;
    xfer_batch_t *batch;
    uint8_t *memory;
    xfer_ref_t words; /* of what allows atomics */
} Scene;

void scene_open(Scene *scene);
void scene_open_in(Scene *scene, const Mode *mode);

/* Calls with that struct, and sound arguments beside it. What it opens need not be closed. */
typedef xfer_status_t (*TakeIt)(Scene *scene, const void *input, xfer_error_t *err);

typedef struct Input {
    const char *name;
    uint32_t size;
    size_t reserved; /* where such a field is, or NONE */
    const char *field;
    const char *function;
    TakeIt take;
    bool has_err;
    size_t flags_at; /* where its flags are; 0: it has none, or they are the engine's */
    uint32_t flags;  /* those that the call knows */
} Input;
#define NONE SIZE_MAX
extern const Input inputs[];
extern const size_t input_count;

/* Any of those structs, and what a later version of it could have behind. */
typedef union Given {
    uint64_t aligned;
    uint32_t size;
    uint8_t bytes[8192];
} Given;

/* Zeroes it, but for its size and the fields without which the call refuses it. Returns where the
 * last of those ends, 0: there are none. */
size_t fill_needed(Scene *scene, const Input *input, Given *given);

/* One refusal: its status, and `part` in the error and in the log. The options of an engine that
 * can't be read name no log. */
void assert_refusal(Scene *scene, const Input *input, const void *bytes, xfer_status_t wanted,
                    const char *part);

/* The last line of a refusal; other lines of the engine may come at any time. */
enum { kLine = 512 };
void take_refusal(char *line, uint32_t *level);
/* An on_log that keeps it. */
void record_refusal(uint32_t level, const char *text, uint64_t user);

void assert_has(const char *text, const char *part);

#endif
