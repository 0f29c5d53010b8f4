/* SPDX-License-Identifier: Apache-2.0 */
#include "echo.h"

#include <err.h>
#include <stdlib.h>

#include "engine.h"

/* The next message may be here before the last one has left its buffer. */
enum { BUFFERS = 4 };

static void expect(struct echo *echo, uint64_t buffer) {
    xfer_status_t status = xfer_recv(echo->engine, NULL, echo->buffers + buffer * echo->capacity,
                                     echo->capacity, TAG_THERE, UINT64_MAX, buffer, NULL);
    /* The last answer may be on its way out when the engine is closed. */
    if (status != XFER_ECLOSED) must(status, "xfer_recv", NULL);
}

void echo_start(struct echo *echo, xfer_engine_t *engine, uint64_t capacity) {
    *echo = (struct echo){.engine = engine, .capacity = capacity};
    echo->buffers = calloc(BUFFERS, capacity);
    if (echo->buffers == NULL) err(1, "messages");
    for (uint64_t i = 0; i < BUFFERS; i++)
        expect(echo, i);
}

void echo_event(struct echo *echo, const xfer_event_t *event) {
    bool received = event->kind == XFER_EVENT_RECV;
    if (!received && event->kind != XFER_EVENT_SEND) return;
    if (event->status == XFER_ECLOSED || event->status == XFER_ECANCELED) return;
    if (event->status == XFER_OK && received && event->ep != NULL) {
        must(xfer_send(event->ep, echo->buffers + event->user * echo->capacity, event->bytes,
                       TAG_BACK, event->user, NULL),
             "xfer_send", NULL);
        return;
    }
    expect(echo, event->user);
}

void echo_end(struct echo *echo) {
    free(echo->buffers);
    *echo = (struct echo){0};
}
