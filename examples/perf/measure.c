/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Of the program, its loops and its channels. */
enum { OTHER_DESCRIPTORS = 128 };

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

double cpu_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) err(1, "getrusage");
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

uint64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) err(1, "/proc/self/statm");
    unsigned long long pages = 0;
    if (fscanf(file, "%*s %llu", &pages) != 1) errx(1, "/proc/self/statm: not as expected");
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t peak_bytes(void) {
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) err(1, "/proc/self/status");
    char line[256];
    unsigned long long kilobytes = 0;
    while (kilobytes == 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmHWM: %llu kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

uint64_t descriptors_open(void) {
    int lowest = dup(STDOUT_FILENO);
    if (lowest < 0) return 0;
    close(lowest);
    return (uint64_t)lowest;
}

void allow_descriptors(uint64_t count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) err(1, "getrlimit");
    uint64_t wanted = count + OTHER_DESCRIPTORS;
    if (limit.rlim_cur >= wanted) return;
    if (limit.rlim_max < wanted)
        errx(1, "%llu descriptors are needed, and the hard limit is %llu (ulimit -Hn)",
             (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) err(1, "setrlimit");
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double percentile(double *values, size_t count, double share) {
    if (count == 0) return 0;
    qsort(values, count, sizeof values[0], by_value);
    return values[(size_t)((double)(count - 1) * share + 0.5)];
}

struct summary summarize(const double *values, size_t count) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_value);
    return (struct summary){.median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2,
                            .min = sorted[0],
                            .max = sorted[count - 1]};
}

size_t median_index(const double *values, size_t count) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_value);
    for (size_t i = 0; i < count; i++) {
        if (values[i] == sorted[(count - 1) / 2]) return i;
    }
    return 0;
}

void pin_to_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) err(1, "pin to CPU %d", cpu);
}
