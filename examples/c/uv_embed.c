/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine as a guest of the caller's libuv loop: callbacks come in the loop's own thread,
 * between the loop's other handles, and with io_threads none there is no other thread at all. A
 * prepared put of 4 MiB is repeated for half a second while a timer of the loop ticks every 10 ms;
 * the ticks must not starve.
 */
#define _GNU_SOURCE
#include <string.h>
#include <uv.h>

#include "must.h"

enum { SIZE = 4 * 1024 * 1024 };

static uint8_t owner_memory[SIZE];
static uint8_t our_memory[SIZE];

static struct {
    xfer_engine_t *owner;
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_batch_t *batch;
    uv_timer_t timer;
    int ticks;
    int puts;
    int closed;
} app;

static void prepare_and_submit(const xfer_event_t *found) {
    xfer_ref_t ref;
    memcpy(&ref, found->data, sizeof ref);
    MUST(xfer_batch_open(app.ep, NULL, &app.batch, NULL));
    MUST(xfer_batch_put(app.batch, our_memory, &ref, 0, SIZE));
    MUST(xfer_batch_submit(app.batch, 0, NULL));
}

/* The event says applied, so the owner's bytes can be looked at, here in the same process. */
static void check_and_resubmit(void) {
    EXPECT(owner_memory[0] == our_memory[0] && owner_memory[SIZE - 1] == our_memory[SIZE - 1]);
    app.puts++;
    if (app.ticks >= 50) {
        /* Enough. Closing ends the children first, then comes CLOSED of the engine. */
        MUST(xfer_engine_close(app.engine));
        return;
    }
    memset(our_memory, app.puts, SIZE);
    MUST(xfer_batch_submit(app.batch, 0, NULL));
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    switch (event->kind) {
    case XFER_EVENT_LOOKUP:
        MUST(event->status);
        prepare_and_submit(event);
        break;
    case XFER_EVENT_BATCH:
        MUST(event->status);
        check_and_resubmit();
        break;
    case XFER_EVENT_CLOSED:
        if (event->object == app.engine) {
            app.closed++;
            MUST(xfer_engine_close(app.owner));
        } else if (event->object == app.owner) {
            app.closed++;
            uv_close((uv_handle_t *)&app.timer, NULL);
        }
        break;
    default: /* what we do not know, or do not care about */
        break;
    }
}

static void on_tick(uv_timer_t *timer) {
    (void)timer;
    app.ticks++;
    EXPECT(app.ticks < 1000); /* ten seconds */
}

int main(void) {
    xfer_error_t error = {0};
    uv_loop_t loop;
    EXPECT(uv_loop_init(&loop) == 0);
    EXPECT(uv_timer_init(&loop, &app.timer) == 0);
    EXPECT(uv_timer_start(&app.timer, on_tick, 10, 10) == 0);

    /* Both engines on the same loop. */
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_LOOP,
                                     .io_threads = XFER_NONE,
                                     .uv_loop = &loop,
                                     .on_event = on_event};
    MUST_ERR(xfer_engine_open(&options, &app.owner, &error));
    MUST_ERR(xfer_engine_open(&options, &app.engine, &error));

    char uri[256];
    MUST_ERR(xfer_engine_listen(app.owner, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
    xfer_region_options_t region_options = {
        .size = sizeof region_options, .access = XFER_WRITE, .name = "memory"};
    xfer_region_t *region = NULL;
    MUST_ERR(xfer_region_open(app.owner, &region_options, owner_memory, SIZE, &region, &error));
    MUST_ERR(xfer_ep_open(app.engine, uri, NULL, &app.ep, &error));
    MUST(xfer_ep_lookup(app.ep, "memory", 0, NULL, NULL));

    /* The loop is the caller's: it runs until nothing of ours is left in it. */
    uv_run(&loop, UV_RUN_DEFAULT);
    EXPECT(app.closed == 2 && app.puts > 0 && app.ticks >= 50);

    MUST(xfer_engine_join(app.engine, XFER_NONE));
    MUST(xfer_engine_join(app.owner, XFER_NONE));
    (void)xfer_batch_close(app.batch); /* handles whose engine ended first are only freed */
    (void)xfer_ep_close(app.ep);
    (void)xfer_region_close(region);
    EXPECT(uv_loop_close(&loop) == 0);
    printf("%d puts of 4 MiB while the timer ticked %d times\nok\n", app.puts, app.ticks);
    return 0;
}
