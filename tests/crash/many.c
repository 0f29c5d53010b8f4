/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer that dies and comes back a thousand times, now under the same identity, now under another:
 * the survivor holds no more at the end than near the beginning. It keeps no log of its events, so
 * that its memory can be compared. XFER_TEST_ROUNDS=1000 asks for as many. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scene.h"

static const char kAddress[] = "tcp://127.0.0.1:0";
enum { kId = 13, kLength = 256 << 10, kPart = 4096 };

/* ---- the role: lends memory, and puts and notifies by itself ---- */

static int visit_role(const char *argument) {
    int id = 0;
    char uri[256], survivor[256], bound[256];
    static uint8_t lent_memory[kLength], local[kLength];
    if (sscanf(argument, "%d %255s %255s", &id, uri, survivor) != 3) return 2;
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .io_threads = XFER_NONE,
                                     .id = {(uint8_t)id}};
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "memory"};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    xfer_ep_t *ep = NULL;
    xfer_batch_t *batch = NULL;
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_region_open(engine, &lent, lent_memory, kLength, &region, NULL) != XFER_OK ||
        xfer_engine_listen(engine, uri, NULL, bound, sizeof bound, NULL) != XFER_OK ||
        xfer_ep_open(engine, survivor, NULL, &ep, NULL) != XFER_OK ||
        xfer_batch_open(ep, NULL, &batch, NULL) != XFER_OK ||
        xfer_ep_lookup(ep, "memory", 1, NULL, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    xfer_submit_options_t notify = {
        .size = sizeof notify, .flags = XFER_SUBMIT_NOTIFY, .notify_key = (uint64_t)getpid()};
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        const bool first = count && event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK;
        const bool next = count && event.kind == XFER_EVENT_BATCH && event.status == XFER_OK;
        if (first && xfer_batch_put(batch, local, event.data, 0, kLength) != XFER_OK) return 5;
        if ((first || next) && xfer_batch_submit(batch, 2, &notify) != XFER_OK) return 6;
    }
}

/* ---- the survivor ---- */

typedef struct Survivor {
    xfer_engine_t *engine;
    xfer_region_t *region;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint8_t *memory;
    char uri[256], visitor[256];
    uint64_t told; /* the newest process that a notification came from */
} Survivor;

static void open_survivor(Survivor *survivor) {
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = XFER_NONE};
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "memory"};
    *survivor = (Survivor){.memory = test_memory(kLength)};
    const char *visitor = preferred(kAddress); /* of all its lives */
    if (visitor == kAddress) visitor = own_address();
    snprintf(survivor->visitor, sizeof survivor->visitor, "%s", visitor);
    assert_status(xfer_engine_open(&options, &survivor->engine, NULL), XFER_OK);
    assert_status(xfer_engine_listen(survivor->engine, preferred(kAddress), NULL, survivor->uri,
                                     sizeof survivor->uri, NULL),
                  XFER_OK);
    assert_status(xfer_region_open(survivor->engine, &lent, survivor->memory, kLength,
                                   &survivor->region, NULL),
                  XFER_OK);
}

static bool poll_one(Survivor *survivor, xfer_event_t *event) {
    uint32_t count = 0;
    assert_status(xfer_engine_poll(survivor->engine, event, sizeof *event, 1, 20, &count), XFER_OK);
    if (count && event->kind == XFER_EVENT_NOTIFY && event->status == XFER_OK)
        survivor->told = event->tag;
    return count == 1;
}

static xfer_status_t wait_kind(Survivor *survivor, uint32_t kind, xfer_event_t *event) {
    for (const uint64_t end = now_ms() + kPatience; now_ms() < end;)
        if (poll_one(survivor, event) && event->kind == kind) return event->status;
    fail_msg("no event of kind %u", kind);
    return XFER_EINTERNAL;
}

static void start_visitor(Survivor *survivor, Peer *peer, int id) {
    char argument[600];
    snprintf(argument, sizeof argument, "%d %s %s", id, survivor->visitor, survivor->uri);
    peer_start_role(peer, "visit", argument);
    peer_read_line(peer, survivor->visitor, sizeof survivor->visitor);
}

