/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a tree that comes in the order of its manifest into a directory. At any moment what is
 * there can be told from the files' sizes alone: they are made one behind the other, each grows
 * from its beginning, and modes and times are set when all bytes are there. So who was killed can
 * go on.
 */
#ifndef TREE_WRITER_H
#define TREE_WRITER_H

#include "manifest.h"

struct writer {
    const struct manifest *manifest;
    int directory;
    int file;      /* the one that continues with the next bytes, or -1 */
    uint64_t next; /* the entry that is written next */
};

/* Makes the directories, and finds out which bytes of the pack come next: behind 0 if an earlier
 * attempt left something. */
bool writer_begin(struct writer *writer, const struct manifest *manifest, int directory,
                  uint64_t *position, struct why *why);

/* Writes the bytes of the pack from `position` on, which are the next ones. */
bool writer_write(struct writer *writer, uint64_t position, const uint8_t *bytes, uint64_t length,
                  struct why *why);

/* Makes the links, and sets modes and times. */
bool writer_finish(struct writer *writer, struct why *why);

/* Whether the files hold the same bytes as the pack has from `position` on. `next` counts on: it is
 * 0 at the beginning of the pack. */
bool writer_compare(struct writer *writer, uint64_t *next, uint64_t position, const uint8_t *bytes,
                    uint64_t length, struct why *why);

void writer_end(struct writer *writer);

#endif
