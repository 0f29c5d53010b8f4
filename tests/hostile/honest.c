/* SPDX-License-Identifier: Apache-2.0
 *
 * An honest peer of the engine under attack: it puts to the region "members", gets what it has put
 * and compares, without end, over one connection. Guard bytes around both local buffers, and the
 * bytes behind what was asked for, are checked after every completion, whatever its status. The
 * first line that it prints, once it is served, is the URI of the engine. It answers each line
 * after one more round with the rounds so far, the operations that failed, the bytes that were not
 * those that were put, the guards that were written over, and the connections that were lost or
 * came anew. It ends with its input.
 *
 * Usage: hostile_honest URI [KEY]
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xfer/xfer.h>

#include "process.h"

enum {
    GUARD = 256,
    MOST = 16384,   /* bytes of one put */
    REGION = 65536, /* of "members" */
    LIMIT = 5000,   /* milliseconds of one operation */
    PATIENCE = 4 * LIMIT,
    PAUSE = 2,    /* milliseconds between two rounds: the attack is to have the processor */
    FIRST = 32,   /* rounds before the first line, so that all its lanes are there */
    EMPTY = 0xa5, /* what guards and the bytes to be written over hold */
};

typedef struct Buffer {
    unsigned char before[GUARD], bytes[MOST], after[GUARD];
} Buffer;

static Buffer source, target;
static uint64_t rounds, failed, wrong, around, lost, up;

static void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    fprintf(stderr, "honest peer: %s: %s\n", what, xfer_status_name(status));
    exit(1);
}

static int is_empty(const unsigned char *bytes, uint64_t length) {
    for (uint64_t i = 0; i < length; ++i)
        if (bytes[i] != EMPTY) return 0;
    return 1;
}

/* Guards that were written over are counted once each. */
static void check_guards(Buffer *buffer, uint64_t used) {
    const int whole = is_empty(buffer->before, GUARD) && is_empty(buffer->after, GUARD) &&
                      is_empty(buffer->bytes + used, MOST - used);
    if (whole) return;
    ++around;
    memset(buffer->before, EMPTY, GUARD);
    memset(buffer->after, EMPTY, GUARD);
}

/* How the operation of that kind ended. */
static xfer_status_t wait_for(xfer_engine_t *engine, uint32_t kind, xfer_ref_t *ref) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        must(xfer_engine_poll(engine, &event, sizeof event, 1, PATIENCE, &count), "poll");
        if (count == 0) {
            fprintf(stderr, "honest peer: event %" PRIu32 " does not come\n", kind);
            exit(1);
        }
        lost += event.kind == XFER_EVENT_PEER_DOWN;
        up += event.kind == XFER_EVENT_PEER_UP;
        if (event.kind != kind) continue;
        if (ref && event.status == XFER_OK && event.data_length >= sizeof *ref)
            memcpy(ref, event.data, sizeof *ref);
        return event.status;
    }
}

static void run_round(xfer_engine_t *engine, xfer_ep_t *ep, const xfer_ref_t *ref) {
    const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = LIMIT};
    const uint64_t random = pattern(pattern(rounds)) >> 16;
    const uint64_t length = 1 + random % MOST, offset = (random >> 20) % (REGION - length);
    memset(source.bytes, EMPTY, MOST);
    memset(target.bytes, EMPTY, MOST);
    for (uint64_t i = 0; i < length; ++i)
        source.bytes[i] = (unsigned char)(pattern(rounds + i / 8) >> 8 * (i % 8));
    xfer_status_t put = xfer_put(ep, source.bytes, ref, offset, length, 0, &options);
    if (put == XFER_OK) put = wait_for(engine, XFER_EVENT_PUT, NULL);
    check_guards(&source, length);
    xfer_status_t got = xfer_get(ep, target.bytes, ref, offset, length, 0, &options);
    if (got == XFER_OK) got = wait_for(engine, XFER_EVENT_GET, NULL);
    check_guards(&target, length);
    failed += (put != XFER_OK) + (got != XFER_OK);
    if (put == XFER_OK && got == XFER_OK) {
        wrong += memcmp(source.bytes, target.bytes, length) != 0;
        ++rounds;
    }
}

static void report(void) {
    printf("honest rounds %" PRIu64 " failed %" PRIu64 " wrong %" PRIu64 " around %" PRIu64
           " lost %" PRIu64 " again %" PRIu64 "\n",
           rounds, failed, wrong, around, lost, up - 1);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    if (argc > 2) {
        options.key = argv[2];
        options.key_length = strlen(argv[2]);
    }
    memset(&source, EMPTY, sizeof source);
    memset(&target, EMPTY, sizeof target);
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_ref_t ref;
    must(xfer_engine_open(&options, &engine, NULL), "open");
    const xfer_ep_options_t plain = {.size = sizeof plain};
    must(xfer_ep_open(engine, argv[1], &plain, &ep, NULL), argv[1]);
    must(xfer_ep_lookup(ep, "members", 0, NULL, NULL), "lookup");
    must(wait_for(engine, XFER_EVENT_LOOKUP, &ref), "lookup");
    while (rounds < FIRST && !failed)
        run_round(engine, ep, &ref);
    printf("%s\n", argv[1]);

    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        const int asked = poll(&input, 1, PAUSE) > 0;
        char line[64];
        if (asked && !fgets(line, sizeof line, stdin)) break;
        run_round(engine, ep, &ref);
        if (asked) report();
    }
    must(xfer_ep_close(ep), "close");
    must(xfer_engine_join(engine, XFER_NONE), "join");
    return 0;
}