/* A life: both ends move bytes, and then it is over, with bytes under way. */
static void live_once(Survivor *survivor, int id) {
    Peer peer;
    xfer_event_t event;
    start_visitor(survivor, &peer, id);
    if (survivor->ep == NULL)
        assert_status(xfer_ep_open(survivor->engine, survivor->visitor, NULL, &survivor->ep, NULL),
                      XFER_OK);
    assert_status(xfer_ep_lookup(survivor->ep, "memory", 1, NULL, NULL), XFER_OK);
    assert_status(wait_kind(survivor, XFER_EVENT_LOOKUP, &event), XFER_OK);
    memcpy(&survivor->ref, event.data, sizeof survivor->ref);
    assert_status(xfer_put(survivor->ep, survivor->memory, &survivor->ref, 0, kPart, 1, NULL),
                  XFER_OK);
    assert_status(wait_kind(survivor, XFER_EVENT_PUT, &event), XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (survivor->told != (uint64_t)peer.pid) {
        assert_true(now_ms() < end);
        poll_one(survivor, &event);
    }
    peer_kill(&peer);
}

typedef struct State {
    Holdings holdings;
    uint64_t bytes, connections, peers;
} State;

/* When the last life is over. */
static State state_of(Survivor *survivor) {
    static char text[1 << 20];
    uint64_t needed = 0;
    xfer_engine_stats_t stats;
    xfer_event_t event;
    const uint64_t end = now_ms() + kPatience;
    do {
        assert_true(now_ms() < end);
        poll_one(survivor, &event);
        assert_status(xfer_engine_stats(survivor->engine, &stats, sizeof stats), XFER_OK);
    } while (stats.connections > 0);
    while (poll_one(survivor, &event)) {}
    State state = {
        .holdings = holdings(), .bytes = mallinfo2().uordblks, .connections = stats.connections};
    assert_status(xfer_engine_describe(survivor->engine, text, sizeof text, &needed), XFER_OK);
    for (const char *at = strstr(text, "\"endpoints\""); at != NULL;
         at = strstr(at + 1, "\"endpoints\""))
        state.peers++;
    return state;
}

static void test_restarts(void **unused) {
    (void)unused;
    const int rounds = rounds_of(100), warm = rounds / 5 + 2;
    Survivor survivor;
    Times times = {.count = 0};
    State before = {.bytes = 0};
    open_survivor(&survivor);
    for (int round = 0; round < rounds + warm; round++) {
        const uint64_t began = now_us();
        live_once(&survivor, round % 4 == 3 ? 0 : kId);
        times_add(&times, now_us() - began);
        if (round + 1 == warm) before = state_of(&survivor);
    }
    const State after = state_of(&survivor);
    assert_int_equal(after.holdings.descriptors, before.holdings.descriptors);
    assert_int_equal(after.holdings.threads, before.holdings.threads);
    assert_int_equal(after.holdings.mappings, before.holdings.mappings);
    assert_true(after.holdings.files <= before.holdings.files);
    assert_int_equal(after.peers, before.peers);
    /* Pools and tables grow in steps, the largest a staging buffer of 16 KiB for a connection that
     * overlaps with the last one; a leak would be in each life. */
    const int64_t grown = (int64_t)after.bytes - (int64_t)before.bytes;
    if (grown > (40 << 10) + 32 * rounds)
        fail_msg("%lld bytes more after %d lives", (long long)grown, rounds);
    times_print(&times, "one life of a peer: start, bytes both ways, kill -9", "no target");
    print_message(
        "figure: after %d lives: %+lld bytes, %d descriptors, %d threads, %d shared mappings, %d "
        "peers\n",
        rounds, (long long)grown, after.holdings.descriptors, after.holdings.threads,
        after.holdings.mappings, (int)after.peers);
    assert_status(xfer_engine_join(survivor.engine, XFER_NONE), XFER_OK);
    assert_status(xfer_region_close(survivor.region), XFER_ECLOSED);
    assert_status(xfer_ep_close(survivor.ep), XFER_ECLOSED);
}

static const struct CMUnitTest tests[] = {TEST(test_restarts)};

TEST_MAIN_AFTER(tests, peer_role("visit", visit_role))
