/* SPDX-License-Identifier: Apache-2.0 */
#include "ways.h"

#include "limits.h"
#include "point.h"

enum way_kind { WAY_TCP, WAY_MEMCPY, WAY_NEAR, WAY_TURNS, WAY_RING, WAY_CONNECT };

/* How a limit moves the bytes of a row. */
struct way {
    const char *name;
    enum way_kind kind;
    enum near_way near;
    bool streams, acked, windowed, spin;
};

static const struct way kStream = {.name = "stream"};
static const struct way kStreams = {.name = "streams, one a lane", .streams = true};
static const struct way kAcked = {.name = "acked, blocking", .acked = true};
static const struct way kAckedSpin = {.name = "acked, spinning", .acked = true, .spin = true};
static const struct way kWindow = {.name = "windowed, blocking", .windowed = true};
static const struct way kWindowSpin = {
    .name = "windowed, spinning", .windowed = true, .spin = true};
static const struct way kMemcpy = {.name = "memcpy", .kind = WAY_MEMCPY};
static const struct way kConnect = {.name = "connect + 4 KiB", .kind = WAY_CONNECT};
static const struct way kCopy = {.name = "memcpy, memfd", .kind = WAY_NEAR, .near = NEAR_MEMCPY};
static const struct way kStreaming = {
    .name = "non-temporal, memfd", .kind = WAY_NEAR, .near = NEAR_STREAMING};
static const struct way kKernel = {.name = "process_vm", .kind = WAY_NEAR, .near = NEAR_KERNEL};
static const struct way kWakes = {.name = "eventfd + epoll", .kind = WAY_TURNS};
static const struct way kFlags = {.name = "shared flags", .kind = WAY_TURNS, .spin = true};
static const struct way kRing = {.name = "memcpy + flag ring", .kind = WAY_RING, .spin = true};

/* ---- which ways ---- */

static void add(struct point *point, const struct way *way, bool fair) {
    struct row *row = point->row;
    point->ways[row->limit_count] = way;
    row->fair[row->limit_count] = fair;
    row->limits[row->limit_count++].name = way->name;
}

static bool is_alone(const struct report *report) {
    return !report->with_xfer;
}

/* Where the owner's memory can be mapped, and where it can't. */
static void add_near(struct point *point, const struct report *report) {
    bool made = report->options->mode.memory == MEMORY_MADE;
    enum row_kind kind = point->row->kind;
    if (made || is_alone(report)) {
        add(point, &kCopy, true);
        if (kind == ROW_BLOCKS && has_streaming_copy()) add(point, &kStreaming, true);
    }
    if (!made || is_alone(report)) add(point, &kKernel, true);
}

/* 0: nobody has asked for a number. */
static uint32_t lanes_asked(const struct mode *mode) {
    uint32_t lanes = mode->lanes == XFER_NONE ? 0 : mode->lanes;
    return lanes < MAX_STREAMS ? lanes : MAX_STREAMS;
}

static void add_tcp(struct point *point, const struct report *report, bool spins) {
    enum row_kind kind = point->row->kind;
    bool each = kind == ROW_BLOCKS || kind == ROW_PAGES || is_alone(report);
    if (kind == ROW_BLOCKS) add(point, &kStream, true);
    if (kind == ROW_BLOCKS && lanes_asked(&report->options->mode) > 1) add(point, &kStreams, true);
    add(point, &kAcked, each || !spins);
    add(point, &kAckedSpin, each || spins);
}

/* Each in a window: the other side takes part. An initiator that copies alone is no limit of that,
 * but worth knowing. */
static void add_windowed(struct point *point, const struct report *report, enum path path,
                         bool spins) {
    bool alone = is_alone(report);
    if (alone || !path_is_near(path)) {
        add(point, &kWindow, alone || !spins);
        add(point, &kWindowSpin, alone || spins);
    }
    if (path_is_near(path)) add(point, &kRing, true);
    if (path == PATH_NEAR_MAPPED && point->row->plan.op != OP_ATOMIC) add(point, &kCopy, false);
    if (path == PATH_NEAR_KERNEL) add(point, &kKernel, false);
}

/* Engines that sleep are compared with a round trip that does, engines that spin with one that
 * spins. */
