/* SPDX-License-Identifier: Apache-2.0 */
#include "looped.h"

#include <err.h>
#include <errno.h>

#include "engine.h"

/* The engine is opened and joined where its loop runs, and keeps the loop going in between. */
static void *run_loop(void *argument) {
    struct looped *looped = argument;
    xfer_error_t error;
    if (uv_loop_init(&looped->loop) != 0) errx(1, "uv_loop_init");
    looped->options.uv_loop = &looped->loop;
    must(xfer_engine_open(&looped->options, &looped->engine, &error), "xfer_engine_open", &error);
    sem_post(&looped->opened);
    uv_run(&looped->loop, UV_RUN_DEFAULT);
    must(xfer_engine_join(looped->engine, XFER_NONE), "xfer_engine_join", NULL);
    uv_run(&looped->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&looped->loop) != 0) errx(1, "uv_loop_close");
    return NULL;
}

xfer_engine_t *looped_open(struct looped *looped, const xfer_engine_options_t *options) {
    looped->options = *options;
    sem_init(&looped->opened, 0, 0);
    if (pthread_create(&looped->thread, NULL, run_loop, looped) != 0) errx(1, "thread");
    while (sem_wait(&looped->opened) != 0 && errno == EINTR)
        continue;
    return looped->engine;
}

void looped_close(struct looped *looped) {
    must(xfer_engine_close(looped->engine), "xfer_engine_close", NULL);
    pthread_join(looped->thread, NULL);
    sem_destroy(&looped->opened);
}
