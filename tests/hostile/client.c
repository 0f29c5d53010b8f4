/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom hostile acceptors attack: an engine that dials. For each line of input, `URI MILLISECONDS
 * [ID]`, it looks "vault" up there, gets the first 4,096 bytes and puts as many to another place,
 * and tells how each of the three ended, how long it all took, whether the bytes are those of the
 * vault, and whether memory around them changed, which is looked at after every completion; why it
 * could not connect stands in a line before. For each line `change URI MILLISECONDS` it looks
 * "words" up, puts one word and adds to another, both at once, probes, and tells how these ended,
 * what was there before, whether the result is as it was where none came, whether memory around it
 * changed, and how the connection ended, if it did. It lends "members" to an honest peer. The first
 * line that it prints is its own URI.
 *
 * Usage: hostile_client [KEY]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xfer/xfer.h>

#include "process.h"

enum { BYTES = 4096, WORDS = BYTES / 8, OFFSET = 65536, PUT_AT = 8192 };
enum { WORD_PUT_AT = 480, WORD_AT = 488, ADDEND = 3 }; /* of "words" */

static uint64_t memory[3 * WORDS]; /* what is got lands in the middle */
static uint64_t *const result = memory + WORDS;

static void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    fprintf(stderr, "%s: %s\n", what, xfer_status_name(status));
    exit(1);
}

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static xfer_status_t connected = 1;               /* how xfer_ep_connect ended; 1: it has not */
static xfer_event_t last[XFER_EVENT_STALLED + 1]; /* of each kind; without a kind: none came */

/* Waits for the next event of that kind, and takes the ref out of what it brings. */
static xfer_status_t wait_for(xfer_engine_t *engine, uint32_t kind, xfer_ref_t *ref) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        must(xfer_engine_poll(engine, &event, sizeof event, 1, 20000, &count), "poll");
        if (count == 0) {
            fprintf(stderr, "event %" PRIu32 " does not come\n", kind);
            exit(1);
        }
        last[event.kind] = event;
        if (event.kind == XFER_EVENT_CONNECT) connected = event.status;
        if (event.kind == XFER_EVENT_CONNECT && event.data_length)
            printf("why %.*s\n", (int)event.data_length, (const char *)event.data);
        if (event.kind != kind) continue;
        if (ref && event.status == XFER_OK && event.data_length >= sizeof *ref)
            memcpy(ref, event.data, sizeof *ref);
        return event.status;
    }
}

static void refill(void) {
    for (uint64_t i = 0; i < 3 * WORDS; ++i)
        memory[i] = pattern(~i);
}

static int is_whole(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i)
        if (memory[i] != pattern(~i)) return 0;
    return 1;
}

static void visit(xfer_engine_t *engine, const char *uri, uint32_t limit, uint32_t patient,
                  const char *identity) {
    xfer_id_t expected = {.incarnation = 0};
    for (unsigned i = 0; i < 16 && strlen(identity) == 32; ++i)
        if (sscanf(identity + 2 * i, "%2hhx", &expected.bytes[i]) != 1) exit(2);
    xfer_ep_options_t options = {.size = sizeof options,
                                 .peer = strlen(identity) == 32 ? &expected : NULL};
    xfer_op_options_t patience = {.size = sizeof patience, .timeout_ms = limit};
    xfer_op_options_t deadline = {.size = sizeof deadline, .timeout_ms = limit};
    xfer_ep_t *ep = NULL;
    xfer_ref_t ref;
    const uint64_t began = milliseconds();
    refill();
    must(xfer_ep_open(engine, uri, &options, &ep, NULL), uri);
    connected = 1;
    must(xfer_ep_connect(
             ep, 0, &(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = patient}),
         "connect");
    must(xfer_ep_lookup(ep, "vault", 0, &patience, NULL), "lookup");
    xfer_status_t found = wait_for(engine, XFER_EVENT_LOOKUP, &ref), got = 0, put = 0;
    if (found == XFER_OK) {
        got = xfer_get(ep, memory + WORDS, &ref, 0, BYTES, 0, &deadline);
        if (got == XFER_OK) got = wait_for(engine, XFER_EVENT_GET, NULL);
    }
    int around = is_whole(0, WORDS) && is_whole(2 * WORDS, 3 * WORDS);
    int same = found == XFER_OK && got == XFER_OK;
    for (uint64_t i = 0; i < WORDS; ++i)
        same = same && memory[WORDS + i] == pattern(OFFSET / 8 + i);
    if (found == XFER_OK) { /* the bytes that are there anyway, so that the vault stays as it is */
        uint64_t bytes[WORDS];
        for (uint64_t i = 0; i < WORDS; ++i)
            bytes[i] = pattern((OFFSET + PUT_AT) / 8 + i);
        put = xfer_put(ep, bytes, &ref, PUT_AT, BYTES, 0, &deadline);
        if (put == XFER_OK) put = wait_for(engine, XFER_EVENT_PUT, NULL);
    }
    const uint64_t took = milliseconds() - began;
    if (connected == 1) wait_for(engine, XFER_EVENT_CONNECT, NULL);
    must(xfer_ep_close(ep), "close");
    wait_for(engine, XFER_EVENT_CLOSED, NULL);
    around = around && is_whole(0, WORDS) && is_whole(2 * WORDS, 3 * WORDS);
    printf("visit connected %" PRId32 " found %" PRId32 " got %" PRId32 " put %" PRId32
           " took %" PRIu64
           " same %d around %d"
           " fds %" PRIu64 "\n",
           connected, found, got, put, took, same, around, descriptors());
}

