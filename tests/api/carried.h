/* SPDX-License-Identifier: Apache-2.0
 *
 * By which way bytes go, as an engine describes it. XFER_TEST_CARRIED_BY names one, "adapter" or
 * "kernel" or "socket": the engines of a test begin when it is there, and one that never comes
 * fails the test. */
#ifndef XFER_TESTS_API_CARRIED_H
#define XFER_TESTS_API_CARRIED_H

#include "fixture.h"

/* XFER_TEST_CARRIED_BY; NULL: any. */
const char *wanted_way(void);
/* Bytes that lanes of its living connections have carried by `way`. */
uint64_t carried_by(xfer_engine_t *engine, const char *way);
/* Gets a byte of the region, which may be read, again and again until one goes by the wanted way.
 * No event of that but FLUSH is seen, and nothing of it is counted as put. */
void wait_way(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref);

#endif
