/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory tree as one range of memory: small files are read into it one behind the other, large
 * ones are mapped into it at page boundaries. So tens of thousands of files are one region, and
 * fetching them is a few large gets.
 */
#ifndef TREE_PACK_H
#define TREE_PACK_H

#include "manifest.h"

struct pack {
    uint8_t *data;
    uint64_t data_size; /* a whole number of pages, at least one */
    uint64_t file_bytes;
    uint64_t skipped; /* links, devices, sockets, and files that may not be read */
    struct manifest manifest;
};

/* Files must not shrink while they are lent: what is mapped and gone can no longer be sent. */
bool pack_directory(struct pack *pack, const char *directory, struct why *why);

void pack_free(struct pack *pack);

#endif
