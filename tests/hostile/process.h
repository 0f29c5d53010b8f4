/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs here say of their own process: open descriptors, memory, and whether bytes that
 * must not change did.
 */
#pragma once

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* The bytes of word `i` of memory that never changes. */
static inline uint64_t pattern(uint64_t i) {
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t sum_of(const uint64_t *words, uint64_t bytes) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < bytes / 8; ++i)
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Open descriptors; the one that counts them is among them at each count. */
static inline uint64_t descriptors(void) {
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        ++count;
    if (folder) closedir(folder);
    return count;
}

/* KiB of memory that the process has now. */
static inline uint64_t resident(void) {
    unsigned long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &all, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}
