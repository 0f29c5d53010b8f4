/* SPDX-License-Identifier: Apache-2.0
 *
 * A proxy between two engines over TCP, which changes, holds back or ends what passes through it.
 * Its pipes are numbered from 0 as the connections came: of one connection of the library the
 * first lane, then its data lanes. One proxy at a time. */
#ifndef XFER_TESTS_API_PROXY_H
#define XFER_TESTS_API_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fixture.h"

enum { kToServer, kToClient };

/* Pipes to the engine at `server_uri`; `uri`: where the proxy can be dialed. */
void proxy_start(const char *server_uri, char *uri, size_t cap);
/* After the engines have ended. */
void proxy_end(void);

/* As pair_open_with, with the proxy between the two; and the end of all three. */
void proxy_pair_open(Pair *pair, const xfer_engine_options_t *server,
                     const xfer_engine_options_t *client, const Mode *mode, uint64_t length);
void proxy_pair_end(Pair *pair);

/* One bit changes, once, past `at` bytes of the first pipe that carries so many that way. */
void proxy_flip(int way, uint64_t at);
bool proxy_has_flipped(void);

int proxy_count(void); /* pipes so far */
/* What comes for the server by that pipe waits, until it is released; the pipe may come later. */
void proxy_hold(int pipe);
void proxy_release(int pipe);
uint64_t proxy_held(int pipe); /* bytes */
/* The end of a pipe at the client, or at both. */
void proxy_cut_client(int pipe);
void proxy_cut(int pipe);
/* So many of the next connections end at once. */
void proxy_refuse(int count);

#endif
