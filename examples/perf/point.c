/* SPDX-License-Identifier: Apache-2.0 */
#include "point.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"

/* How a limit moves the bytes of a row. */
struct way {
    const char *name;
    bool acked, spin, copy;
};

static const struct way kStream = {.name = "stream"};
static const struct way kAcked = {.name = "acked, blocking", .acked = true};
static const struct way kAckedSpin = {.name = "acked, spinning", .acked = true, .spin = true};
static const struct way kMemcpy = {.name = "memcpy", .copy = true};
static const struct way kConnect = {.name = "connect + 4 KiB"};

struct point {
    struct row *row;
    const struct way *ways[MAX_LIMITS];
};

static void add_way(struct point *point, const struct way *way, bool fair) {
    struct row *row = point->row;
    point->ways[row->limit_count] = way;
    row->fair[row->limit_count] = fair;
    row->limits[row->limit_count++].name = way->name;
}

/* ---- which points ---- */

static void add_blocks(struct report *report, struct point *points, bool get) {
    const struct options *options = report->options;
    for (size_t s = 0; s < options->sizes.count; s++) {
        for (size_t w = 0; w < options->windows.count; w++) {
            struct point *point = &points[report->row_count];
            point->row = &report->rows[report->row_count++];
            point->row->kind = ROW_BLOCKS;
            point->row->plan = (struct plan){
                .size = options->sizes.values[s], .window = options->windows.values[w], .get = get};
            add_way(point, &kStream, true);
            add_way(point, &kAcked, true);
            add_way(point, &kAckedSpin, true);
            if (!report->with_xfer) add_way(point, &kMemcpy, false);
        }
    }
}

static void add_pages(struct report *report, struct point *points) {
    const struct options *options = report->options;
    struct point *point = &points[report->row_count];
    point->row = &report->rows[report->row_count++];
    point->row->kind = ROW_PAGES;
    point->row->plan = (struct plan){.size = options->pages * options->page_size,
                                     .page_size = options->page_size,
                                     .window = 1,
                                     .get = options->get};
    add_way(point, &kAcked, true);
    add_way(point, &kAckedSpin, true);
}

/* Engines that sleep are compared with the blocking round trip, engines that spin with the spinning
 * one. */
static void add_latency(struct report *report, struct point *points, uint64_t size) {
    const struct options *options = report->options;
    bool spins = options->mode.busy || options->mode.spin_us > 0;
    struct point *point = &points[report->row_count];
    point->row = &report->rows[report->row_count++];
    point->row->kind = ROW_LATENCY;
    point->row->plan = (struct plan){.size = size, .window = 1, .get = options->get};
    add_way(point, &kAcked, !report->with_xfer || !spins);
    add_way(point, &kAckedSpin, !report->with_xfer || spins);
}

static void add_connect(struct report *report, struct point *points) {
    struct point *point = &points[report->row_count];
    point->row = &report->rows[report->row_count++];
    point->row->kind = ROW_CONNECT;
    point->row->plan = (struct plan){.size = FIRST_CONTACT_BYTES, .window = 1};
    add_way(point, &kConnect, true);
}

static void add_points(struct report *report, struct point *points) {
    switch (report->options->command) {
    case COMMAND_PUT:
    case COMMAND_GET:
        add_blocks(report, points, report->options->command == COMMAND_GET);
        return;
    case COMMAND_PAGES:
        add_pages(report, points);
        return;
    case COMMAND_LATENCY:
        for (size_t s = 0; s < report->options->sizes.count; s++)
            add_latency(report, points, report->options->sizes.values[s]);
        return;
    default:
        add_blocks(report, points, false);
        add_pages(report, points);
        add_latency(report, points, 64);
        add_connect(report, points);
        return;
    }
}

static uint64_t memory_needed(const struct report *report) {
    uint64_t most = FIRST_CONTACT_BYTES;
    for (size_t i = 0; i < report->row_count; i++) {
        const struct plan *plan = &report->rows[i].plan;
        if (plan->size > UINT64_MAX / plan->window) errx(2, "too much memory");
        if (plan->size * plan->window > most) most = plan->size * plan->window;
    }
    return most;
}

/* ---- one sample ---- */

