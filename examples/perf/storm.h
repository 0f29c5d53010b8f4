/* SPDX-License-Identifier: Apache-2.0
 *
 * How many engines connect that all do so at once: to one, or each to each. */
#ifndef PERF_STORM_H
#define PERF_STORM_H

#include "report.h"

void measure_storm(struct report *report);

/* No user saw a failure, and there were exactly as many connections as there are pairs. */
bool storm_passed(const struct storm *storm, size_t rounds);

/* The process of a part of them, at the other end of its control channel. */
void storm_take_part(int control);

#endif
