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

/* A field of the engine's options: a number, "none", or "default" (0), which is the engine's
 * choice.
 */
uint32_t parse_choice(const char *text);
/* The same the other way round; `text` has room for 16 bytes. */
const char *choice_text(uint32_t value, char *text);

/* Returns the place of `word` in a list of `count` words. */
size_t one_of(const char *word, const char *const *words, size_t count);

#endif
