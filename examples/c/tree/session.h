/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine that is polled by one thread, which waits for one thing at a time. Peers that arrive
 * meanwhile are asked whether they lend a certain region; those that do are visitors, and are kept
 * in a list until somebody looks after them.
 */
#ifndef TREE_SESSION_H
#define TREE_SESSION_H

#include "why.h"

enum { VISITORS = 64, REGIONS = 4 };

struct visitor {
    xfer_ep_t *ep;  /* to be closed by who takes the visitor */
    xfer_ref_t ref; /* of the region that made it a visitor */
};

struct session {
    xfer_engine_t *engine;
    const char *key;                 /* the name of its file, or NULL */
    xfer_region_t *regions[REGIONS]; /* what we lend */
    unsigned region_count;
    xfer_ep_t *server;         /* who we called, or NULL */
    const char *visiting_card; /* the name of that region; NULL: nobody is asked */
    struct visitor visitors[VISITORS];
    unsigned visitor_count;
};

struct session_options {
    const char *key; /* the name of its file; NULL: none */
    uint32_t lanes;  /* data connections to each peer; 0: as many as the engine chooses */
};

bool session_open(struct session *session, const struct session_options *options, struct why *why);
void session_close(struct session *session);

/* The first SIGINT or SIGTERM is noticed by who asks session_stopped(), the second ends the
 * process.
 */
void session_stop_on_signals(void);
bool session_stopped(void);

/* Takes the next event, waiting up to `timeout_ms`; its type is 0 if there was none. */
xfer_status_t session_next(struct session *session, xfer_event_t *event, uint32_t timeout_ms);

/* Waits for the event that ends the operation `type` and returns its status. Its data lives until
 * the next wait. */
xfer_status_t session_wait(struct session *session, uint32_t type, xfer_event_t *event);

/* Asks the peer for its region `name`. */
xfer_status_t session_lookup(struct session *session, xfer_ep_t *ep, const char *name,
                             xfer_ref_t *ref, uint64_t *length);

/* Lends memory to peers under a name, until the session is closed. */
bool session_lend(struct session *session, const char *name, uint32_t access, void *address,
                  uint64_t length, struct why *why);

/* Listens, and writes at which address. */
bool session_listen(struct session *session, const char *uri, char *bound, size_t cap,
                    struct why *why);

/* Opens the endpoint `server` and connects it now, so that one that is not there is told at once.
 */
bool session_connect(struct session *session, const char *uri, struct why *why);

/* Which way bytes go to the server, as the engine itself says. */
const char *session_path(struct session *session);

#endif
