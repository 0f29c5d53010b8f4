/* SPDX-License-Identifier: Apache-2.0
 *
 * Every line that an engine logs names the engine, and those of a connection the peer. */
#ifndef LOG_LINE_H
#define LOG_LINE_H

#include <stdint.h>

/* The on_log of all engines of the fixture whose test has none of its own. Thread: any. */
void check_line(uint32_t level, const char *line, uint64_t user);

/* The first line since the last call that did not say so; NULL: there was none. */
const char *take_bad_line(void);

#endif