static int is_whole_around_result(void) {
    return is_whole(0, WORDS) && is_whole(WORDS + 1, 3 * WORDS);
}

static void change(xfer_engine_t *engine, const char *uri, uint32_t limit) {
    xfer_op_options_t deadline = {.size = sizeof deadline, .timeout_ms = limit};
    xfer_ep_t *ep = NULL;
    xfer_ref_t ref;
    const uint64_t word = 1;
    refill();
    memset(last, 0, sizeof last);
    must(xfer_ep_open(engine, uri, NULL, &ep, NULL), uri);
    must(xfer_ep_lookup(ep, "words", 0, &deadline, NULL), "lookup");
    must(wait_for(engine, XFER_EVENT_LOOKUP, &ref), "words");
    must(xfer_put(ep, &word, &ref, WORD_PUT_AT, sizeof word, 0, &deadline), "put");
    must(xfer_atomic(ep, XFER_ATOMIC_ADD, result, &ref, WORD_AT, ADDEND, 0, 0, &deadline),
         "atomic");
    int around = 1;
    while (last[XFER_EVENT_PUT].kind == 0 || last[XFER_EVENT_ATOMIC].kind == 0) {
        wait_for(engine, last[XFER_EVENT_PUT].kind ? XFER_EVENT_ATOMIC : XFER_EVENT_PUT, NULL);
        around = around && is_whole_around_result();
    }
    const xfer_event_t put = last[XFER_EVENT_PUT], done = last[XFER_EVENT_ATOMIC];
    const uint64_t told = *result;
    must(xfer_ep_probe(ep, 0, &deadline), "probe"); /* what comes late has come by its end */
    const xfer_status_t probed = wait_for(engine, XFER_EVENT_PROBE, NULL);
    must(xfer_ep_close(ep), "close");
    wait_for(engine, XFER_EVENT_CLOSED, NULL);
    around = around && is_whole_around_result();
    const int kept =
        *result == told && (done.status == XFER_OK || told == pattern(~(uint64_t)WORDS));
    const int same = done.status != XFER_OK || told == done.index;
    printf("changed put %" PRId32 " put_flags %" PRIu32 " done %" PRId32 " done_flags %" PRIu32
           " before %" PRIu64 " same %d kept %d around %d probed %" PRId32 " down %" PRId32
           " origin %" PRIu32 " fds %" PRIu64 "\n",
           put.status, put.flags, done.status, done.flags, done.index, same, kept, around, probed,
           last[XFER_EVENT_PEER_DOWN].status, last[XFER_EVENT_PEER_DOWN].origin, descriptors());
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .heartbeat_ms = 200};
    if (argc > 1) {
        options.key = argv[1];
        options.key_length = strlen(argv[1]);
    }
    xfer_engine_t *engine = NULL;
    must(xfer_engine_open(&options, &engine, NULL), "open");
    char own[256];
    must(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, own, sizeof own, NULL), "listen");
    xfer_region_options_t lent = {
        .size = sizeof lent, .access = XFER_READ | XFER_WRITE, .name = "members"};
    xfer_region_t *region = NULL;
    void *members = NULL;
    must(xfer_region_alloc(engine, &lent, 1 << 16, &members, &region, NULL), "members");
    printf("%s\n", own);
    for (char line[512]; fgets(line, sizeof line, stdin);) {
        char uri[256] = "", identity[33] = "";
        uint32_t limit = 0, patient = 0; /* with a connection: 0: limit */
        if (sscanf(line, "change %255s %" SCNu32, uri, &limit) == 2) {
            change(engine, uri, limit);
            continue;
        }
        const int words =
            sscanf(line, "%255s %" SCNu32 " %32s %" SCNu32, uri, &limit, identity, &patient);
        if (words < 2) return 2;
        if (patient == 0) patient = limit;
        visit(engine, uri, limit, patient, identity);
    }
    must(xfer_region_close(region), "close");
    must(xfer_engine_join(engine, XFER_NONE), "join");
    return 0;
}
