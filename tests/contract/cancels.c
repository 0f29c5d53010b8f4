/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of how operations end: by a deadline, a cancel, a close. */
#include <string.h>
#include <unistd.h>

#include "contract.h"

static const xfer_op_options_t wait_options = {.size = sizeof(xfer_op_options_t),
                                               .flags = XFER_FLAG_WAIT};

static void deadline_expires(void **state) {
    (void)state;
    Pair pair;
    char uri[64];
    uint8_t byte = 0;
    open_two(&pair, 64);
    const int hole = black_hole(uri, sizeof uri);
    xfer_ep_t *ep = open_ep(pair.client, uri);
    assert_status(xfer_put(ep, &byte, &pair.ref, 0, 1, 1, WITHIN(100)), XFER_OK);
    const xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_completion(&event);
    const xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.put.expired, 1);
    assert_int_equal(stats.put.failed, 0);
    close(hole);
}

/* A poll that gives up is what a wait that gives up is in C. */
static void wait_is_not_deadline(void **state) {
    (void)state;
    Pair pair;
    xfer_event_t event;
    uint32_t count = 1;
    open_two(&pair, 64);
    assert_status(xfer_ep_lookup(pair.ep, "later", 1, &wait_options, NULL), XFER_OK);
    assert_status(xfer_engine_poll(pair.client->engine, &event, sizeof event, 1, 50, &count),
                  XFER_OK);
    assert_int_equal(count, 0);
    open_region(pair.server, "later", XFER_READ, pair.memory, 64);
    event = wait_event(pair.client, XFER_EVENT_LOOKUP, 1, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(event.data_length, sizeof(xfer_ref_t));
}

static void cancel_keeps_buffer(void **state) {
    (void)state;
    enum { kLength = 8 << 20, kRounds = 20, kMost = 1000 };
    Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength), byte;
    fill(pair.memory, kLength, 1);
    uint64_t canceled = 0, round = 0;
    /* The engine's thread may be quicker than each cancel of a few rounds. */
    for (; round < kRounds || (canceled == 0 && round < kMost); round++) {
        assert_status(xfer_get(pair.ep, local, &pair.ref, 0, kLength, round, NULL), XFER_OK);
        for (uint64_t turns = 0; turns < round % 4; turns++)
            turn(0);
        assert_status(xfer_cancel(pair.client->engine, pair.ep, round, UINT64_MAX), XFER_OK);
        const xfer_event_t event = wait_event(pair.client, XFER_EVENT_GET, round, kPatience);
        assert_completion(&event);
        if (event.status != XFER_OK) assert_status(event.status, XFER_ECANCELED);
        canceled += event.status == XFER_ECANCELED;
        memset(local, 0xee, kLength);
        /* What was still on its way has come when this has. */
        assert_status(get_now(pair.client, pair.ep, &byte, &pair.ref, 0, 1), XFER_OK);
        assert_true(all_are(local, kLength, 0xee));
        assert_int_equal(count_events(pair.client, XFER_EVENT_GET, round), 1);
    }
    assert_true(canceled > 0);
}

/* Between its close and the poll that gives its CLOSED a handle may still be given to a call. */
static void submit_after_close(void **state) {
    (void)state;
    Pair pair;
    uint8_t byte = 0;
    open_two(&pair, 64);
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(xfer_batch_put(batch, &byte, &pair.ref, 0, 1), XFER_OK);
    assert_status(xfer_ep_close(pair.ep), XFER_OK);
    assert_status(xfer_put(pair.ep, &byte, &pair.ref, 0, 1, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_lookup(pair.ep, "memory", 1, NULL, NULL), XFER_ECLOSED);
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_close(pair.ep), XFER_ECLOSED);
    const xfer_grant_options_t all = {.size = sizeof all, .access = XFER_READ, .length = 64};
    xfer_ref_t ref;
    assert_status(xfer_region_close(pair.region), XFER_OK);
    assert_status(xfer_region_grant(pair.region, &all, &ref, NULL), XFER_ECLOSED);
    assert_status(xfer_region_close(pair.region), XFER_ECLOSED);
    wait_closed(pair.client, pair.ep);
    wait_closed(pair.server, pair.region);
    assert_status(xfer_batch_close(batch), XFER_OK);

    /* The engine first. */
    open_two(&pair, 64);
    batch = open_batch(pair.ep);
    xfer_region_t *region = open_region(pair.client, "own", XFER_READ, test_memory(64), 64);
    xfer_engine_t *engine = pair.client->engine;
    const xfer_region_options_t options = {.size = sizeof options};
    xfer_region_t *none = NULL;
    assert_status(xfer_engine_close(engine), XFER_OK);
    assert_status(xfer_put(pair.ep, &byte, &pair.ref, 0, 1, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_recv(engine, NULL, &byte, 1, 1, 0, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_region_open(engine, &options, &byte, 1, &none, NULL), XFER_ECLOSED);
    assert_status(xfer_engine_close(engine), XFER_ECLOSED);
    host_end(pair.client);
    assert_status(xfer_batch_close(batch), XFER_ECLOSED);
    assert_status(xfer_region_close(region), XFER_ECLOSED);
    assert_status(xfer_ep_close(pair.ep), XFER_ECLOSED);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
}

static void close_with_inflight(void **state) {
    (void)state;
    enum { kLength = 8 << 20, kPuts = 20, kLookup = 100, kReceive = 101 };
    Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength);
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, kLength, i, NULL), XFER_OK);
    assert_status(xfer_ep_lookup(pair.ep, "never", kLookup, &wait_options, NULL), XFER_OK);
    assert_status(xfer_recv(pair.client->engine, NULL, local, 1, 1, 0, kReceive, NULL), XFER_OK);
    assert_status(xfer_engine_close(pair.client->engine), XFER_OK);
    wait_closed(pair.client, pair.client->engine);
    /* CLOSED is the last: theirs are here. */
    for (uint64_t i = 0; i < kPuts; i++) {
        xfer_event_t event;
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, i), 1);
        assert_true(take_event(pair.client, XFER_EVENT_PUT, i, &event));
        assert_completion(&event);
        if (event.status != XFER_OK) assert_status(event.status, XFER_ECANCELED);
    }
    assert_int_equal(count_events(pair.client, XFER_EVENT_LOOKUP, kLookup), 1);
    assert_int_equal(count_events(pair.client, XFER_EVENT_RECV, kReceive), 1);
    assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, kLookup, 0).status, XFER_ECANCELED);
    assert_status(wait_event(pair.client, XFER_EVENT_RECV, kReceive, 0).status, XFER_ECANCELED);
}

