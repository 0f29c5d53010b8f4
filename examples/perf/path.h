/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bytes go by. */
#ifndef PERF_PATH_H
#define PERF_PATH_H

#include "session.h"

enum path {
    PATH_TCP,
    PATH_ADAPTER,     /* RDMA, beside a TCP connection */
    PATH_NEAR,        /* rings in shared memory, and perhaps more */
    PATH_NEAR_RINGS,  /* looked at: what was put or got went by the rings */
    PATH_NEAR_KERNEL, /* copied by the initiator, through the kernel */
    PATH_NEAR_MAPPED  /* copied by the initiator, within its mapping of the region */
};

/* With the adapters' ports, if the client's bytes go by them; such a name is valid until the next
 * call. */
const char *path_name(enum path path, struct client *client);

/* Whether it is one that only two processes of one host have. */
bool path_is_near(enum path path);

/* Whether `options` let the engines be neighbours. */
bool path_may_be_near(const struct options *options);

/* Waits until the client's connection has got its local lane, if the engines are neighbours, or its
 * path by adapters, if they have some that meet. They have to have moved something. */
enum path path_find(const struct options *options, struct client *client);

/* How operations of `plan` move, where path_find has found `path`. Moves some. */
enum path path_look(struct session *session, struct client *client, enum path path,
                    const struct plan *plan);

#endif
