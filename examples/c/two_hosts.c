/* SPDX-License-Identifier: Apache-2.0
 *
 * Two processes on two hosts, for longer than one of them lives: the owner lends a board, the
 * writer puts lines on it, each with a notification behind it, and goes on when the owner was
 * restarted. examples/two-hosts.md has the commands.
 *
 *   two_hosts own URI [NAME=VALUE ...]
 *     listens at URI and prints what it is told, until SIGTERM
 *   two_hosts write URI COUNT [NAME=VALUE ...]
 *     writes COUNT lines to the owner at URI, ten in a second
 *
 * NAME is key_file, peer (the id that is expected), or an option of the engine by the name that
 * xfer/text.h gives it. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <xfer/text.h>

#include "must.h"

enum { LINE = 64, LINES = 16, DEADLINE_MS = 10000, PAUSE_MS = 100 };

typedef struct Setup {
    xfer_engine_options_t options;
    xfer_engine_options_t peer; /* only its id, which is read as an engine's own is */
    uint8_t key[257];           /* one more than a key may have */
} Setup;

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    (void)number;
    stopped = 1;
}

static void read_key(Setup *setup, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    setup->options.key_length = fread(setup->key, 1, sizeof setup->key, file);
    setup->options.key = setup->key;
    fclose(file);
}

static void set_up(Setup *setup, char **words) {
    xfer_error_t error = {0};
    *setup = (Setup){.options = {.size = sizeof setup->options, .dispatch = XFER_DISPATCH_POLL},
                     .peer = {.size = sizeof setup->peer}};
    for (; *words; words++) {
        char *value = strchr(*words, '=');
        EXPECT(value != NULL);
        *value++ = '\0';
        if (strcmp(*words, "key_file") == 0)
            read_key(setup, value);
        else if (strcmp(*words, "peer") == 0)
            MUST_ERR(xfer_engine_option_set(&setup->peer, "id", value, &error));
        else
            MUST_ERR(xfer_engine_option_set(&setup->options, *words, value, &error));
    }
}

static xfer_engine_t *open_engine(const Setup *setup) {
    xfer_error_t error = {0};
    xfer_engine_t *engine = NULL;
    MUST_ERR(xfer_engine_open(&setup->options, &engine, &error));
    return engine;
}

/* What an event says beside its status: a sentence, if it has one. */
static void tell(const char *what, const xfer_event_t *event) {
    const char *why = event->status != XFER_OK && event->data ? event->data : "";
    printf("%s: %s %s\n", what, xfer_status_name(event->status), why);
}

/* ---- the owner ---- */

static void on_owner_event(const xfer_event_t *event, const char *board) {
    if (event->kind == XFER_EVENT_PEER) printf("a writer came\n");
    if (event->kind == XFER_EVENT_PEER_DOWN) tell("the writer went", event);
    if (event->kind != XFER_EVENT_NOTIFY) return;
    if (event->status == XFER_OK)
        printf("told of line %u: \"%s\"\n", (unsigned)event->tag,
               board + event->tag % LINES * LINE);
    else
        tell("told of a failure", event);
}

static int own(const char *uri, char **words) {
    Setup setup;
    xfer_error_t error = {0};
    set_up(&setup, words);
    xfer_engine_t *engine = open_engine(&setup);
    xfer_region_options_t lent = {
        .size = sizeof lent, .name = "board", .access = XFER_READ | XFER_WRITE};
    xfer_region_t *region = NULL;
    void *board = NULL;
    MUST_ERR(xfer_region_alloc(engine, &lent, LINES * LINE, &board, &region, &error));
    char bound[256], addresses[1024];
    uint64_t needed = 0;
    MUST_ERR(xfer_engine_listen(engine, uri, NULL, bound, sizeof bound, &error));
    MUST(xfer_engine_addresses(engine, addresses, sizeof addresses, &needed));
    printf("listening at %s\n", addresses);

    /* A drain lets what is under way end, on both sides, before the process does. */
    bool drains = false;
    for (xfer_event_t event = {0}; event.kind != XFER_EVENT_DRAINED;) {
        uint32_t count = 0;
        if (stopped && !drains) {
            xfer_op_options_t limit = {.size = sizeof limit, .timeout_ms = DEADLINE_MS};
            MUST(xfer_engine_drain(engine, 0, &limit));
            drains = true;
        }
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, PAUSE_MS, &count));
        if (count == 1) on_owner_event(&event, board);
    }
    MUST(xfer_engine_join(engine, XFER_NONE));
    (void)xfer_region_close(region); /* frees the handle: the region ended with its engine */
    return 0;
}

