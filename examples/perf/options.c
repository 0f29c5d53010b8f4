/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <argp.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

static const char *const kCommands[] = {
    [COMMAND_PUT] = "put",         [COMMAND_GET] = "get",         [COMMAND_RATE] = "rate",
    [COMMAND_PAGES] = "pages",     [COMMAND_LATENCY] = "latency", [COMMAND_MESSAGE] = "message",
    [COMMAND_CONNECT] = "connect", [COMMAND_IDLE] = "idle",       [COMMAND_LIMITS] = "limits",
};

const char *command_name(enum command command) {
    return kCommands[command];
}

enum option_key {
    OPTION_TO = 256,
    OPTION_SERVE,
    OPTION_INSECURE,
    OPTION_KEY_FILE,
    OPTION_ROUNDS,
    OPTION_SECONDS,
    OPTION_BYTES,
    OPTION_PAGES,
    OPTION_PAGE_SIZE,
    OPTION_CONNECTIONS,
    OPTION_ENGINES,
    OPTION_PROCESSES,
    OPTION_MESH,
    OPTION_DISPATCH,
    OPTION_IO_THREADS,
    OPTION_SPIN_US,
    OPTION_BUSY,
    OPTION_SUBMIT,
    OPTION_LANES,
    OPTION_CHECKSUM,
    OPTION_MEMORY,
    OPTION_TRANSPORTS,
    OPTION_PIN,
    OPTION_READ,
    OPTION_OP,
    OPTION_QUIET,
    OPTION_JSON,
    OPTION_PLOT,
    OPTION_CROWD,
    OPTION_ROLE
};

static const struct argp_option kOptions[] = {
    {0, 0, 0, 0, "What is moved:", 1},
    {"size", 's', "LIST", 0, "sizes of one operation, such as 64K,1M,16M", 1},
    {"window", 'w', "LIST", 0, "operations in flight, such as 1,8", 1},
    {"pages", OPTION_PAGES, "N", 0, "pages: pages of one batch (10000)", 1},
    {"page-size", OPTION_PAGE_SIZE, "BYTES", 0, "pages: bytes of a page (4K)", 1},
    {"read", OPTION_READ, 0, 0, "pages, latency: get instead of put", 1},
    {"op", OPTION_OP, "put|get|atomic|message|notify", 0,
     "rate, latency: what each is (put), a put and a notification of it with put-notify; latency "
     "has no message and no notify",
     1},
    {"quiet", OPTION_QUIET, 0, 0,
     "rate: operations without an event each, and a flush behind each window (1000)", 1},
    {"connections", OPTION_CONNECTIONS, "N", 0, "idle: connections of the engine (100)", 1},
    {"engines", OPTION_ENGINES, "N", 0, "connect: a storm of N engines, all of them to one", 1},
    {"processes", OPTION_PROCESSES, "N", 0, "connect: spread the engines of a storm (1)", 1},
    {"mesh", OPTION_MESH, 0, 0, "connect: each engine to each, both ends of a pair at once", 1},
    {0, 0, 0, 0, "How long:", 2},
    {"rounds", OPTION_ROUNDS, "N", 0, "rounds, each of all limits and libxfer in turn (5)", 2},
    {"seconds", OPTION_SECONDS, "S", 0, "length of one run (0.2; idle: 10)", 2},
    {"bytes", OPTION_BYTES, "BYTES", 0, "bytes of one run, instead of seconds", 2},
    {0, 0, 0, 0, "The engines, on both sides:", 3},
    {"dispatch", OPTION_DISPATCH, "thread|loop|poll", 0,
     "where events arrive (thread); loop: on a uv_loop_t that a thread runs", 3},
    {"io-threads", OPTION_IO_THREADS, "N|none|default", 0,
     "threads that drive sockets; default, here and below: what the engine chooses", 3},
    {"spin-us", OPTION_SPIN_US, "N|none|default", 0, "how long the engines poll before they sleep",
     3},
    {"busy", OPTION_BUSY, 0, 0, "with dispatch poll: the pollers of both sides never sleep", 3},
    {"submit", OPTION_SUBMIT, "callback|thread|spin", 0,
     "who submits the next operation: the completion (default), or a thread that sleeps until it "
     "comes, or spins",
     3},
    {"lanes", OPTION_LANES, "N|none|default", 0, "data lanes for each peer", 3},
    {"checksum", OPTION_CHECKSUM, 0, 0, "with a CRC-32C of every payload", 3},
    {"memory", OPTION_MEMORY, "any|made", 0,
     "the owner's: any (default), or made by xfer_region_alloc, so that neighbours map it", 3},
    {"transports", OPTION_TRANSPORTS, "LIST", 0, "no others than these, such as loopback,tcp", 3},
    {"pin", OPTION_PIN, 0, 0, "keep the initiator on CPU 0 and the owner on CPU 1", 3},
    {0, 0, 0, 0, "Two hosts:", 4},
    {"serve", OPTION_SERVE, "URI", 0, "own the memory, for initiators that come to tcp://host:port",
     4},
    {"to", OPTION_TO, "URI", 0, "use the serving xfer_perf at tcp://host:port", 4},
    {"insecure", OPTION_INSECURE, 0, 0, "serve: listen beyond loopback without a key", 4},
    {"key-file", OPTION_KEY_FILE, "FILE", 0, "shared secret of both engines, 32 to 256 bytes", 4},
    {0, 0, 0, 0, "Output:", 5},
    {"json", OPTION_JSON, "FILE", 0, "also write every sample as JSON (see xfer_perf(1))", 5},
    {"plot", OPTION_PLOT, "FILE", 0, "also draw the ratios as SVG", 5},
    {"crowd", OPTION_CROWD, "FD", OPTION_HIDDEN, 0, 5},
    {"role", OPTION_ROLE, "FD", OPTION_HIDDEN, 0, 5},
    {0, 0, 0, 0, 0, 0},
};

