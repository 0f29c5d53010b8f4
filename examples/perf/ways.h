/* SPDX-License-Identifier: Apache-2.0
 *
 * What libxfer is compared with: the ways in which the machine moves the same bytes. */
#ifndef PERF_WAYS_H
#define PERF_WAYS_H

#include "path.h"
#include "report.h"
#include "session.h"

struct way;

/* A row and its limits, in the same order. */
struct point {
    struct row *row;
    const struct way *ways[MAX_LIMITS];
};

/* Chooses the limits of a point whose bytes go by `path`, or all that there are if it is measured
 * without libxfer. */
void ways_choose(struct point *point, const struct report *report, enum path path);

/* One sample of limit `way` of the point. `times`, if not NULL, has room for all operations. */
void way_measure(struct session *session, struct point *point, size_t way, size_t round,
                 double *times);

/* Seconds of one operation, in a short run of the limit that is the first to count. */
double way_probe(struct session *session, const struct point *point);

/* A sample of `series` of the row. */
void sample_keep(struct series *series, size_t round, const struct row *row, struct cost cost,
                 double *times);

#endif
