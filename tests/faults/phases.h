/* SPDX-License-Identifier: Apache-2.0
 *
 * What is tried with faults: each phase sets a world up, arms the fault around one thing, and
 * checks what must hold whatever failed. */
#ifndef XFER_TESTS_FAULTS_PHASES_H
#define XFER_TESTS_FAULTS_PHASES_H

#include "inject.h"
#include "world.h"

typedef struct Phase {
    const char *name;
    bool first;  /* tried also in a process that has not opened an engine yet */
    bool loops;  /* one allocation fails on any thread; else, as when all do, on the caller's */
    bool memory; /* nothing else fails */
    void (*run)(const Mode *mode, const Fault *fault);
} Phase;

extern const Phase phase_open, phase_listen, phase_region, phase_connect;
/* Between engines that are connected; traffic.c. */
extern const Phase phase_message, phase_withdraw, phase_named, phase_notify, phase_retire,
    phase_pulled, phase_local, phase_lane;

/* Ends the fault, and keeps what was counted. */
void phase_disarm(void);

/* A listener without descriptors; see full.c. */
void run_full(const Mode *mode);
/* Cancels while no allocation may happen; see cancel.c. */
void run_cancel(const Mode *mode);

/* Runs one case in this process. `warm`: after a whole life without faults, so that what is made
 * once for a process is there, and allocations can be compared, too. */
void phase_run(const Phase *phase, const Mode *mode, const Fault *fault, bool warm);
extern long phase_counts[kCallCount];
extern long phase_hits;

/* False for what is known not to hold; the reasons are at the definition. */
bool phase_allows(bool warm, const Fault *fault);

#endif
