/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's side of messages: each is sent back to where it came from. */
#ifndef PERF_ECHO_H
#define PERF_ECHO_H

#include <stddef.h>
#include <stdint.h>
#include <xfer/xfer.h>

enum { TAG_THERE = 1, TAG_BACK = 2 };

struct echo {
    xfer_engine_t *engine;
    uint8_t *buffers;
    uint64_t capacity; /* of each */
};

/* For messages of up to `capacity` bytes, a few at a time. */
void echo_start(struct echo *echo, xfer_engine_t *engine, uint64_t capacity);

/* To be called with every event of the engine. */
void echo_event(struct echo *echo, const xfer_event_t *event);

/* When the engine has ended. */
void echo_end(struct echo *echo);

#endif
