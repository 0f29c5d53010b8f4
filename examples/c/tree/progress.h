/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on stderr: bytes, rate, time left. A terminal sees one line that changes, a file
 * sees one now and then.
 */
#ifndef TREE_PROGRESS_H
#define TREE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label;
    uint64_t total;
    uint64_t done;
    double began;
    double shown;
    bool terminal;
};

double now_seconds(void);

void progress_begin(struct progress *progress, const char *label, uint64_t total);
void progress_set(struct progress *progress, uint64_t done);
/* All of it is done. */
void progress_end(struct progress *progress);

#endif
