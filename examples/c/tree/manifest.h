/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of files that a tree consists of, and where in the pack the bytes of each are.
 *
 * On the wire, little-endian: "xfertree", u64 count, u64 data size, then for each file u64 offset,
 * u64 size, u32 mode, u32 path length with the NUL, path. Offsets rise and files do not overlap.
 */
#ifndef TREE_MANIFEST_H
#define TREE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "why.h"

struct file {
    uint64_t offset;
    uint64_t size;
    uint32_t mode; /* permission bits */
    char *path;    /* relative to the root of the tree */
};

struct manifest {
    struct file *files;
    uint64_t count;
    uint64_t capacity;
    uint64_t data_size;
};

/* Adds a file; takes `path`. */
bool manifest_add(struct manifest *manifest, struct file file);

/* Bytes of all files, without the gaps between them. */
uint64_t manifest_file_bytes(const struct manifest *manifest);

/* The manifest as bytes, to be freed by the caller; NULL when out of memory. */
uint8_t *manifest_encode(const struct manifest *manifest, uint64_t *size);

/* Reads a manifest that came from a peer and believes nothing of it. */
bool manifest_decode(struct manifest *manifest, const uint8_t *bytes, uint64_t size,
                     struct why *why);

void manifest_free(struct manifest *manifest);

#endif