static void read_key(const char *path, struct options *options) {
    FILE *file = fopen(path, "re");
    if (file == NULL) err(2, "%s", path);
    options->key_length = fread(options->key, 1, sizeof options->key, file);
    fclose(file);
    if (options->key_length < 32) errx(2, "%s: a key has 32 to 256 bytes", path);
}

static const char *const kOps[] = {
    [OP_PUT] = "put",         [OP_GET] = "get",       [OP_ATOMIC] = "atomic",
    [OP_MESSAGE] = "message", [OP_NOTIFY] = "notify", [OP_PUT_NOTIFY] = "put-notify"};

static const char *const kDispatches[] = {[XFER_DISPATCH_THREAD] = "thread",
                                          [XFER_DISPATCH_LOOP] = "loop",
                                          [XFER_DISPATCH_POLL] = "poll"};

const char *dispatch_name(uint32_t dispatch) {
    return kDispatches[dispatch];
}

static const char *const kSubmitters[] = {
    [SUBMIT_CALLBACK] = "callback", [SUBMIT_THREAD] = "thread", [SUBMIT_SPIN] = "spin"};

const char *submitter_word(enum submitter submitter) {
    return kSubmitters[submitter];
}

const char *submitter_name(enum submitter submitter) {
    static const char *const kNames[] = {[SUBMIT_CALLBACK] = "the completion",
                                         [SUBMIT_THREAD] = "a waiting thread",
                                         [SUBMIT_SPIN] = "a spinning thread"};
    return kNames[submitter];
}

bool mode_spins(const struct mode *mode) {
    return mode->busy || (mode->spin_us != 0 && mode->spin_us != XFER_NONE);
}

static void parse_engine_option(int key, const char *word, struct options *options) {
    static const char *const kMemories[] = {[MEMORY_ANY] = "any", [MEMORY_MADE] = "made"};
    struct mode *mode = &options->mode;
    switch (key) {
    case OPTION_MEMORY:
        mode->memory = (uint32_t)one_of(word, kMemories, MEMORY_MADE + 1);
        return;
    case OPTION_TRANSPORTS:
        if (strlen(word) >= sizeof mode->transports) errx(2, "%s: too long", word);
        memcpy(mode->transports, word, strlen(word) + 1);
        return;
    case OPTION_DISPATCH:
        mode->dispatch = (uint32_t)one_of(word, kDispatches, XFER_DISPATCH_POLL + 1);
        return;
    case OPTION_IO_THREADS:
        mode->io_threads = parse_choice(word);
        return;
    case OPTION_SPIN_US:
        mode->spin_us = parse_choice(word);
        return;
    case OPTION_BUSY:
        mode->busy = true;
        return;
    case OPTION_LANES:
        mode->lanes = parse_choice(word);
        return;
    case OPTION_CHECKSUM:
        mode->checksum = true;
        return;
    case OPTION_SUBMIT:
        options->submitter = (enum submitter)one_of(word, kSubmitters, SUBMIT_SPIN + 1);
        return;
    default:
        errx(2, "option %d", key);
    }
}

