/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks, the use of the CPU, and what is made of many samples. */
#ifndef PERF_MEASURE_H
#define PERF_MEASURE_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_ROUNDS = 64 };

/* What one way of moving the bytes did, one sample a round. */
struct series {
    const char *name;
    double value[MAX_ROUNDS]; /* GB/s or microseconds */
    double cpu[MAX_ROUNDS];   /* CPU seconds of both sides per GB moved */
    double p99[MAX_ROUNDS];   /* microseconds; 0 where no single operation was timed */
};

struct summary {
    double median, min, max;
};

uint64_t now_ns(void);

/* CPU seconds of this process, user and system. */
double cpu_seconds(void);

/* Bytes of this process in memory. */
uint64_t resident_bytes(void);

/* The most that it ever was. (ru_maxrss would count what forked us too.) */
uint64_t peak_bytes(void);

/* Descriptors of this process: the lowest free number, as cheap as that is, and the count where
 * none below it is free. */
uint64_t descriptors_open(void);

/* Raises the limit of descriptors so that `count` connections and listeners fit; ends the program
 * if the machine does not let it. */
void allow_descriptors(uint64_t count);

/* The one of them that is the median or next below it. */
size_t median_index(const double *values, size_t count);

/* Sorts `values` and returns the one that `share` (0 to 1) of them do not exceed. */
double percentile(double *values, size_t count, double share);

/* The median of an even number of values is between the two in the middle. */
struct summary summarize(const double *values, size_t count);

/* Keeps this process on one CPU. */
void pin_to_cpu(int cpu);

#endif
