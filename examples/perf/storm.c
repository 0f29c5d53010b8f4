/* SPDX-License-Identifier: Apache-2.0
 *
 * A round of a storm: everything is opened, then the clock runs until every engine was told of
 * every connection of its own, at both ends. To one: it is in this process, on a thread of its own;
 * the others are a crowd here, or crowds in processes of theirs. */
#include "storm.h"

#include <err.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crowd.h"

enum { MOST_BY_DEFAULT = 1024, PATIENCE_S = 60 };

struct one {
    xfer_engine_t *engine;
    uint64_t expected;
    uint64_t met;
    sem_t all_met;
    atomic_bool over;
    struct crowd_figures figures; /* of the thread of the engine, until it has ended */
};

static void on_event(const xfer_event_t *event, uint64_t user) {
    struct one *one = (struct one *)(uintptr_t)user;
    if (atomic_load(&one->over)) return;
    if (event->kind == XFER_EVENT_PEER_DOWN) figures_add_failure(&one->figures, event);
    if (event->kind != XFER_EVENT_PEER) return;
    one->figures.ready_ns = now_ns();
    one->figures.descriptors = descriptors_open();
    if (++one->met == one->expected) sem_post(&one->all_met);
}

static void one_open(struct one *one, struct crowd_order *order) {
    *one = (struct one){.expected = order->engines};
    sem_init(&one->all_met, 0, 0);
    xfer_engine_options_t options = engine_options(&order->mode, order->key, order->key_length);
    options.dispatch = XFER_DISPATCH_THREAD;
    options.io_threads = XFER_NONE;
    options.on_event = on_event;
    options.user = (uintptr_t)one;
    if (order->engines > MOST_BY_DEFAULT) options.max_connections = (uint32_t)order->engines;
    xfer_error_t error;
    must(xfer_engine_open(&options, &one->engine, &error), "xfer_engine_open", &error);
    must(xfer_engine_listen(one->engine, "tcp://127.0.0.1:0", NULL, order->one, sizeof order->one,
                            &error),
         "xfer_engine_listen", &error);
}

/* When all others say that they have met it. */
static void one_count(struct one *one, struct crowd_figures *total) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += PATIENCE_S;
    while (sem_timedwait(&one->all_met, &limit) != 0 && errno == EINTR)
        continue;
    figures_add_engine(total, one->engine);
    atomic_store(&one->over, true);
}

/* Whom it was never told of is a failure too. */
static void one_close(struct one *one, struct crowd_figures *total) {
    must(xfer_engine_join(one->engine, XFER_NONE), "xfer_engine_join", NULL);
    sem_destroy(&one->all_met);
    one->figures.failures += one->expected - (one->met < one->expected ? one->met : one->expected);
    figures_add(total, &one->figures);
}

/* ---- a part of them in another process ---- */

static void company_open(int *control, const struct crowd_order *order) {
    *control = control_start("--crowd", -1);
    control_send(*control, order, sizeof *order);
    char opened;
    if (!control_receive(*control, &opened, sizeof opened)) errx(1, "a process of the storm ended");
}

static void company_meet(const int *controls, uint64_t count, struct crowd_figures *total) {
    for (uint64_t i = 0; i < count; i++)
        control_send(controls[i], "", 1);
    for (uint64_t i = 0; i < count; i++) {
        struct crowd_figures part;
        if (!control_receive(controls[i], &part, sizeof part))
            errx(1, "a process of the storm ended");
        figures_add(total, &part);
    }
}

void storm_take_part(int control) {
    uint64_t base = peak_bytes();
    struct crowd_order order;
    if (!control_receive(control, &order, sizeof order)) return;
    struct crowd *crowd = crowd_open(&order);
    control_send(control, "", 1);
    char word;
    if (!control_receive(control, &word, sizeof word)) return;
    struct crowd_figures figures = crowd_meet(crowd);
    figures.peak_bytes = peak_bytes();
    figures.base_bytes = base;
    control_send(control, &figures, sizeof figures);
    /* The channel ends when all have been counted. */
    control_receive(control, &word, sizeof word);
    crowd_close(crowd);
}

/* ---- rounds ---- */

static void meet_in_companies(const struct storm *storm, const struct crowd_order *order,
                              struct one *one, uint64_t *start, struct crowd_figures *total) {
    uint64_t count = storm->processes;
    int *controls = calloc(count, sizeof controls[0]);
    if (controls == NULL) err(1, "processes");
    for (uint64_t i = 0; i < count; i++) {
        struct crowd_order share = *order;
        share.engines = order->engines * (i + 1) / count - order->engines * i / count;
        company_open(&controls[i], &share);
    }
    *start = now_ns();
    company_meet(controls, count, total);
    one_count(one, total);
    for (uint64_t i = 0; i < count; i++)
        close(controls[i]);
    while (wait(NULL) > 0)
        continue;
    free(controls);
}

static void meet_here(const struct crowd_order *order, struct one *one, uint64_t *start,
                      struct crowd_figures *total) {
    struct crowd *crowd = crowd_open(order);
    *start = now_ns();
    struct crowd_figures figures = crowd_meet(crowd);
    figures_add(total, &figures);
    if (one != NULL) one_count(one, total);
    crowd_close(crowd);
}

static void run_round(const struct options *options, struct storm *storm, size_t round) {
    struct crowd_order order = {
        .engines = storm->engines, .mode = options->mode, .key_length = options->key_length};
    memcpy(order.key, options->key, sizeof order.key);
    struct crowd_figures total = {0};
    uint64_t start;
    if (storm->mesh) {
        meet_here(&order, NULL, &start, &total);
    } else {
        struct one one;
        one_open(&one, &order);
        if (storm->processes > 1)
            meet_in_companies(storm, &order, &one, &start, &total);
        else
            meet_here(&order, &one, &start, &total);
        if (storm->processes == 1) one.figures.descriptors = 0; /* the crowd saw them */
        one_close(&one, &total);
    }
    storm->ready_s[round] = (double)(total.ready_ns - start) / 1e9;
    storm->connections[round] = (double)total.ends / 2;
    storm->attempts[round] = (double)total.connects / (double)storm->expected;
    storm->accepts[round] = (double)total.accepts / (double)storm->expected;
    storm->failures += total.failures;
    if (total.descriptors > storm->descriptors) storm->descriptors = total.descriptors;
    uint64_t peak = peak_bytes() + total.peak_bytes;
    if (peak <= storm->peak_bytes) return;
    storm->peak_bytes = peak;
    storm->bytes_each =
        (double)(peak - storm->base_bytes - total.base_bytes) / (double)storm->engines;
}

void measure_storm(struct report *report) {
    const struct options *options = report->options;
    struct storm *storm = &report->storm;
    uint64_t engines = options->engines;
    *storm = (struct storm){.engines = engines,
                            .processes = options->processes,
                            .mesh = options->mesh,
                            .expected = options->mesh ? engines * (engines - 1) / 2 : engines,
                            .base_bytes = peak_bytes()};
    /* The other ends of a crowd in this process come on top of the crowd's own. */
    if (!options->mesh) allow_descriptors(engines * (options->processes > 1 ? 1 : 2));
    for (size_t round = 0; round < options->rounds; round++)
        run_round(options, storm, round);
}

bool storm_passed(const struct storm *storm, size_t rounds) {
    for (size_t round = 0; round < rounds; round++) {
        if (storm->connections[round] != (double)storm->expected) return false;
    }
    return storm->failures == 0;
}
