/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine on a uv_loop_t, as a program that has a loop of its own has it: here a thread that does
 * nothing else runs the loop. */
#ifndef PERF_LOOPED_H
#define PERF_LOOPED_H

#include <pthread.h>
#include <semaphore.h>
#include <uv.h>
#include <xfer/xfer.h>

struct looped {
    uv_loop_t loop;
    pthread_t thread;
    sem_t opened;
    xfer_engine_options_t options;
    xfer_engine_t *engine;
};

/* Returns the engine; its events arrive on the thread of the loop. */
xfer_engine_t *looped_open(struct looped *looped, const xfer_engine_options_t *options);

/* Closes the engine, and waits until it and its loop have ended. */
void looped_close(struct looped *looped);

#endif
