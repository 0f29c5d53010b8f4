/* SPDX-License-Identifier: Apache-2.0
 *
 * What these examples do about errors: say which call failed and why, and exit.
 */
#ifndef EXAMPLES_MUST_H
#define EXAMPLES_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <xfer/xfer.h>

/* For calls that answer with a status. */
#define MUST(call) must((call), #call, "")

/* For calls that also fill an `xfer_error_t error`, which says more than the status. */
#define MUST_ERR(call) must((call), #call, error.message)

/* For what the example itself checks. */
#define EXPECT(condition) ((condition) ? (void)0 : give_up(#condition))

static inline void must(xfer_status_t status, const char *what, const char *detail) {
    if (status == XFER_OK) return;
    fprintf(stderr, "%s\n  %s: %s\n  %s\n", what, xfer_status_name(status),
            xfer_status_text(status), detail);
    exit(1);
}

static inline void give_up(const char *what) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

#endif
