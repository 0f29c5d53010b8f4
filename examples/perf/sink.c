/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "engine.h"

static void receive(struct sink *sink, uint64_t buffer) {
    xfer_status_t status = xfer_recv(sink->engine, NULL, sink->buffers + buffer * sink->capacity,
                                     sink->capacity, TAG_THERE, UINT64_MAX, buffer, NULL);
    if (status != XFER_ECLOSED) must(status, "xfer_recv", NULL);
}

void sink_start(struct sink *sink, xfer_engine_t *engine, const struct plan *most) {
    *sink = (struct sink){.engine = engine, .capacity = most->size};
    /* The sender may know of one before it is taken here, and send the next. */
    uint64_t count = 2 * most->window;
    sink->buffers = calloc(count, most->size);
    if (sink->buffers == NULL) err(1, "messages");
    for (uint64_t i = 0; most->op == OP_MESSAGE && i < count; i++)
        receive(sink, i);
}

void sink_expect(struct sink *sink, uint64_t count) {
    atomic_store(&sink->taken, 0);
    atomic_store(&sink->wanted, count);
}

void sink_check(struct sink *sink, uint8_t *memory, uint64_t length) {
    sink->checked_length = length;
    atomic_store(&sink->checked, memory);
}

/* Number `place` of a run. Messages come in the order in which they were sent; a notification says
 * its number. */
static void take(struct sink *sink, const xfer_event_t *event, const void *bytes, uint64_t length,
                 uint64_t place) {
    uint8_t *checked = atomic_load_explicit(&sink->checked, memory_order_acquire);
    if (checked != NULL && length > 0 && place < sink->checked_length / length)
        memcpy(checked + place * length, bytes, length);
    /* Only the engine's thread counts while a run lasts. */
    uint64_t taken = atomic_load_explicit(&sink->taken, memory_order_relaxed) + 1;
    atomic_store_explicit(&sink->taken, taken, memory_order_relaxed);
    if (taken != atomic_load_explicit(&sink->wanted, memory_order_relaxed)) return;
    if (event->ep == NULL) errx(1, "the sender of the last message is gone");
    must(xfer_send(event->ep, NULL, 0, TAG_BACK, 0, NULL), "xfer_send", NULL);
}

void sink_event(struct sink *sink, const xfer_event_t *event) {
    if (sink->engine == NULL) return;
    if (event->kind == XFER_EVENT_NOTIFY) {
        must(event->status, "notification", NULL);
        take(sink, event, event->data, event->data_length, event->tag);
        return;
    }
    if (event->kind != XFER_EVENT_RECV) return;
    if (event->status == XFER_ECLOSED || event->status == XFER_ECANCELED) return;
    must(event->status, "message", NULL);
    take(sink, event, sink->buffers + event->user * sink->capacity, event->bytes,
         atomic_load_explicit(&sink->taken, memory_order_relaxed));
    receive(sink, event->user);
}

void sink_end(struct sink *sink) {
    free(sink->buffers);
    *sink = (struct sink){0};
}
