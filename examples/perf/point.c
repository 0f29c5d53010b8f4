/* SPDX-License-Identifier: Apache-2.0 */
#include "point.h"

#include <err.h>
#include <stdlib.h>

#include "limits.h"
#include "ways.h"

/* A copy of some bytes takes nanoseconds, and every one that is timed leaves a number. */
enum { MOST_TIMED = 500000 };
/* Bytes on each side, of a point that nobody has asked for. */
enum { MOST_BY_DEFAULT = 128 << 20 };

/* ---- which points ---- */

static struct row *add_row(struct report *report, enum row_kind kind, uint64_t size) {
    struct row *row = &report->rows[report->row_count++];
    row->kind = kind;
    row->plan = (struct plan){.size = size, .window = 1};
    return row;
}

static void add_block(struct report *report, enum row_kind kind, enum op op, uint64_t size,
                      uint64_t window) {
    const struct options *options = report->options;
    if (size > UINT64_MAX / window) errx(2, "too much memory");
    bool unasked = kind == ROW_BLOCKS && options->default_windows && window > 1;
    if (unasked && size * window > MOST_BY_DEFAULT) return;
    struct row *row = add_row(report, kind, size);
    row->plan.op = op;
    row->plan.window = window;
    row->plan.quiet = options->quiet;
}

static void add_blocks(struct report *report, enum row_kind kind, enum op op) {
    const struct options *options = report->options;
    for (size_t s = 0; s < options->sizes.count; s++) {
        for (size_t w = 0; w < options->windows.count; w++)
            add_block(report, kind, op, options->sizes.values[s], options->windows.values[w]);
    }
}

static void add_pages(struct report *report) {
    const struct options *options = report->options;
    struct row *row = add_row(report, ROW_PAGES, options->pages * options->page_size);
    row->plan.page_size = options->page_size;
    row->plan.op = options->read ? OP_GET : OP_PUT;
}

static void add_each(struct report *report, enum row_kind kind, enum op op) {
    const struct list *sizes = &report->options->sizes;
    for (size_t s = 0; s < sizes->count; s++)
        add_row(report, kind, sizes->values[s])->plan.op = op;
}

static void add_all(struct report *report) {
    enum { SMALL = 64 };
    add_blocks(report, ROW_BLOCKS, OP_PUT);
    add_pages(report);
    add_row(report, ROW_LATENCY, SMALL);
    add_row(report, ROW_MESSAGE, SMALL)->plan.op = OP_ECHO;
    add_block(report, ROW_RATE, OP_PUT, SMALL, SMALL);
    add_row(report, ROW_CONNECT, FIRST_CONTACT_BYTES);
}

static void add_rows(struct report *report) {
    const struct options *options = report->options;
    switch (options->command) {
    case COMMAND_PUT:
        add_blocks(report, ROW_BLOCKS, OP_PUT);
        return;
    case COMMAND_GET:
        add_blocks(report, ROW_BLOCKS, OP_GET);
        return;
    case COMMAND_RATE:
        add_blocks(report, ROW_RATE, options->op);
        return;
    case COMMAND_PAGES:
        add_pages(report);
        return;
    case COMMAND_LATENCY:
        add_each(report, ROW_LATENCY, options->op);
        return;
    case COMMAND_MESSAGE:
        add_each(report, ROW_MESSAGE, OP_ECHO);
        return;
    default:
        add_all(report);
        return;
    }
}

/* What the largest of the rows need: of memory on each side, of the ring, of the sink. */
struct needs {
    uint64_t memory, ring;
    struct plan sink;
};

static struct needs needs_of(const struct report *report) {
    struct needs needs = {.memory = FIRST_CONTACT_BYTES,
                          .sink = {.size = 1, .window = 1, .op = report->options->op}};
    for (size_t i = 0; i < report->row_count; i++) {
        const struct row *row = &report->rows[i];
        const struct plan *plan = &row->plan;
        /* What a message is answered with lies behind it. */
        uint64_t memory = plan->size * plan->window * (plan->op == OP_ECHO ? 2 : 1);
        if (memory > needs.memory) needs.memory = memory;
        bool rings = row->kind == ROW_RATE || plan->op == OP_ATOMIC || plan->op == OP_PUT_NOTIFY;
        if (rings && ring_length(plan) > needs.ring) needs.ring = ring_length(plan);
        if (plan->size > needs.sink.size) needs.sink.size = plan->size;
        if (plan->window > needs.sink.window) needs.sink.window = plan->window;
    }
    return needs;
}

/* ---- one round ---- */

/* No more operations than libxfer does in the wanted time. */
static void limit_count(struct session *session, struct client *client, struct plan *plan) {
    double seconds = session->options->seconds;
    uint64_t wanted = plan->count;
    client_prepare(client, plan, session->memory);
    for (plan->count = 4 * plan->window; plan->count < wanted; plan->count *= 4) {
        double spent = session_xfer(session, client, plan, NULL).seconds;
        if (spent < seconds / 16) continue;
        double most = (double)plan->count * seconds / spent;
        if (most < (double)wanted) wanted = (uint64_t)most;
        break;
    }
    client_forget(client);
    plan->count = wanted;
}

/* A run has as many operations as the plainest limit does in the wanted time, and no more than
 * libxfer does: between two processes of one host the limit can be a thousand times as fast. */
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
        if (row_is_timed(point->row) && plan->count > MOST_TIMED) plan->count = MOST_TIMED;
        if (client != NULL) limit_count(session, client, plan);
    }
    if (plan->count < least) plan->count = least;
}

static void measure_round(struct session *session, struct client *client, struct point *point,
                          size_t round) {
    struct row *row = point->row;
    double *times = NULL;
    if (row_is_timed(row)) {
        times = calloc(row->plan.count, sizeof times[0]);
        if (times == NULL) err(1, "times");
    }
    row->core_to_core[round] = core_to_core_ns();
    for (size_t way = 0; way < row->limit_count; way++)
        way_measure(session, point, way, round, times);
    if (client != NULL) {
        client_prepare(client, &row->plan, session->memory);
        sample_keep(&row->xfer, round, row, session_xfer(session, client, &row->plan, times),
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
    size_t most = options->sizes.count * options->windows.count + 5;
    report->rows = calloc(most, sizeof report->rows[0]);
    struct point *points = calloc(most, sizeof points[0]);
    if (report->rows == NULL || points == NULL) err(1, "rows");
    add_rows(report);
    for (size_t i = 0; i < report->row_count; i++)
        points[i].row = &report->rows[i];

    struct session session;
    struct client client;
    enum path path = PATH_TCP;
    struct needs needs = needs_of(report);
    session_open(&session, options, needs.memory, needs.ring);
    if (report->with_xfer) {
        char uri[300];
        session_engine(&session, uri, sizeof uri);
        if (options->command == COMMAND_MESSAGE)
            session_ask(&session, ASK_ECHO, needs.memory, NULL);
        if (plan_is_taken(&needs.sink)) session_ask(&session, ASK_SINK, 0, &needs.sink);
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
            path = path_look(&session, &client, path, &row->plan);
            client_forget(&client);
        }
        ways_choose(&points[i], report, path);
        if (row->kind != ROW_CONNECT)
            choose_count(&session, report->with_xfer ? &client : NULL, &points[i]);
    }
    if (report->with_xfer) report->path = path_name(path, &client);
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
