/* SPDX-License-Identifier: Apache-2.0
 *
 * The serving process: owns the memory that is written and read, and does what the control channel
 * asks. */
#ifndef PERF_SERVER_H
#define PERF_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct server_options {
    const char *host; /* what raw listener and engine bind */
    const void *key;
    size_t key_length;
    bool insecure;
};

/* Serves one initiator over a connected control channel, until it ends. */
void serve_one(int control, const struct server_options *options);

/* Accepts initiators at tcp://host:port, one after the other, for ever. */
void serve_forever(const char *uri, struct server_options *options);

#endif
