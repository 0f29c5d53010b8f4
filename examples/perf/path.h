/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bytes go by. */
#ifndef PERF_PATH_H
#define PERF_PATH_H

#include "session.h"

enum path {
    PATH_TCP,
    PATH_NEAR,        /* rings in shared memory, and perhaps more */
    PATH_NEAR_RINGS,  /* looked at: what was put or got went by the rings */
    PATH_NEAR_KERNEL, /* copied by the initiator, through the kernel */
    PATH_NEAR_MAPPED  /* copied by the initiator, within its mapping of the region */
};

const char *path_name(enum path path);

/* Whether `options` let the engines be neighbours. */
bool path_may_be_near(const struct options *options);

/* Waits until the client's connection, if the engines are neighbours, has got its local lane. They
 * have to have moved something. */
enum path path_find(const struct options *options, struct client *client);

/* How operations of `plan` move on a near path. Moves some. */
enum path path_look(struct session *session, struct client *client, const struct plan *plan);

#endif
