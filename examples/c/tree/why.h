/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something failed, in one sentence for a person: filled where it happens, shown where it is
 * known to whom.
 */
#ifndef TREE_WHY_H
#define TREE_WHY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <xfer/xfer.h>

struct why {
    char text[512];
};

/* Returns false, so that a function can end with `return fail(why, ...)`. */
__attribute__((format(printf, 2, 3))) static inline bool fail(struct why *why, const char *format,
                                                              ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return false;
}

static inline bool fail_status(struct why *why, const char *what, xfer_status_t status) {
    return fail(why, "%s: %s (%s)", what, xfer_status_text(status), xfer_status_name(status));
}

#endif