static void keep(struct series *series, size_t round, const struct plan *plan, struct cost cost,
                 double *times) {
    double bytes = (double)plan->size * (double)plan->count;
    series->cpu[round] = cost.cpu / (bytes / 1e9);
    series->value[round] = bytes / cost.seconds / 1e9;
    if (times == NULL) return;
    series->p99[round] = percentile(times, plan->count, 0.99) / 1e3;
    series->value[round] = percentile(times, plan->count, 0.5) / 1e3;
}

static struct plan plan_of(const struct row *row, const struct way *way) {
    struct plan plan = row->plan;
    plan.acked = way->acked;
    plan.spin = way->spin;
    return plan;
}

static void measure_limit(struct session *session, struct point *point, size_t way, size_t round,
                          double *times) {
    struct row *row = point->row;
    if (row->kind == ROW_CONNECT) {
        measure_raw_connect(session, row, round);
    } else if (point->ways[way]->copy) {
        uint64_t footprint = row->plan.size * row->plan.window;
        row->limits[way].value[round] = memcpy_rate(footprint, session->options->seconds / 4);
    } else {
        struct plan plan = plan_of(row, point->ways[way]);
        keep(&row->limits[way], round, &plan, session_raw(session, &plan, times), times);
    }
}

/* A run has as many operations as the plain acknowledged exchange does in the wanted time. */
static void choose_count(struct session *session, struct row *row) {
    const struct options *options = session->options;
    struct plan *plan = &row->plan;
    uint64_t least = 2 * plan->window;
    if (options->bytes != 0) {
        plan->count = options->bytes / plan->size;
    } else {
        plan->count = (64U << 20) / plan->size;
        if (plan->count > 500) plan->count = 500;
        if (plan->count < 4) plan->count = 4;
        struct plan probe = plan_of(row, &kAcked);
        double seconds = session_raw(session, &probe, NULL).seconds / (double)probe.count;
        plan->count = (uint64_t)(options->seconds / seconds);
    }
    if (plan->count < least) plan->count = least;
}

static void measure_round(struct session *session, struct client *client, struct point *point,
                          size_t round) {
    struct row *row = point->row;
    double *times = NULL;
    if (row->kind == ROW_LATENCY) {
        times = calloc(row->plan.count, sizeof times[0]);
        if (times == NULL) err(1, "times");
    }
    row->core_to_core[round] = core_to_core_ns();
    for (size_t way = 0; way < row->limit_count; way++)
        measure_limit(session, point, way, round, times);
    if (client != NULL) {
        client_prepare(client, &row->plan, session->memory);
        keep(&row->xfer, round, &row->plan, session_xfer(session, client, &row->plan, times),
             times);
        client_forget(client);
        row_compare(row, round);
    }
    free(times);
}

void measure_points(struct report *report) {
    const struct options *options = report->options;
    size_t most = options->sizes.count * options->windows.count + 3;
    report->rows = calloc(most, sizeof report->rows[0]);
    struct point *points = calloc(most, sizeof points[0]);
    if (report->rows == NULL || points == NULL) err(1, "rows");
    add_points(report, points);

    struct session session;
    struct client client;
    session_open(&session, options, memory_needed(report));
    if (report->with_xfer) {
        char uri[300];
        session_engine(&session, uri, sizeof uri);
        client_open(&client, &options->mode, options->key, options->key_length);
        session_ask(&session, ASK_RUN, 0, NULL);
        client_reach(&client, uri);
        session_ask(&session, ASK_REST, 0, NULL);
    }
    for (size_t i = 0; i < report->row_count; i++) {
        struct row *row = points[i].row;
        if (row->kind != ROW_CONNECT) choose_count(&session, row);
        if (!report->with_xfer) continue;
        client_prepare(&client, &row->plan, session.memory);
        session_verify(&session, &client, &row->plan);
        client_forget(&client);
    }
    for (size_t round = 0; round < options->rounds; round++) {
        for (size_t i = 0; i < report->row_count; i++)
            measure_round(&session, report->with_xfer ? &client : NULL, &points[i], round);
    }
    for (size_t i = 0; i < report->row_count; i++)
        row_conclude(&report->rows[i], options->rounds);
    if (report->with_xfer) {
        client_close(&client);
        session_ask(&session, ASK_ENGINE_END, 0, NULL);
    }
    session_close(&session);
    free(points);
}
