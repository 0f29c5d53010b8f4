/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings a peer's tree to a directory of ours. Fetching uses it, and so does a server that takes a
 * push: it fetches from who pushes, over the connection that the pusher made.
 */
#ifndef TREE_FETCH_H
#define TREE_FETCH_H

#include "session.h"

/* The names under which a tree is lent. */
#define TREE_MANIFEST "tree/manifest"
#define TREE_DATA "tree/data"

struct fetch_options {
    const char *label; /* of the progress bar; NULL: none */
    bool verify;       /* compare what was written with the peer's, which takes a second fetch */
};

struct fetched {
    uint64_t files;
    uint64_t bytes;       /* of files */
    uint64_t moved;       /* bytes of the pack, without those of an earlier attempt */
    double wire_seconds;  /* while bytes travelled */
    double write_seconds; /* while files were written */
    bool verified;
};

/* Fetches into `destination`, which must not exist or be an empty directory. It appears when it is
 * complete; until then it is in `destination`.part, from where the next attempt goes on. */
bool fetch_tree(struct session *session, xfer_ep_t *ep, const char *destination,
                const struct fetch_options *options, struct fetched *fetched, struct why *why);

/* What was fetched, how fast, as one line of text. */
void fetched_text(const struct fetched *fetched, char *text, size_t cap);

#endif
