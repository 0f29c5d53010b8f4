/* SPDX-License-Identifier: Apache-2.0
 *
 * The initiator's relation to the serving process. */
#ifndef PERF_SESSION_H
#define PERF_SESSION_H

#include "control.h"
#include "limits.h"
#include "options.h"

struct session {
    const struct options *options;
    int control;
    int data[MAX_STREAMS]; /* of the raw limits; -1: not connected */
    char host[256];
    uint16_t raw_port;
    uint8_t *memory;
    uint64_t length;
    pid_t owner; /* the process, and where its buffer lies there */
    uint64_t owner_memory;
    uint8_t *mapped; /* a memfd of the same length, for the limits; NULL: none was needed yet */
    struct partner partner;
};

/* What one run cost. */
struct cost {
    double seconds;
    double cpu; /* seconds of both sides */
};

/* Starts the serving process, or reaches it on its host; both sides get a buffer of `length` bytes.
 * `ring` is as of partner_start, if one may be needed. */
void session_open(struct session *session, const struct options *options, uint64_t length,
                  uint64_t ring);
void session_close(struct session *session);

struct answer session_ask(struct session *session, enum request_kind kind, uint64_t number,
                          const struct plan *plan);

/* Opens the owner's engine and writes the URI at which ours can reach it. */
void session_engine(struct session *session, char *uri, size_t capacity);

/* A raw run of both sides. `times`, if not NULL, receives the nanoseconds of each operation. */
struct cost session_raw(struct session *session, const struct plan *plan, double *times);

/* The same on one host: copies by this process, and turns with another. */
struct cost session_near(struct session *session, enum near_way way, const struct plan *plan,
                         double *times);
struct cost session_turns(struct session *session, const struct plan *plan, double *times);
struct cost session_ring(struct session *session, const struct plan *plan, double *times);

/* The same by libxfer. */
struct cost session_xfer(struct session *session, struct client *client, const struct plan *plan,
                         double *times);

/* Moves the blocks of `plan` once and compares every byte at the destination. */
void session_verify(struct session *session, struct client *client, const struct plan *plan);

#endif
