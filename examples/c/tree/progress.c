/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 28 };
static const double kTerminalEvery = 0.05;
static const double kFileEvery = 1.0;

double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void show(struct progress *progress, double now) {
    progress->shown = now;
    double elapsed = now - progress->began;
    double share = progress->total ? (double)progress->done / (double)progress->total : 1;
    double rate = elapsed > 0 ? (double)progress->done / elapsed : 0;
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < (int)(share * BAR_CELLS) ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    char left[32] = "";
    if (share > 0.02 && share < 1) { /* before that it would be a guess */
        unsigned seconds = (unsigned)((double)(progress->total - progress->done) / rate + 0.5);
        snprintf(left, sizeof left, "%u:%02u left", seconds / 60, seconds % 60);
    }
    fprintf(stderr, "%s%-8s [%s] %3.0f%%  %.0f of %.0f MB  %.2f GB/s  %-12s%s",
            progress->terminal ? "\r" : "", progress->label, bar, share * 100,
            (double)progress->done / 1e6, (double)progress->total / 1e6, rate / 1e9, left,
            progress->terminal ? "" : "\n");
}

void progress_begin(struct progress *progress, const char *label, uint64_t total) {
    double now = now_seconds();
    *progress = (struct progress){.label = label,
                                  .total = total,
                                  .began = now,
                                  .shown = now,
                                  .terminal = isatty(STDERR_FILENO) == 1};
}

void progress_set(struct progress *progress, uint64_t done) {
    progress->done = done;
    if (done == progress->total) return; /* the end shows that */
    double now = now_seconds();
    if (now - progress->shown >= (progress->terminal ? kTerminalEvery : kFileEvery))
        show(progress, now);
}

void progress_end(struct progress *progress) {
    progress->done = progress->total;
    show(progress, now_seconds());
    if (progress->terminal) fputc('\n', stderr);
}