/* ---- the writer ---- */

typedef struct Writer {
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_ref_t board;
    bool found; /* `board` is a ref of the owner's present life, as far as we know */
} Writer;

/* The next event of `kind`, or whatever came last when `ms` are over. */
static xfer_event_t next(Writer *writer, uint32_t kind, uint32_t ms) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(writer->engine, &event, sizeof event, 1, ms, &count));
        if (count == 0) return (xfer_event_t){.kind = 0};
        if (event.kind == XFER_EVENT_PEER_DOWN) tell("the owner went", &event);
        if (event.kind == XFER_EVENT_PEER_UP && event.flags & XFER_RESTARTED)
            printf("the owner is back, in another life\n");
        if (event.kind == kind) return event;
    }
}

/* Waits for the owner, and there for the name, within one deadline. */
static xfer_status_t find_board(Writer *writer) {
    xfer_op_options_t options = {
        .size = sizeof options, .flags = XFER_FLAG_WAIT, .timeout_ms = DEADLINE_MS};
    xfer_status_t status = xfer_ep_lookup(writer->ep, "board", 0, &options, NULL);
    if (status != XFER_OK) return status;
    xfer_event_t event = next(writer, XFER_EVENT_LOOKUP, XFER_NONE);
    if (event.status != XFER_OK) return event.status;
    memcpy(&writer->board, event.data, sizeof writer->board);
    writer->found = true;
    return XFER_OK;
}

static xfer_status_t put_line(Writer *writer, unsigned number) {
    char line[LINE];
    snprintf(line, sizeof line, "line %u", number);
    xfer_batch_t *batch = NULL;
    xfer_submit_options_t options = {.size = sizeof options,
                                     .timeout_ms = DEADLINE_MS,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_key = number};
    MUST(xfer_batch_open(writer->ep, NULL, &batch, NULL));
    MUST(xfer_batch_put(batch, line, &writer->board, number % LINES * LINE, LINE));
    MUST(xfer_batch_submit(batch, 0, &options));
    const xfer_event_t event = next(writer, XFER_EVENT_BATCH, XFER_NONE);
    MUST(xfer_batch_close(batch));
    return event.status;
}

/* A line may be written twice without harm, so a lost connection is no reason to stop. */
static void write_line(Writer *writer, unsigned number) {
    xfer_status_t status = XFER_ESTALE;
    while (status == XFER_ESTALE || status == XFER_EPEERLOST) {
        if (!writer->found) MUST(find_board(writer));
        status = put_line(writer, number);
        if (status == XFER_OK) return;
        printf("line %u: %s\n", number, xfer_status_name(status));
        writer->found = false;
    }
    MUST(status);
}

static int write_lines(const char *uri, unsigned count, char **words) {
    Setup setup;
    xfer_error_t error = {0};
    set_up(&setup, words);
    Writer writer = {.engine = open_engine(&setup)};
    xfer_id_t peer = {.incarnation = 0}; /* whichever life */
    memcpy(peer.bytes, setup.peer.id, sizeof peer.bytes);
    const bool named = memcmp(peer.bytes, (xfer_id_t){.incarnation = 0}.bytes, 16) != 0;
    xfer_ep_options_t options = {.size = sizeof options, .peer = named ? &peer : NULL};
    MUST_ERR(xfer_ep_open(writer.engine, uri, &options, &writer.ep, &error));
    MUST(xfer_ep_connect(writer.ep, 0, NULL));
    const xfer_event_t met = next(&writer, XFER_EVENT_CONNECT, XFER_NONE);
    tell("connect", &met);
    if (met.status != XFER_OK) return 1;
    for (unsigned number = 1; number <= count; number++) {
        write_line(&writer, number);
        (void)next(&writer, 0, PAUSE_MS); /* ends when nothing has come for so long */
    }
    printf("%u lines are there\n", count);
    MUST(xfer_ep_close(writer.ep));
    MUST(xfer_engine_join(writer.engine, XFER_NONE));
    return 0;
}

int main(int argc, char **argv) {
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 3 && strcmp(argv[1], "own") == 0) return own(argv[2], argv + 3);
    if (argc >= 4 && strcmp(argv[1], "write") == 0)
        return write_lines(argv[2], (unsigned)strtoul(argv[3], NULL, 10), argv + 4);
    fprintf(stderr,
            "usage: two_hosts own URI [NAME=VALUE ...]\n"
            "       two_hosts write URI COUNT [NAME=VALUE ...]\n");
    return 2;
}
