/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of the command line. One that makes no sense ends the program. */
#ifndef PERF_WORDS_H
#define PERF_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_SIZES = 32 };

struct list {
    uint64_t values[MAX_SIZES];
    size_t count;
};

/* "64K" */
uint64_t parse_one(const char *text);
/* "64K,1M" */
struct list parse_list(const char *text);

/* Returns the place of `word` in a list of `count` words. */
size_t one_of(const char *word, const char *const *words, size_t count);

#endif
