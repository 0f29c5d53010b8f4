/* SPDX-License-Identifier: Apache-2.0
 *
 * What was measured, and how it is shown. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "machine.h"
#include "measure.h"
#include "options.h"

enum { MAX_LIMITS = 8 };

enum row_kind { ROW_BLOCKS, ROW_RATE, ROW_PAGES, ROW_LATENCY, ROW_MESSAGE, ROW_CONNECT };

/* One line of the table: libxfer and the limits at one point. The best of the limits that count
 * (`fair`) in a round is what libxfer is compared with in that round. */
struct row {
    enum row_kind kind;
    struct plan plan;
    struct series xfer;
    struct series limits[MAX_LIMITS];
    bool fair[MAX_LIMITS];
    size_t limit_count;
    double core_to_core[MAX_ROUNDS];
    double ratio[MAX_ROUNDS];     /* for times: ours by the limit's, small is good */
    double cpu_ratio[MAX_ROUNDS]; /* ours by that of the limit that needs least */
    size_t best_of[MAX_ROUNDS];   /* the limit that the ratio of a round is to */
    size_t best;                  /* the limit that was the best one by its median */
};

struct idle {
    uint64_t connections;
    double seconds;
    double cpu_share;  /* of one CPU, of the engine's process */
    double wakeups;    /* a second */
    double bytes_each; /* resident memory that each connection added */
};

/* Engines that connect all at once, one sample a round. */
struct storm {
    uint64_t engines; /* 0: none was measured */
    uint64_t processes;
    bool mesh;
    uint64_t expected; /* connections */
    double connections[MAX_ROUNDS];
    double ready_s[MAX_ROUNDS];
    double attempts[MAX_ROUNDS]; /* for each connection that was expected */
    double accepts[MAX_ROUNDS];
    uint64_t failures; /* that users saw, in all rounds */
    uint64_t descriptors;
    uint64_t peak_bytes; /* resident, of all processes */
    uint64_t base_bytes; /* of this one before all */
    double bytes_each;   /* that each engine added, with its connections at both ends */
};

struct report {
    const struct options *options;
    struct machine machine;
    struct row *rows;
    size_t row_count;
    struct idle idle;
    struct storm storm;
    const char *path; /* what the bytes went by; NULL: nobody asked */
    bool with_xfer;
};

/* Microseconds rather than GB/s. */
bool row_is_time(const struct row *row);
/* Each operation by itself. */
bool row_is_timed(const struct row *row);
const char *row_name(const struct row *row);

/* Compares the samples of one round. */
void row_compare(struct row *row, size_t round);
/* Chooses the best limit, when all rounds were measured. */
void row_conclude(struct row *row, size_t rounds);

/* "1 MiB" */
const char *size_text(uint64_t size, char *text, size_t capacity);

void report_print(const struct report *report);
void report_write_json(const struct report *report, const char *path);
void report_write_plot(const struct report *report, const char *path);

#endif
