/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory tree as one range of addresses: small files are copied into it one behind the other,
 * large ones are mapped into it at page boundaries. So tens of thousands of files are one region,
 * and fetching them is a few large gets. Memory is not what bounds a tree: what is mapped the
 * kernel reads when it is asked for, and copies lie in an unlinked file once they are many.
 */
#ifndef TREE_PACK_H
#define TREE_PACK_H

#include "manifest.h"

struct pack {
    uint8_t *data;
    uint64_t data_size;   /* a whole number of pages, at least one */
    uint64_t copied_size; /* of it, from its beginning: the small files */
    uint64_t map_from;    /* the size from which on files are mapped */
    uint64_t file_bytes;
    uint64_t skipped; /* devices, pipes, sockets, and what may not be read */
    struct manifest manifest;
};

/* Files must not shrink while they are lent: what is mapped and gone can no longer be sent. */
bool pack_directory(struct pack *pack, const char *directory, struct why *why);

void pack_free(struct pack *pack);

#endif
