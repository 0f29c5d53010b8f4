/* SPDX-License-Identifier: Apache-2.0
 *
 * DEST.part, where a tree is until it is complete: "manifest", what it shall become, and "tree",
 * what there is of it. Who comes with the same manifest goes on; with another one, begins anew.
 * It is locked while a process is at it.
 */
#ifndef TREE_PARTIAL_H
#define TREE_PARTIAL_H

#include "manifest.h"

struct partial {
    char path[4096];
    int directory; /* that of DEST.part, locked; -1: none */
    int tree;
};

/* `destination` must not exist or be an empty directory. */
bool partial_open(struct partial *partial, const char *destination, const uint8_t *manifest,
                  uint64_t size, struct why *why);

/* The tree takes the name `destination`, and nothing else is left. */
bool partial_complete(struct partial *partial, const char *destination, struct why *why);

/* Takes it away, so that the next attempt begins anew. */
void partial_discard(struct partial *partial);

/* Leaves it to who comes next. */
void partial_close(struct partial *partial);

#endif
