/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's window of operations. */
#ifndef PERF_WINDOW_H
#define PERF_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

/* Submits the operation of `block`. */
void window_submit(struct client *client, uint32_t block);

/* Goes on if `event` is of the window; returns whether it was. */
bool window_event(struct client *client, const xfer_event_t *event);

#endif