/* How long it took, in milliseconds. */
static uint64_t cancel_now(Host *host, uint32_t kind, uint64_t user) {
    const uint64_t began = now_ms();
    assert_status(xfer_cancel(host->engine, NULL, user, UINT64_MAX), XFER_OK);
    assert_status(wait_event(host, kind, user, kPatience).status, XFER_ECANCELED);
    return now_ms() - began;
}

/* A machine that is busy may keep one of them waiting, but not each. */
static void waits_canceled(void **state) {
    (void)state;
    enum { kRounds = 5, kBound = 100 };
    static const uint32_t kinds[] = {XFER_EVENT_CONNECT, XFER_EVENT_LOOKUP, XFER_EVENT_PROBE};
    uint64_t least[] = {kPatience, kPatience, kPatience};
    Pair pair;
    char uri[64];
    xfer_engine_options_t options = host_options(DOOR);
    options.connect_ms = 60000; /* else a slow machine sees an attempt end by itself */
    pair_open_with(&pair, &options, &options, DOOR, 64);
    const int hole = black_hole(uri, sizeof uri);
    xfer_ep_t *ep = open_ep(pair.client, uri);
    for (int round = 0; round < kRounds; round++) {
        assert_status(xfer_ep_connect(ep, 0, NULL), XFER_OK);
        assert_status(xfer_ep_lookup(pair.ep, "never", 1, &wait_options, NULL), XFER_OK);
        assert_status(xfer_ep_probe(ep, 2, NULL), XFER_OK);
        look_up(pair.client, pair.ep, "memory"); /* so the peer has the other as well */
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(count_events(pair.client, kinds[i], i), round);
            const uint64_t took = cancel_now(pair.client, kinds[i], i);
            if (took < least[i]) least[i] = took;
        }
    }
    for (int i = 0; i < 3; i++)
        assert_true(least[i] <= kBound);
    close(hole);
}

static void cancel_by_mask(void **state) {
    (void)state;
    enum { kEach = 5 };
    const uint64_t ours = 10ull << 32, theirs = 11ull << 32, request = 0xffffffffull << 32;
    Pair pair;
    uint8_t bytes[2 * kEach];
    open_two(&pair, 64);
    for (uint64_t i = 0; i < kEach; i++) {
        assert_status(xfer_ep_lookup(pair.ep, "later", ours | i, &wait_options, NULL), XFER_OK);
        assert_status(xfer_ep_lookup(pair.ep, "later", theirs | i, &wait_options, NULL), XFER_OK);
        assert_status(
            xfer_recv(pair.client->engine, pair.ep, &bytes[i], 1, i, UINT64_MAX, ours | i, NULL),
            XFER_OK);
    }
    assert_status(xfer_cancel(pair.client->engine, NULL, ours, request), XFER_OK);
    for (uint64_t i = 0; i < kEach; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, ours | i, kPatience).status,
                      XFER_ECANCELED);
        assert_status(wait_event(pair.client, XFER_EVENT_RECV, ours | i, kPatience).status,
                      XFER_ECANCELED);
        assert_int_equal(count_events(pair.client, XFER_EVENT_LOOKUP, theirs | i), 0);
    }
    open_region(pair.server, "later", XFER_READ, pair.memory, 64);
    for (uint64_t i = 0; i < kEach; i++)
        assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, theirs | i, kPatience).status,
                      XFER_OK);
}

static const struct CMUnitTest tests[] = {
    TEST(deadline_expires),   TEST(wait_is_not_deadline), TEST(cancel_keeps_buffer),
    TEST(submit_after_close), TEST(close_with_inflight),  TEST(waits_canceled),
    TEST(cancel_by_mask),
};

TEST_MAIN(tests)
