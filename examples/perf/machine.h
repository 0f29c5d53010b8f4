/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and when it was measured. */
#ifndef PERF_MACHINE_H
#define PERF_MACHINE_H

struct machine {
    char date[32]; /* "2026-11-23T06:33:00Z" */
    char host[65];
    char kernel[140]; /* "Linux 6.1.0-18-amd64" */
    char cpu[128];    /* the model, as the kernel names it */
};

void machine_look(struct machine *machine);

#endif
