/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <err.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

bool row_is_time(const struct row *row) {
    return row->kind != ROW_BLOCKS && row->kind != ROW_PAGES;
}

bool row_is_timed(const struct row *row) {
    return row->kind == ROW_LATENCY || row->kind == ROW_MESSAGE;
}

static const char *rate_name(const struct plan *plan) {
    static const char *const kNames[] = {
        [OP_PUT] = "rate put",       [OP_GET] = "rate get",
        [OP_ATOMIC] = "rate atomic", [OP_MESSAGE] = "rate message",
        [OP_NOTIFY] = "rate notify", [OP_PUT_NOTIFY] = "rate put-notify"};
    static const char *const kQuiet[] = {
        [OP_PUT] = "quiet put", [OP_GET] = "quiet get", [OP_ATOMIC] = "quiet atomic"};
    return (plan->quiet ? kQuiet : kNames)[plan->op];
}

static const char *latency_name(const struct plan *plan) {
    static const char *const kNames[] = {[OP_PUT] = "latency put",
                                         [OP_GET] = "latency get",
                                         [OP_ATOMIC] = "latency atomic",
                                         [OP_PUT_NOTIFY] = "latency put-notify"};
    return kNames[plan->op];
}

const char *row_name(const struct row *row) {
    switch (row->kind) {
    case ROW_BLOCKS:
        return plan_reads(&row->plan) ? "get" : "put";
    case ROW_RATE:
        return rate_name(&row->plan);
    case ROW_PAGES:
        return plan_reads(&row->plan) ? "pages get" : "pages put";
    case ROW_LATENCY:
        return latency_name(&row->plan);
    case ROW_MESSAGE:
        return "message";
    case ROW_CONNECT:
        return "connect";
    }
    return "";
}