static error_t parse_option(int key, char *word, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 's':
        options->sizes = parse_list(word);
        return 0;
    case 'w':
        options->windows = parse_list(word);
        return 0;
    case OPTION_PAGES:
        options->pages = parse_one(word);
        return 0;
    case OPTION_PAGE_SIZE:
        options->page_size = parse_one(word);
        return 0;
    case OPTION_READ:
        options->read = true;
        return 0;
    case OPTION_OP:
        options->op = (enum op)one_of(word, kOps, OP_ECHO);
        return 0;
    case OPTION_QUIET:
        options->quiet = true;
        return 0;
    case OPTION_CONNECTIONS:
        options->connections = parse_one(word);
        return 0;
    case OPTION_ENGINES:
        options->engines = parse_one(word);
        return 0;
    case OPTION_PROCESSES:
        options->processes = parse_one(word);
        return 0;
    case OPTION_MESH:
        options->mesh = true;
        return 0;
    case OPTION_CROWD:
        options->crowd_fd = atoi(word);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = parse_one(word);
        return 0;
    case OPTION_SECONDS:
        options->seconds = strtod(word, NULL);
        return 0;
    case OPTION_BYTES:
        options->bytes = parse_one(word);
        return 0;
    case OPTION_PIN:
        options->pin = true;
        return 0;
    case OPTION_SERVE:
        options->serve = word;
        return 0;
    case OPTION_TO:
        options->to = word;
        return 0;
    case OPTION_INSECURE:
        options->insecure = true;
        return 0;
    case OPTION_KEY_FILE:
        read_key(word, options);
        return 0;
    case OPTION_JSON:
        options->json = word;
        return 0;
    case OPTION_PLOT:
        options->plot = word;
        return 0;
    case OPTION_ROLE:
        options->role_fd = atoi(word);
        return 0;
    case OPTION_DISPATCH:
    case OPTION_IO_THREADS:
    case OPTION_SPIN_US:
    case OPTION_BUSY:
    case OPTION_SUBMIT:
    case OPTION_CHECKSUM:
    case OPTION_MEMORY:
    case OPTION_TRANSPORTS:
    case OPTION_LANES:
        parse_engine_option(key, word, options);
        return 0;
    case ARGP_KEY_ARG:
        if (options->command != COMMAND_NONE) argp_usage(state);
        options->command = (enum command)one_of(word, kCommands, COMMAND_LIMITS + 1);
        return 0;
    case ARGP_KEY_END:
        if (options->command == COMMAND_NONE && !options_serve(options)) argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char kText[] =
    "Measures libxfer beside what the machine can do, in one run, over the same buffers.\v"
    "Commands:\n"
    "  put, get   operations of each size, with each window\n"
    "  rate       small ones: the time of one, and how many a second; --op, --quiet\n"
    "  pages      prepared batches of pages that lie scattered on both sides\n"
    "  latency    64 B operations, one at a time; --op, --read\n"
    "  message    a message there and one back, one at a time; the time is that of one\n"
    "  connect    first contact, from the endpoint to the first 4 KiB put; with --engines a\n"
    "             storm, until all are connected: those of one process share a uv loop, the\n"
    "             one that all meet has a thread\n"
    "  idle       an engine with many connections that do nothing\n"
    "  limits     the machine alone\n"
    "\n"
    "An operation is done when its event says OK: a put is then applied in the memory of the other "
    "process, a get in ours; quiet ones, when the flush behind them is. A run of messages or "
    "notifications ends when the other process has taken the last. Bytes are compared in a pass of "
    "their own, which is not timed.";

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "xfer_perf %s\n", xfer_version_string());
}

void options_parse(int count, char **words, struct options *options) {
    static const struct argp kParser = {
        .options = kOptions, .parser = parse_option, .args_doc = "COMMAND", .doc = kText};
    *options = (struct options){
        .rounds = 5,
        .pages = 10000,
        .page_size = 4096,
        .connections = 100,
        .processes = 1,
        .mode = {.dispatch = XFER_DISPATCH_THREAD},
        .crowd_fd = -1,
        .role_fd = -1,
    };
    argp_program_version_hook = print_version;
    argp_parse(&kParser, count, words, 0, NULL, options);
    options_complete(options);
}
