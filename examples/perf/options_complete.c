/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command line did not say, and what makes no sense in it. */
#include <err.h>
#include <stdio.h>
#include <xfer/xfer.h>

#include "measure.h"
#include "options.h"

/* ---- what was not said ---- */

static void set_sizes(struct options *options) {
    static const struct list kAll = {.values = {8, 64, 4096, 65536, 1U << 20, 1U << 24, 1U << 26},
                                     .count = 7};
    static const struct list kLarge = {.values = {65536, 1U << 20, 1U << 24}, .count = 3};
    static const struct list kSmall = {.values = {8, 64}, .count = 2};
    static const struct list kLine = {.values = {64}, .count = 1};
    static const struct list kWord = {.values = {8}, .count = 1};
    switch (options->command) {
    case COMMAND_PUT:
    case COMMAND_GET:
        options->sizes = kAll;
        break;
    case COMMAND_RATE:
        options->sizes = options->op == OP_ATOMIC ? kWord : kSmall;
        break;
    case COMMAND_LATENCY:
    case COMMAND_MESSAGE:
        options->sizes = options->op == OP_ATOMIC ? kWord : kLine;
        break;
    default:
        options->sizes = kLarge;
        break;
    }
}

static void set_windows(struct options *options) {
    static const struct list kFew = {.values = {1, 8}, .count = 2};
    static const struct list kRates = {.values = {1, 16, 64}, .count = 3};
    static const struct list kFlush = {.values = {1000}, .count = 1};
    options->default_windows = true;
    options->windows = options->quiet ? kFlush : options->command == COMMAND_RATE ? kRates : kFew;
}

static void set_defaults(struct options *options) {
    if (options->seconds <= 0) options->seconds = options->command == COMMAND_IDLE ? 10 : 0.2;
    if (options->command == COMMAND_LATENCY && options->read) options->op = OP_GET;
    if (options->sizes.count == 0) set_sizes(options);
    if (options->windows.count == 0) set_windows(options);
}

/* ---- what makes no sense ---- */

static void check_storm(const struct options *options) {
    if (options->engines == 0) {
        if (options->mesh || options->processes > 1)
            errx(2, "--mesh and --processes need --engines");
        return;
    }
    if (options->command != COMMAND_CONNECT) errx(2, "--engines is for connect");
    if (options->engines > MAX_ENGINES) errx(2, "at most %d engines", MAX_ENGINES);
    if (options->mesh && options->engines < 2) errx(2, "a mesh has two engines or more");
    if (options->mesh && options->processes > 1) errx(2, "a mesh is in one process");
    if (options->processes > options->engines) errx(2, "more processes than engines");
    if (options->to != NULL) errx(2, "a storm is on one host");
}

/* The most that an engine takes of one endpoint, unless it is told another number. */
enum { MOST_OPERATIONS = 1024 };

static uint64_t largest(const struct list *list) {
    uint64_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] > most) most = list->values[i];
    }
    return most;
}

/* What would be refused by the engines, in terms of the command line. */
static void check_points(const struct options *options) {
    uint64_t size = largest(&options->sizes);
    bool rate = options->command == COMMAND_RATE;
    bool one_sided = options->op == OP_PUT || options->op == OP_GET || options->op == OP_ATOMIC;
    if (options->op != OP_PUT && !rate && options->command != COMMAND_LATENCY)
        errx(2, "--op is for rate and latency");
    if (options->command == COMMAND_LATENCY && !one_sided && options->op != OP_PUT_NOTIFY)
        errx(2, "latency has put, get, atomic and put-notify; of messages see the command message");
    if (options->quiet && (!rate || !one_sided)) errx(2, "--quiet is for rate of put, get, atomic");
    if (options->quiet && options->op == OP_PUT && size > XFER_MAX_COPY)
        errx(2, "quiet puts are copied: at most %d bytes", XFER_MAX_COPY);
    if (options->op == OP_NOTIFY && size > XFER_MAX_NOTIFY)
        errx(2, "a notification has at most %d bytes", XFER_MAX_NOTIFY);
    for (size_t i = 0; options->op == OP_ATOMIC && i < options->sizes.count; i++) {
        if (options->sizes.values[i] != sizeof(uint64_t)) errx(2, "an atomic has 8 bytes");
    }
    if (largest(&options->windows) > MOST_OPERATIONS)
        errx(2, "at most %d operations in flight", MOST_OPERATIONS);
}

/* What is to be written can be, before minutes are spent on it. */
static void check_writable(const char *path) {
    if (path == NULL) return;
    FILE *file = fopen(path, "ae");
    if (file == NULL) err(2, "%s", path);
    fclose(file);
}

static void check_engines(const struct options *options) {
    if (options->rounds > MAX_ROUNDS) errx(2, "at most %d rounds", MAX_ROUNDS);
    if (options->page_size % 8 != 0) errx(2, "the page size must be a multiple of 8");
    if (options->mode.busy && options->mode.dispatch != XFER_DISPATCH_POLL)
        errx(2, "--busy needs --dispatch poll");
    if (options->submitter != SUBMIT_CALLBACK && options->mode.dispatch == XFER_DISPATCH_POLL)
        errx(2, "--submit %s needs --dispatch thread or loop", submitter_word(options->submitter));
    if (options->to != NULL && options->pin) errx(2, "--pin is for one host");
}

bool options_serve(const struct options *options) {
    return options->serve != NULL || options->role_fd >= 0 || options->crowd_fd >= 0;
}

void options_complete(struct options *options) {
    set_defaults(options);
    if (options_serve(options)) return;
    check_storm(options);
    check_points(options);
    check_engines(options);
    check_writable(options->json);
    check_writable(options->plot);
}