const char *size_text(uint64_t size, char *text, size_t capacity) {
    static const char *const kUnits[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    double number = (double)size;
    while (unit < 3 && number >= 1024) {
        number /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%.4g %s", number, kUnits[unit]);
    return text;
}

static bool better(const struct row *row, double left, double right) {
    return row_is_time(row) ? left < right : left > right;
}

void row_compare(struct row *row, size_t round) {
    double best = 0;
    double least_cpu = 0;
    for (size_t i = 0; i < row->limit_count; i++) {
        if (!row->fair[i]) continue;
        double value = row->limits[i].value[round];
        double cpu = row->limits[i].cpu[round];
        if (best == 0 || better(row, value, best)) {
            best = value;
            row->best_of[round] = i;
        }
        if (least_cpu == 0 || cpu < least_cpu) least_cpu = cpu;
    }
    row->ratio[round] = best > 0 ? row->xfer.value[round] / best : 0;
    row->cpu_ratio[round] = least_cpu > 0 ? row->xfer.cpu[round] / least_cpu : 0;
}

void row_conclude(struct row *row, size_t rounds) {
    double best = 0;
    for (size_t i = 0; i < row->limit_count; i++) {
        double value = summarize(row->limits[i].value, rounds).median;
        if (!row->fair[i] || (best != 0 && !better(row, value, best))) continue;
        best = value;
        row->best = i;
    }
}

/* ---- the table ---- */

static const char *what_done_is(const struct options *options) {
    if (options->quiet) return "the flush behind a window has ended, and nothing has failed";
    if (options->op == OP_MESSAGE || options->op == OP_NOTIFY || options->op == OP_PUT_NOTIFY)
        return "each event says OK, and the owner's application has taken the last one";
    return "the event of the operation says OK, which is: applied in the memory of the destination";
}

static void print_mode(const struct report *report) {
    const struct options *options = report->options;
    const struct mode *mode = &options->mode;
    char threads[16];
    char spin[16];
    char lanes[16];
    printf(
        "engines: dispatch %s, io_threads %s, spin_us %s, lanes %s%s%s; next submitted by %s%s\n",
        dispatch_name(mode->dispatch), choice_text(mode->io_threads, threads),
        choice_text(mode->spin_us, spin), choice_text(mode->lanes, lanes),
        mode->busy ? ", pollers spin" : "", mode->checksum ? ", checksums" : "",
        submitter_name(options->submitter), options->pin ? "; pinned" : "");
    if (report->path != NULL)
        printf("path: %s, the owner's memory is %s\n", report->path,
               mode->memory == MEMORY_MADE ? "made" : "any");
    printf("done: %s\n", what_done_is(options));
}

/* From nanoseconds to seconds, and so with rates: three digits. */
static const char *figure_text(double value, char *text) {
    snprintf(text, 16, value < 100 ? "%.3g" : "%.0f", value);
    return text;
}

static void print_row(const struct report *report, const struct row *row) {
    size_t rounds = report->options->rounds;
    char size[32];
    size_text(row->plan.size, size, sizeof size);
    struct summary ratio = summarize(row->ratio, rounds);
    /* One round: its two rates make its ratio. */
    size_t round = median_index(row->ratio, rounds);
    const struct series *best = &row->limits[row->best_of[round]];
    char ours[16];
    char limit[16];
    printf("%-14s %9s %4llu  %8s  %8s %-24s %5.2f (%.2f-%.2f)", row_name(row), size,
           (unsigned long long)row->plan.window, figure_text(row->xfer.value[round], ours),
           figure_text(best->value[round], limit), best->name, row->ratio[round], ratio.min,
           ratio.max);
    if (row->kind == ROW_RATE) {
        printf("  %.0f/s, CPU %.3f us", 1e6 / row->xfer.value[round],
               summarize(row->xfer.cpu, rounds).median * (double)row->plan.size / 1e3);
    } else if (row_is_time(row)) {
        printf("  p99 %.1f / %.1f", summarize(row->xfer.p99, rounds).median,
               summarize(best->p99, rounds).median);
    } else {
        printf("  %.2f (%.2f x raw)", summarize(row->xfer.cpu, rounds).median,
               summarize(row->cpu_ratio, rounds).median);
    }
    printf("  %.0f\n", summarize(row->core_to_core, rounds).median);
}

static void print_limits(const struct report *report, const struct row *row) {
    size_t rounds = report->options->rounds;
    char size[32];
    size_text(row->plan.size, size, sizeof size);
    for (size_t i = 0; i < row->limit_count; i++) {
        struct summary value = summarize(row->limits[i].value, rounds);
        printf("%-14s %9s %4llu  %-24s %8.3f (%.3f-%.3f) %s", row_name(row), size,
               (unsigned long long)row->plan.window, row->limits[i].name, value.median, value.min,
               value.max, row_is_time(row) ? "us" : "GB/s");
        double cpu = summarize(row->limits[i].cpu, rounds).median;
        if (cpu > 0 && !row_is_time(row)) printf("  %.2f CPU-s/GB", cpu);
        printf("  %.0f\n", summarize(row->core_to_core, rounds).median);
    }
}

static void print_idle(const struct idle *idle) {
    printf(
        "idle: %llu connections for %.0f s: %.4f %% of one CPU, %.1f wake-ups a second, "
        "%.1f KiB resident for each connection\n",
        (unsigned long long)idle->connections, idle->seconds, idle->cpu_share * 100, idle->wakeups,
        idle->bytes_each / 1024);
}

static void print_storm(const struct report *report) {
    const struct storm *storm = &report->storm;
    size_t rounds = report->options->rounds;
    struct summary ready = summarize(storm->ready_s, rounds);
    struct summary connections = summarize(storm->connections, rounds);
    struct summary attempts = summarize(storm->attempts, rounds);
    printf("storm: %llu engines, %s, in %llu process%s, %zu rounds\n",
           (unsigned long long)storm->engines, storm->mesh ? "each to each" : "all to one",
           (unsigned long long)storm->processes, storm->processes > 1 ? "es" : "", rounds);
    printf("  all ready in %.3f s (%.3f-%.3f)\n", ready.median, ready.min, ready.max);
    printf("  %.0f to %.0f connections, of %llu; %.2f attempts for each (%.2f-%.2f)\n",
           connections.min, connections.max, (unsigned long long)storm->expected, attempts.median,
           attempts.min, attempts.max);
    printf("  %llu failures seen by users\n", (unsigned long long)storm->failures);
    printf("  peak: %.1f MiB resident, %.1f KiB for each engine; %llu descriptors\n",
           (double)storm->peak_bytes / (1 << 20), storm->bytes_each / 1024,
           (unsigned long long)storm->descriptors);
}

void report_print(const struct report *report) {
    if (report->storm.engines > 0) {
        print_storm(report);
        return;
    }
    if (report->with_xfer) {
        print_mode(report);
        if (report->row_count > 0) {
            printf(
                "of %llu rounds the one with the median ratio; GB/s, or us of one for rate, "
                "latency, message and connect; the last columns: CPU seconds of both sides per GB "
                "(of latencies p99, ours / limit; of rates operations a second, CPU of one), ns "
                "between the cores\n",
                (unsigned long long)report->options->rounds);
            printf("%-14s %9s %4s  %8s  %8s %-24s %s\n", "what", "size", "W", "libxfer", "limit",
                   "which is", "ratio (min-max)  CPU-s/GB  core-core");
        }
    } else {
        printf("what the machine can do; the last column: ns between the cores\n");
    }
    for (size_t i = 0; i < report->row_count; i++)
        (report->with_xfer ? print_row : print_limits)(report, &report->rows[i]);
    if (report->idle.connections > 0) print_idle(&report->idle);
}

/* ---- JSON ---- */

static json_t *json_samples(const double *values, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

/* null where no single operation was timed. */
static json_t *json_p99(const double *values, size_t count) {
    return count > 0 && values[0] > 0 ? json_samples(values, count) : json_null();
}

/* Of the engine's own, by its name. */
static json_t *json_choice(uint32_t value) {
    if (value == 0) return json_string("default");
    return json_integer(value == XFER_NONE ? 0 : (json_int_t)value);
}

static json_t *json_series(const struct series *series, const char *name, size_t rounds) {
    return json_pack("{s:s, s:f, s:o, s:o, s:o}", "name", name, "median",
                     summarize(series->value, rounds).median, "value",
                     json_samples(series->value, rounds), "cpu_s_per_gb",
                     json_samples(series->cpu, rounds), "p99_us", json_p99(series->p99, rounds));
}

static json_t *json_row(const struct report *report, const struct row *row) {
    size_t rounds = report->options->rounds;
    json_t *limits = json_array();
    for (size_t i = 0; i < row->limit_count; i++) {
        json_t *limit = json_series(&row->limits[i], row->limits[i].name, rounds);
        json_object_set_new(limit, "fair", json_boolean(row->fair[i]));
        json_array_append_new(limits, limit);
    }
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "what", row_name(row), "unit",
                  row_is_time(row) ? "us" : "GB/s", "size", (json_int_t)row->plan.size, "window",
                  (json_int_t)row->plan.window, "operations", (json_int_t)row->plan.count,
                  "page_size", (json_int_t)row->plan.page_size, "limits", limits, "core_to_core_ns",
                  json_samples(row->core_to_core, rounds));
    if (row->kind == ROW_RATE) json_object_set_new(object, "quiet", json_boolean(row->plan.quiet));
    if (!report->with_xfer) return object;
    if (row->kind == ROW_RATE)
        json_object_set_new(object, "operations_per_s",
                            json_real(1e6 / summarize(row->xfer.value, rounds).median));
    json_object_set_new(object, "xfer", json_series(&row->xfer, "libxfer", rounds));
    json_object_set_new(object, "limit", json_string(row->limits[row->best].name));
    json_object_set_new(object, "ratios", json_samples(row->ratio, rounds));
    json_object_set_new(object, "ratio", json_real(summarize(row->ratio, rounds).median));
    json_object_set_new(object, "cpu_ratio", json_real(summarize(row->cpu_ratio, rounds).median));
    return object;
}

static json_t *json_storm(const struct storm *storm, size_t rounds) {
    return json_pack(
        "{s:I, s:I, s:b, s:I, s:f, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:f}", "engines",
        (json_int_t)storm->engines, "processes", (json_int_t)storm->processes, "mesh",
        (int)storm->mesh, "expected", (json_int_t)storm->expected, "median_s",
        summarize(storm->ready_s, rounds).median, "ready_s", json_samples(storm->ready_s, rounds),
        "connections", json_samples(storm->connections, rounds), "attempts",
        json_samples(storm->attempts, rounds), "accepts", json_samples(storm->accepts, rounds),
        "failures", (json_int_t)storm->failures, "descriptors", (json_int_t)storm->descriptors,
        "peak_bytes", (json_int_t)storm->peak_bytes, "bytes_per_engine", storm->bytes_each);
}

void report_write_json(const struct report *report, const char *path) {
    const struct options *options = report->options;
    const struct mode *mode = &options->mode;
    json_t *rows = json_array();
    for (size_t i = 0; i < report->row_count; i++)
        json_array_append_new(rows, json_row(report, &report->rows[i]));
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:i, s:{s:s, s:o, s:o, s:b, s:o, s:b, s:s, s:b}, s:o}", "command",
        command_name(options->command), "version", xfer_version_string(), "rounds",
        (json_int_t)options->rounds, "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN), "mode", "dispatch",
        dispatch_name(mode->dispatch), "io_threads", json_choice(mode->io_threads), "spin_us",
        json_choice(mode->spin_us), "busy", (int)mode->busy, "lanes", json_choice(mode->lanes),
        "checksum", (int)mode->checksum, "submit", submitter_word(options->submitter), "pin",
        (int)options->pin, "rows", rows);
    json_object_set_new(root, "path",
                        report->path != NULL ? json_string(report->path) : json_null());
    json_object_set_new(root, "memory", json_string(mode->memory == MEMORY_MADE ? "made" : "any"));
    json_object_set_new(root, "date", json_string(report->machine.date));
    json_object_set_new(root, "host", json_string(report->machine.host));
    json_object_set_new(root, "kernel", json_string(report->machine.kernel));
    json_object_set_new(root, "cpu", json_string(report->machine.cpu));
    json_object_set_new(root, "transports", json_string(mode->transports));
    const struct idle *idle = &report->idle;
    if (idle->connections > 0) {
        json_object_set_new(
            root, "idle",
            json_pack("{s:I, s:f, s:f, s:f, s:f}", "connections", (json_int_t)idle->connections,
                      "seconds", idle->seconds, "cpu_share", idle->cpu_share, "wakeups_per_s",
                      idle->wakeups, "bytes_per_connection", idle->bytes_each));
    }
    if (report->storm.engines > 0)
        json_object_set_new(root, "storm", json_storm(&report->storm, options->rounds));
    if (root == NULL || json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0)
        errx(1, "%s: cannot be written", path);
    json_decref(root);
}
