/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that was compiled for a later version than the library it meets: its structs and events
 * are longer. What it leaves at 0 the library need not know; what it sets is refused, and said.
 * Only what the oldest version in `released` has is used.
 *
 * Usage: later, without a word; it says what is not as it should be, and exits with 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/text.h>
#include <xfer/xfer.h>

#define LATER(type)       \
    struct {              \
        type known;       \
        uint64_t more[2]; \
    }

static void must(int true_, const char *what) {
    if (true_) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void must_be(xfer_status_t status, xfer_status_t wanted, const char *what) {
    if (status == wanted) return;
    fprintf(stderr, "%s: %s, not %s\n", what, xfer_status_name(status), xfer_status_name(wanted));
    exit(1);
}

static void must_say(const xfer_error_t *err, const char *part) {
    if (strstr(err->message, part)) return;
    fprintf(stderr, "\"%s\" does not say \"%s\"\n", err->message, part);
    exit(1);
}

static xfer_engine_t *open_engine(void) {
    LATER(xfer_engine_options_t) options;
    memset(&options, 0, sizeof options);
    options.known.size = sizeof options;
    options.known.dispatch = XFER_DISPATCH_POLL;
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    options.more[1] = 1;
    must_be(xfer_engine_open(&options.known, &engine, &err), XFER_E2BIG, "a field is set");
    must(engine == NULL, "no engine");
    must_say(&err, "xfer_engine_options_t.size is");
    must_say(&err, "this library knows");
    options.more[1] = 0;
    options.known.flags = 1u << 31;
    must_be(xfer_engine_open(&options.known, &engine, &err), XFER_EINVAL, "a flag is set");
    must_say(&err, "xfer_engine_options_t.flags has unknown bits");
    options.known.flags = 0;
    must_be(xfer_engine_option_set(&options.known, "of_later", "1", &err), XFER_ENOTFOUND,
            "an option by name");
    must_say(&err, "of_later");
    must_be(xfer_engine_option_set(&options.known, "lanes", "2", &err), XFER_OK, "lanes");
    must_be(xfer_engine_open(&options.known, &engine, &err), XFER_OK, "nothing is set");
    return engine;
}

/* What comes out is zero past what the library knows. */
static void look(xfer_engine_t *engine) {
    LATER(xfer_engine_stats_t) stats;
    memset(&stats, 0xff, sizeof stats);
    must_be(xfer_engine_stats(engine, &stats.known, sizeof stats), XFER_OK, "stats");
    must(stats.more[0] == 0 && stats.more[1] == 0, "stats end with zeros");
}

static xfer_region_t *open_region(xfer_engine_t *engine, uint64_t *memory, uint64_t length) {
    LATER(xfer_region_options_t) options;
    memset(&options, 0, sizeof options);
    options.known.size = sizeof options;
    options.known.access = XFER_READ | XFER_WRITE;
    options.known.name = "memory";
    xfer_region_t *region = NULL;
    xfer_error_t err;
    options.known.access |= 1u << 30;
    must_be(xfer_region_open(engine, &options.known, memory, length, &region, &err), XFER_EINVAL,
            "an access is set");
    must_say(&err, "xfer_region_options_t.access has unknown bits: 0x40000000");
    options.known.access &= ~(1u << 30);
    must_be(xfer_region_open(engine, &options.known, memory, length, &region, &err), XFER_OK,
            "region");
    return region;
}

/* Events of another size are one behind the other all the same. */
static void poll_events(xfer_engine_t *engine, uint32_t event_size, const char *what) {
    enum { kMost = 2 };
    static uint64_t room[kMost * (sizeof(xfer_event_t) + 32) / 8];
    uint32_t count = 0;
    memset(room, 0xff, sizeof room);
    for (uint64_t user = 1; user <= kMost; user += count) {
        must_be(xfer_engine_poll(engine, (xfer_event_t *)room, event_size, kMost, 10000, &count),
                XFER_OK, what);
        for (uint32_t i = 0; i < count; i++) {
            xfer_event_t event = {0};
            const uint8_t *at = (const uint8_t *)room + i * event_size;
            const size_t known = event_size < sizeof event ? event_size : sizeof event;
            memcpy(&event, at, known);
            must_be(event.status, XFER_OK, what);
            must(event.kind == XFER_EVENT_PUT && event.user == user + i, what);
            for (size_t byte = known; byte < event_size; byte++)
                must(at[byte] == 0, "an event ends with zeros");
        }
        must(count != 0, what);
    }
}

static void put(xfer_engine_t *engine, xfer_region_t *region, uint64_t *memory) {
    xfer_id_t id;
    xfer_ref_t ref;
    xfer_ep_t *ep = NULL;
    must_be(xfer_engine_id(engine, &id), XFER_OK, "id");
    must_be(xfer_region_ref(region, &ref), XFER_OK, "ref");
    xfer_ep_options_t ours = {.size = sizeof ours, .peer = &id};
    must_be(xfer_ep_open(engine, NULL, &ours, &ep, NULL), XFER_OK, "ep_open");
    LATER(xfer_op_options_t) options;
    memset(&options, 0, sizeof options);
    options.known.size = sizeof options;
    options.more[0] = 1;
    must_be(xfer_put(ep, memory, &ref, 8, 8, 1, &options.known), XFER_E2BIG, "a put's field");
    options.more[0] = 0;
    options.known.flags = 1u << 31;
    must_be(xfer_put(ep, memory, &ref, 8, 8, 1, &options.known), XFER_EINVAL, "a put's flag");
    options.known.flags = 0;

    /* Only the puts have events: PEER_UP comes with the first. */
    must_be(xfer_put(ep, memory, &ref, 8, 8, 0, &options.known), XFER_OK, "the first put");
    xfer_event_t event = {0};
    for (uint32_t count = 1; event.kind != XFER_EVENT_PUT;) {
        must_be(xfer_engine_poll(engine, &event, sizeof event, 1, 10000, &count), XFER_OK, "poll");
        must(count == 1, "the first put");
    }
    const uint32_t sizes[] = {sizeof event + 24, sizeof event, offsetof(xfer_event_t, ep)};
    for (int i = 0; i < 3; i++) {
        for (uint64_t user = 1; user <= 2; user++)
            must_be(xfer_put(ep, memory, &ref, 8, 8, user, &options.known), XFER_OK, "put");
        poll_events(engine, sizes[i], "events of another size");
    }
    must_be(xfer_ep_close(ep), XFER_OK, "ep_close");
}

int main(void) {
    static uint64_t memory[512];
    xfer_engine_t *engine = open_engine();
    look(engine);
    xfer_region_t *region = open_region(engine, memory, sizeof memory);
    put(engine, region, memory);
    must_be(xfer_region_close(region), XFER_OK, "region_close");
    must_be(xfer_engine_join(engine, XFER_NONE), XFER_OK, "join");
    return 0;
}