void ways_choose(struct point *point, const struct report *report, enum path path) {
    const struct options *options = report->options;
    bool spins = mode_spins(&options->mode);
    enum row_kind kind = point->row->kind;
    /* Who may not copy has the rings alone, which are sockets' place. */
    bool copies = path_is_near(path) && path != PATH_NEAR_RINGS;
    bool near = is_alone(report)      ? options->to == NULL
                : kind == ROW_MESSAGE ? path_is_near(path)
                                      : copies;
    if (kind == ROW_CONNECT) {
        add(point, &kConnect, true);
        return;
    }
    uint32_t op = point->row->plan.op;
    bool takes_part = (op == OP_ATOMIC || op == OP_PUT_NOTIFY) && path_is_near(path);
    if (kind == ROW_RATE || takes_part) {
        add_windowed(point, report, is_alone(report) && options->to == NULL ? PATH_NEAR : path,
                     spins);
        return;
    }
    if (!near || is_alone(report)) add_tcp(point, report, spins);
    if (kind == ROW_BLOCKS && is_alone(report)) add(point, &kMemcpy, false);
    if (!near) return;
    if (kind != ROW_MESSAGE) {
        add_near(point, report);
        /* A copy has no threads that tell each other. */
        if (kind == ROW_LATENCY && options->submitter == SUBMIT_THREAD && !spins)
            add(point, &kWakes, false);
    } else {
        /* Not both: as many turns as fit the one would last for ever in the other. */
        if (is_alone(report) || !spins) add(point, &kWakes, true);
        if (is_alone(report) || spins) add(point, &kFlags, true);
    }
}

/* ---- one sample ---- */

void sample_keep(struct series *series, size_t round, const struct row *row, struct cost cost,
                 double *times) {
    const struct plan *plan = &row->plan;
    double bytes = (double)plan->size * (double)plan->count;
    series->cpu[round] = cost.cpu / (bytes / 1e9);
    series->value[round] = row->kind == ROW_RATE ? cost.seconds * 1e6 / (double)plan->count
                                                 : bytes / cost.seconds / 1e9;
    if (times == NULL) return;
    /* A message is half of the round trip that was timed. */
    double unit = row->kind == ROW_MESSAGE ? 2e3 : 1e3;
    series->p99[round] = percentile(times, plan->count, 0.99) / unit;
    series->value[round] = percentile(times, plan->count, 0.5) / unit;
}

/* The plan of a run in that way. */
static struct plan way_plan(const struct row *row, const struct way *way, const struct mode *mode) {
    struct plan plan = row->plan;
    plan.acked = way->acked;
    plan.windowed = way->windowed;
    plan.streams = way->streams ? lanes_asked(mode) : 0;
    plan.spin = way->spin;
    return plan;
}

static struct cost run(struct session *session, const struct way *way, const struct plan *plan,
                       double *times) {
    if (way->kind == WAY_NEAR) return session_near(session, way->near, plan, times);
    if (way->kind == WAY_TURNS) return session_turns(session, plan, times);
    if (way->kind == WAY_RING) return session_ring(session, plan, times);
    return session_raw(session, plan, times);
}

void way_measure(struct session *session, struct point *point, size_t way, size_t round,
                 double *times) {
    struct row *row = point->row;
    const struct way *chosen = point->ways[way];
    if (chosen->kind == WAY_CONNECT) {
        measure_raw_connect(session, row, round);
    } else if (chosen->kind == WAY_MEMCPY) {
        uint64_t footprint = row->plan.size * row->plan.window;
        row->limits[way].value[round] = memcpy_rate(footprint, session->options->seconds / 4);
    } else {
        struct plan plan = way_plan(row, chosen, &session->options->mode);
        sample_keep(&row->limits[way], round, row, run(session, chosen, &plan, times), times);
    }
}

double way_probe(struct session *session, const struct point *point) {
    size_t way = 0;
    while (!point->row->fair[way])
        way++;
    /* A stream says nothing of single operations. */
    const struct way *chosen = point->ways[way] == &kStream ? &kAcked : point->ways[way];
    struct plan plan = way_plan(point->row, chosen, &session->options->mode);
    return run(session, chosen, &plan, NULL).seconds / (double)plan.count;
}
