/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of what a tree consists of, and where in the pack the bytes of each file are.
 *
 * On the wire, little-endian: "xfertre2", u64 count, u64 data size, u64 disk bytes, then for each
 * entry u64 offset, u64 size, i64 seconds, u32 nanoseconds, u16 kind, u16 mode, u32 bytes of the
 * path with its NUL, u32 bytes of the link's target with its NUL (0: none), path, target.
 *
 * Directories come first, each behind the one that it lies in, by strcmp; then links; then files,
 * whose offsets rise and which do not overlap. All of them lie in directories that are listed, so
 * that no path can lead through a link.
 */
#ifndef TREE_MANIFEST_H
#define TREE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "why.h"

enum entry_kind { ENTRY_DIRECTORY, ENTRY_LINK, ENTRY_FILE };

struct entry {
    enum entry_kind kind;
    uint32_t mode;   /* permission bits */
    uint64_t offset; /* of a file's bytes in the pack */
    uint64_t size;
    int64_t seconds; /* of the last modification */
    uint32_t nanoseconds;
    char *path;   /* relative to the root of the tree */
    char *target; /* of a link, else NULL */
};

struct manifest {
    struct entry *entries;
    uint64_t count;
    uint64_t capacity;
    uint64_t data_size;
    uint64_t disk_bytes; /* what the files take at the server: less than their size if sparse */
};

/* Adds an entry and takes its strings, also when it fails. */
bool manifest_add(struct manifest *manifest, struct entry entry);

uint64_t manifest_file_count(const struct manifest *manifest);

/* Bytes of all files, without the gaps between them. */
uint64_t manifest_file_bytes(const struct manifest *manifest);

/* The manifest as bytes, to be freed by the caller; NULL when out of memory. */
uint8_t *manifest_encode(const struct manifest *manifest, uint64_t *size);

/* Reads a manifest that came from a peer and believes nothing of it. */
bool manifest_decode(struct manifest *manifest, const uint8_t *bytes, uint64_t size,
                     struct why *why);

/* Whether `bytes` begin as a manifest does. */
bool manifest_is_one(const uint8_t *bytes, uint64_t size);

void manifest_free(struct manifest *manifest);

#endif
