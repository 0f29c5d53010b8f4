/* SPDX-License-Identifier: Apache-2.0 */
#include "point.h"

#include <err.h>
#include <stdlib.h>

#include "limits.h"
#include "ways.h"

/* A copy of some bytes takes nanoseconds, and every one that is timed leaves a number. */
enum { MOST_TIMED = 500000 };

/* ---- which points ---- */

static struct row *add_row(struct report *report, enum row_kind kind, uint64_t size) {
    struct row *row = &report->rows[report->row_count++];
    row->kind = kind;
    row->plan = (struct plan){.size = size, .window = 1};
    return row;
}

static void add_blocks(struct report *report, bool get) {
    const struct options *options = report->options;
    for (size_t s = 0; s < options->sizes.count; s++) {
        for (size_t w = 0; w < options->windows.count; w++) {
            struct row *row = add_row(report, ROW_BLOCKS, options->sizes.values[s]);
            row->plan.window = options->windows.values[w];
            row->plan.get = get;
        }
    }
}

static void add_pages(struct report *report) {
    const struct options *options = report->options;
    struct row *row = add_row(report, ROW_PAGES, options->pages * options->page_size);
    row->plan.page_size = options->page_size;
    row->plan.get = options->get;
}

static void add_latency(struct report *report, uint64_t size) {
    add_row(report, ROW_LATENCY, size)->plan.get = report->options->get;
}

static void add_message(struct report *report, uint64_t size) {
    add_row(report, ROW_MESSAGE, size)->plan.message = true;
}

static void add_rows(struct report *report) {
    const struct list *sizes = &report->options->sizes;
    switch (report->options->command) {
    case COMMAND_PUT:
    case COMMAND_GET:
        add_blocks(report, report->options->command == COMMAND_GET);
        return;
    case COMMAND_PAGES:
        add_pages(report);
        return;
    case COMMAND_LATENCY:
        for (size_t s = 0; s < sizes->count; s++)
            add_latency(report, sizes->values[s]);
        return;
    case COMMAND_MESSAGE:
        for (size_t s = 0; s < sizes->count; s++)
            add_message(report, sizes->values[s]);
        return;
    default:
        add_blocks(report, false);
        add_pages(report);
        add_latency(report, 64);
        add_message(report, 64);
        add_row(report, ROW_CONNECT, FIRST_CONTACT_BYTES);
        return;
    }
}

static uint64_t memory_needed(const struct report *report) {
    uint64_t most = FIRST_CONTACT_BYTES;
    for (size_t i = 0; i < report->row_count; i++) {
        const struct plan *plan = &report->rows[i].plan;
        if (plan->size > UINT64_MAX / plan->window) errx(2, "too much memory");
        /* What a message is answered with lies behind it. */
        uint64_t needed = plan->size * plan->window * (plan->message ? 2 : 1);
        if (needed > most) most = needed;
    }
    return most;
}

/* ---- one round ---- */

/* No more operations than libxfer does in the wanted time. */
static void limit_count(struct session *session, struct client *client, struct plan *plan) {
    enum { PROBE = 64 };
    uint64_t wanted = plan->count;
    plan->count = PROBE;
    client_prepare(client, plan, session->memory);
    double each = session_xfer(session, client, plan, NULL).seconds / PROBE;
    client_forget(client);
    double most = session->options->seconds / each;
    plan->count = (double)wanted < most ? wanted : (uint64_t)most;
}

/* A run has as many operations as the plainest limit does in the wanted time, and where each is
 * timed no more than libxfer does: between two processes of one host the limit can be a thousand
 * times as fast. */
static void choose_count(struct session *session, struct client *client, struct point *point) {
    const struct options *options = session->options;
    struct plan *plan = &point->row->plan;
    uint64_t least = 2 * plan->window;
    if (options->bytes != 0) {
        plan->count = options->bytes / plan->size;
    } else {
        plan->count = (64U << 20) / plan->size;
        if (plan->count > 500) plan->count = 500;
        if (plan->count < 4) plan->count = 4;
        plan->count = (uint64_t)(options->seconds / way_probe(session, point));
        if (row_is_time(point->row) && plan->count > MOST_TIMED) plan->count = MOST_TIMED;
        if (row_is_time(point->row) && client != NULL) limit_count(session, client, plan);
    }
    if (plan->count < least) plan->count = least;
}

static void measure_round(struct session *session, struct client *client, struct point *point,
                          size_t round) {
    struct row *row = point->row;
    double *times = NULL;
    if (row_is_time(row) && row->kind != ROW_CONNECT) {
        times = calloc(row->plan.count, sizeof times[0]);
        if (times == NULL) err(1, "times");
    }
    row->core_to_core[round] = core_to_core_ns();
    for (size_t way = 0; way < row->limit_count; way++)
        way_measure(session, point, way, round, times);
    if (client != NULL) {
        client_prepare(client, &row->plan, session->memory);
        sample_keep(&row->xfer, round, &row->plan, session_xfer(session, client, &row->plan, times),
                    times);
        client_forget(client);
        row_compare(row, round);
    }
    free(times);
}

/* It is the first operation that has engines look whether they are neighbours. */
static enum path find_path(struct session *session, struct client *client,
                           const struct plan *plan) {
    client_prepare(client, plan, session->memory);
    session_verify(session, client, plan);
    client_forget(client);
    return path_find(session->options, client);
}

void measure_points(struct report *report) {
    const struct options *options = report->options;
    size_t most = options->sizes.count * options->windows.count + 4;
    report->rows = calloc(most, sizeof report->rows[0]);
    struct point *points = calloc(most, sizeof points[0]);
    if (report->rows == NULL || points == NULL) err(1, "rows");
    add_rows(report);
    for (size_t i = 0; i < report->row_count; i++)
        points[i].row = &report->rows[i];

    struct session session;
    struct client client;
    enum path path = PATH_TCP;
    session_open(&session, options, memory_needed(report));
    if (report->with_xfer) {
        char uri[300];
        session_engine(&session, uri, sizeof uri);
        if (options->command == COMMAND_MESSAGE)
            session_ask(&session, ASK_ECHO, memory_needed(report), NULL);
        client_open(&client, &options->mode, options->key, options->key_length);
        session_ask(&session, ASK_RUN, 0, NULL);
        client_reach(&client, uri);
        session_ask(&session, ASK_REST, 0, NULL);
        path = find_path(&session, &client, &report->rows[0].plan);
    }
    for (size_t i = 0; i < report->row_count; i++) {
        struct row *row = points[i].row;
        if (report->with_xfer) {
            client_prepare(&client, &row->plan, session.memory);
            session_verify(&session, &client, &row->plan);
            if (path == PATH_NEAR) path = path_look(&session, &client, &row->plan);
            client_forget(&client);
        }
        ways_choose(&points[i], report, path);
        if (row->kind != ROW_CONNECT)
            choose_count(&session, report->with_xfer ? &client : NULL, &points[i]);
    }
    if (report->with_xfer) report->path = path_name(path);
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
