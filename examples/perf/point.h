/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands: each measures its points and fills a report. */
#ifndef PERF_POINT_H
#define PERF_POINT_H

#include "report.h"
#include "session.h"

/* put, get, rate, pages, latency, message and limits. */
void measure_points(struct report *report);

/* One round of first contacts, by the plain sockets and by libxfer, as samples of `row`. */
void measure_raw_connect(struct session *session, struct row *row, size_t round);
void measure_connect(struct report *report);

void measure_idle(struct report *report);

#endif
