/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's side of messages and notifications that go one way: each is taken, and the last one
 * of a run is answered by a message. */
#ifndef PERF_SINK_H
#define PERF_SINK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <xfer/xfer.h>

#include "blocks.h"

struct sink {
    xfer_engine_t *engine; /* NULL: none was started */
    uint8_t *buffers;
    uint64_t capacity;        /* of each */
    _Atomic uint64_t taken;   /* of a run */
    _Atomic uint64_t wanted;  /* the one that is answered */
    uint8_t *_Atomic checked; /* where to the bytes are copied; NULL: nowhere */
    uint64_t checked_length;
};

/* For plans of up to the size and the window of `most`. */
void sink_start(struct sink *sink, xfer_engine_t *engine, const struct plan *most);

/* A run of `count` begins. */
void sink_expect(struct sink *sink, uint64_t count);

/* The bytes of what comes from now on are wanted at `memory`, one behind the other; NULL: no more.
 */
void sink_check(struct sink *sink, uint8_t *memory, uint64_t length);

/* To be called with every event of the engine. */
void sink_event(struct sink *sink, const xfer_event_t *event);

/* When the engine has ended. */
void sink_end(struct sink *sink);

#endif
