/* SPDX-License-Identifier: Apache-2.0
 *
 * What hostile peers attack: an engine that listens on loopback and lends "vault", whose bytes and
 * what lies on both sides of it never change, "sealed", which may only be read, and "desk", which
 * honest peers write to, "words", which allows atomics too, and "members", which no vector touches.
 * The first line that it prints is its URI. It answers each line "report" with one of numbers;
 * "open" and "close" lend a region "later" and take it back, "map" and "unmap" one "mapped" of
 * memory that local peers map, whose end is told, "map read" one that may only be read; "recv TAG
 * ROOM" posts a receive from any, "drop TAG COUNT" as many without room, and "send TAG LENGTH
 * FLAGS" sends to the peer that came last. It tells of notifications, of messages, and of each
 * connection: "up INCARNATION", "down STATUS ORIGIN CODE WORDS". It ends with its input.
 *
 * Usage: [HOSTILE_IO_THREADS=N] [HOSTILE_LOG=1] hostile_server [KEY]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/xfer.h>

#include "process.h"

enum { GUARD = 1 << 16, VAULT = 1 << 20 };

static uint64_t memory[(2 * GUARD + VAULT) / 8], words[64];
static char sealed[4096], desk[4 << 20], later[4096], inbox[1 << 16], outbox[1 << 18];
static _Atomic(xfer_ep_t *) last_peer;
static _Atomic(xfer_region_t *) mapped;

static void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    fprintf(stderr, "%s: %s\n", what, xfer_status_name(status));
    exit(1);
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    if (event->kind == XFER_EVENT_NOTIFY)
        printf("notify %" PRIu64 " %" PRId32 " %.*s\n", event->tag, event->status,
               (int)event->data_length, (const char *)event->data);
    if (event->kind == XFER_EVENT_RECV)
        printf("received %" PRIu64 " %" PRId32 " %" PRIu64 "\n", event->tag, event->status,
               event->bytes);
    if (event->kind == XFER_EVENT_SEND) {
        memset(outbox, 'x', sizeof outbox); /* it is ours again */
        printf("sent %" PRId32 "\n", event->status);
    }
    if (event->kind == XFER_EVENT_CLOSED && event->object == mapped) printf("closed\n");
    if (event->kind == XFER_EVENT_PEER) last_peer = event->ep;
    if (event->kind == XFER_EVENT_PEER_UP) {
        xfer_id_t id;
        memcpy(&id, event->data, sizeof id);
        printf("up %" PRIu64 "\n", id.incarnation);
    }
    if (event->kind == XFER_EVENT_PEER_DOWN)
        printf("down %" PRId32 " %" PRIu32 " %" PRId32 " %.*s\n", event->status, event->origin,
               event->native_code, (int)event->data_length, (const char *)event->data);
}

/* HOSTILE_LOG: what is said of connections that were not let in. */
static void on_log(uint32_t level, const char *text, uint64_t user) {
    (void)level;
    (void)user;
    if (strstr(text, "a connection from") || strstr(text, "not logged")) printf("log %s\n", text);
}

static xfer_region_t *lend(xfer_engine_t *engine, const char *name, uint32_t access, void *address,
                           uint64_t length) {
    xfer_region_options_t options = {.size = sizeof options,
                                     .access = access,
                                     .name = name,
                                     .blob = "what only members see",
                                     .blob_length = 21};
    xfer_region_t *region = NULL;
    must(xfer_region_open(engine, &options, address, length, &region, NULL), name);
    return region;
}

/* Lends memory that local peers map. */
static xfer_region_t *map(xfer_engine_t *engine, const char *name, uint32_t access,
                          uint64_t length) {
    xfer_region_options_t options = {.size = sizeof options, .access = access, .name = name};
    xfer_region_t *region = NULL;
    void *address = NULL;
    must(xfer_region_alloc(engine, &options, length, &address, &region, NULL), "alloc");
    return region;
}

static void report(xfer_engine_t *engine) {
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(engine, &stats, sizeof stats), "stats");
    printf("report sum %" PRIu64 " fds %" PRIu64 " rss %" PRIu64 " refused %" PRIu64
           " connections %" PRIu64 " accepts %" PRIu64 " queued %" PRIu64 "\n",
           sum_of(memory, sizeof memory), descriptors(), resident(), stats.refused,
           stats.connections, stats.accepts, stats.events_queued);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    xfer_engine_options_t options = {.size = sizeof options,
                                     .on_event = on_event,
                                     .blob = "an engine's blob",
                                     .blob_length = 16};
    if (getenv("HOSTILE_LOG")) {
        options.on_log = on_log;
        options.log_level = XFER_LOG_INFO;
    }
    const char *threads = getenv("HOSTILE_IO_THREADS");
    if (threads) options.io_threads = (uint32_t)atoi(threads);
    if (argc > 1) {
        options.key = argv[1];
        options.key_length = strlen(argv[1]);
    }
    for (uint64_t i = 0; i < sizeof memory / 8; ++i)
        memory[i] = pattern(i);
    memset(sealed, 's', sizeof sealed);
    xfer_engine_t *engine = NULL;
    must(xfer_engine_open(&options, &engine, NULL), "open");
    xfer_region_t *regions[] = {
        lend(engine, "vault", XFER_READ | XFER_WRITE, (char *)memory + GUARD, VAULT),
        lend(engine, "sealed", XFER_READ, sealed, sizeof sealed),
        lend(engine, "desk", XFER_READ | XFER_WRITE, desk, sizeof desk),
        lend(engine, "words", XFER_READ | XFER_WRITE | XFER_ATOMIC, words, sizeof words),
        map(engine, "members", XFER_READ | XFER_WRITE, 1 << 16)};
    char uri[256];
    must(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL), "listen");
    printf("%s\n", uri);

    xfer_region_t *region = NULL;
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        if (strcmp(line, "report\n") == 0) report(engine);
        if (strcmp(line, "open\n") == 0)
            region = lend(engine, "later", XFER_READ | XFER_WRITE, later, sizeof later);
        if (strcmp(line, "close\n") == 0) must(xfer_region_close(region), "close");
        const int read_only = strcmp(line, "map read\n") == 0;
        if (read_only || strcmp(line, "map\n") == 0) {
            const uint32_t access = read_only ? XFER_READ : XFER_READ | XFER_WRITE;
            mapped = map(engine, "mapped", access, 1 << 20);
            printf("mapped\n");
        }
        if (strcmp(line, "unmap\n") == 0) must(xfer_region_close(mapped), "close");
        uint64_t tag, length;
        uint32_t flags;
        if (sscanf(line, "recv %" SCNu64 " %" SCNu64, &tag, &length) == 2)
            must(xfer_recv(engine, NULL, inbox, length, tag, UINT64_MAX, 0, NULL), "recv");
        if (sscanf(line, "drop %" SCNu64 " %" SCNu64, &tag, &length) == 2)
            while (length--)
                must(xfer_recv(engine, NULL, inbox, 0, tag, UINT64_MAX, 0, NULL), "recv");
        if (sscanf(line, "send %" SCNu64 " %" SCNu64 " %" SCNu32, &tag, &length, &flags) == 3) {
            xfer_op_options_t how = {.size = sizeof how, .flags = flags};
            memset(outbox, 's', sizeof outbox);
            must(xfer_send(last_peer, outbox, length, tag, 0, &how), "send");
        }
    }
    for (unsigned i = 0; i < sizeof regions / sizeof *regions; ++i)
        must(xfer_region_close(regions[i]), "close");
    must(xfer_engine_join(engine, XFER_NONE), "join");
    return 0;
}
