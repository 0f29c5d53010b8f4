/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound that an application can reach is reached: what is past it is refused with the status
 * that the header names, and there is room again when something has ended. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

enum { kMaxReceives = 65536, kMaxRemotes = 65536, kMaxWatched = 65536, kChain = 20000 };
enum { kMaxRegions = 1048576 };

static void wait_count(Host *host, uint32_t kind, size_t count) {
    uint64_t end = now_ms() + 2 * kPatience;
    while (count_events(host, kind, ANY_USER) < count && now_ms() < end)
        turn(5);
    assert_int_equal(count_events(host, kind, ANY_USER), count);
}

static _Atomic xfer_status_t again[2]; /* written by the engine's thread, watched by the test's */

static xfer_status_t receive_last(Host *host) {
    return xfer_recv(host->engine, NULL, host->hook_data, 8, kMaxReceives, 0, kMaxReceives, NULL);
}

static void receive_again(Host *host, const xfer_event_t *event) {
    if (event->kind != XFER_EVENT_RECV || event->user != kMaxReceives - 1) return;
    again[0] = receive_last(host);
    again[1] = receive_last(host);
}

/* Whoever is told that one has ended may begin the next one from inside the callback, or before the
 * next poll: no other event would tell of the room. */
static void test_receives(void **state) {
    Host *host = host_open(*state);
    uint8_t *buffer = test_memory(8);
    again[0] = again[1] = XFER_EINTERNAL;
    host->hook_data = buffer;
    host->hook = receive_again;
    const uint64_t last = kMaxReceives - 1;
    for (uint64_t i = 0; i < kMaxReceives; i++)
        assert_status(xfer_recv(host->engine, NULL, buffer, 8, i, UINT64_MAX, i, NULL), XFER_OK);
    assert_status(xfer_recv(host->engine, NULL, buffer, 8, 0, 0, 1, NULL), XFER_EAGAIN);
    host_listen(host, "tcp://127.0.0.1:0");
    assert_status(xfer_send(open_ep(host, host->uri), buffer, 8, last, 1, NULL), XFER_OK);
    assert_status(wait_event(host, XFER_EVENT_RECV, last, kPatience).status, XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (again[1] == XFER_EINTERNAL && now_ms() < end)
        turn(1); /* the hook runs after the event was recorded */
    assert_status(again[0], XFER_OK);
    assert_status(again[1], XFER_EAGAIN);
    assert_status(receive_last(host), XFER_EAGAIN);
    host->hook = NULL;
    host_end(host);
    wait_count(host, XFER_EVENT_RECV, kMaxReceives + 1);
}

static void test_refs_of_a_batch(void **state) {
    Pair pair;
    pair_open(&pair, *state, kMaxRemotes + 1);
    uint8_t *local = test_memory(1);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    xfer_ref_t ref;
    xfer_grant_options_t grant = {.size = sizeof grant, .access = XFER_WRITE, .length = 1};
    for (grant.offset = 0; grant.offset < kMaxRemotes; grant.offset++) {
        assert_status(xfer_region_grant(pair.region, &grant, &ref, NULL), XFER_OK);
        assert_status(xfer_batch_put(batch, local, &ref, 0, 1), XFER_OK);
    }
    xfer_ref_t more;
    xfer_span_t span = {(uintptr_t)local, 0, 1};
    xfer_strided_t strided = {
        .size = sizeof strided, .local = span.local, .remote = &more, .length = 1, .count = 1};
    xfer_error_t err;
    assert_status(xfer_region_grant(pair.region, &grant, &more, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &more, 0, 1), XFER_ETOOBIG);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, &more, &span, sizeof span, 1, &err),
                  XFER_ETOOBIG);
    assert_non_null(strstr(err.message, "65536 refs"));
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_ETOOBIG);
    assert_status(xfer_batch_put(batch, local, &ref, 0, 1), XFER_OK); /* one that it names */
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &more, 0, 1), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

/* A batch has 2^32 entries. Blocks of no bytes fill it without any memory. */
static void test_entries_of_a_batch(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(8);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)local,
                              .remote = &pair.ref,
                              .count = (1ull << 32) + 1};
    xfer_error_t err;
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, &err), XFER_ETOOBIG);
    assert_non_null(strstr(err.message, "more than 4294967296"));
    strided.count = 1ull << 32;
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 8), XFER_ETOOBIG);
    assert_status(xfer_batch_get(batch, local, &pair.ref, 0, 8), XFER_ETOOBIG);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 8), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

static void look_up_all(Host *host, xfer_ep_t *ep, uint32_t first, uint32_t count) {
    char name[16];
    for (uint32_t i = first; i < first + count; i++) {
        snprintf(name, sizeof name, "r%u", i);
        assert_status(xfer_ep_lookup(ep, name, i, NULL, NULL), XFER_OK);
    }
    wait_count(host, XFER_EVENT_LOOKUP, first + count + 1); /* one was of pair_open */
}

/* Of the end of 65,536 regions a peer is told, of more not: their refs are stale all the same. */
static void test_regions_that_are_watched(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    static xfer_region_t *regions[kMaxWatched];
    char name[16];
    for (uint32_t i = 0; i < kMaxWatched; i++) {
        snprintf(name, sizeof name, "r%u", i);
        regions[i] = open_region(pair.server, name, XFER_READ, pair.memory, 1);
    }
    for (uint32_t i = 0; i < kMaxWatched; i += 512)
        look_up_all(pair.client, pair.ep, i, 512);
    /* The first was that of the pair: so the last is one too many. */
    xfer_ref_t untold;
    assert_status(xfer_region_ref(regions[kMaxWatched - 1], &untold), XFER_OK);
    assert_status(xfer_region_close(regions[kMaxWatched - 1]), XFER_OK);
    assert_status(xfer_region_close(regions[kMaxWatched - 2]), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(regions[0], &ref), XFER_OK);
    xfer_ref_info_t gone, first;
    xfer_region_info_t info;
    assert_status(xfer_ref_info(event.data, &gone, sizeof gone), XFER_OK);
    assert_status(xfer_ref_info(&ref, &first, sizeof first), XFER_OK);
    assert_int_equal(gone.region, first.region + kMaxWatched - 2);
    assert_status(get_now(pair.client, pair.ep, test_memory(1), &untold, 0, 1), XFER_ESTALE);
    /* Now there is room for one more. */
    xfer_region_t *late = open_region(pair.server, "late", XFER_READ, pair.memory, 1);
    look_up(pair.client, pair.ep, "late");
    assert_status(xfer_region_close(late), XFER_OK);
    wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    assert_int_equal(count_events(pair.client, XFER_EVENT_REGION_GONE, ANY_USER), 2);
    assert_status(xfer_region_info(regions[0], &info, sizeof info), XFER_OK);
    host_end(pair.server);
    for (uint32_t i = 0; i < kMaxWatched - 2; i++)
        assert_status(xfer_region_close(regions[i]), XFER_ECLOSED);
}

/* A lookup that waits for a name takes a place at the peer, of which one connection has so many:
 * one that finds none ends, and not with a status that promises a ROOM event. */
static void test_lookups_that_wait(void **state) {
    enum { kMaxWaiting = 1024 };
    xfer_engine_options_t server = host_options(*state), client = server;
    client.max_operations = kMaxWaiting + 8;
    Pair pair;
    pair_open_with(&pair, &server, &client, *state, 4096);
    const xfer_op_options_t waits = {.size = sizeof waits, .flags = XFER_FLAG_WAIT};
    for (uint64_t i = 0; i <= kMaxWaiting; i++)
        assert_status(xfer_ep_lookup(pair.ep, i % 2 ? "odd" : "even", i, &waits, NULL), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_LOOKUP, kMaxWaiting, kPatience);
    assert_status(event.status, XFER_EOVERLOAD);
    assert_int_equal(event.origin, XFER_ORIGIN_PEER);
    assert_non_null(event.data);
    assert_non_null(strstr(event.data, "\"even\""));
    open_region(pair.server, "odd", XFER_READ, pair.memory, 1);
    for (uint64_t i = 1; i < kMaxWaiting; i += 2)
        assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, i, kPatience).status, XFER_OK);
    assert_status(xfer_ep_lookup(pair.ep, "even", kMaxWaiting + 1, &waits, NULL), XFER_OK);
    open_region(pair.server, "even", XFER_READ, pair.memory, 1);
    for (uint64_t i = 0; i < kMaxWaiting; i += 2)
        assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, i, kPatience).status, XFER_OK);
    event = wait_event(pair.client, XFER_EVENT_LOOKUP, kMaxWaiting + 1, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(count_events(pair.client, XFER_EVENT_ROOM, ANY_USER), 0);
}

static _Atomic int revoked;

static void count_revoked(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind == XFER_EVENT_REVOKED) revoked++;
}

/* Grants count as regions. One that ends makes room. */
static void test_regions(void **state) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    print_message("skip: under a sanitizer they take several gigabytes\n");
    skip();
#endif
    Pair pair;
    pair_open(&pair, *state, 4096);
    Host *owner = pair.server;
    xfer_grant_options_t options = {.size = sizeof options, .access = XFER_READ, .length = 1};
    xfer_ref_t ref;
    for (uint32_t i = 1; i < kMaxRegions; i++)
        assert_status(xfer_region_grant(pair.region, &options, &ref, NULL), XFER_OK);
    xfer_region_t *region = NULL;
    xfer_ref_t over;
    assert_status(xfer_region_grant(pair.region, &options, &over, NULL), XFER_ETOOBIG);
    assert_status(xfer_region_open(owner->engine, NULL, pair.memory, 1, &region, NULL),
                  XFER_ETOOBIG);
    assert_int_equal(host_stats(owner).grants, kMaxRegions - 1);
    assert_status(xfer_region_revoke(pair.region, &ref), XFER_OK);
    wait_event(owner, XFER_EVENT_REVOKED, ANY_USER, kPatience);
    region = open_region(owner, "another", XFER_READ, pair.memory, 1);
    assert_status(xfer_region_grant(pair.region, &options, &over, NULL), XFER_ETOOBIG);
    owner->hook = count_revoked; /* the fixture looks through all that it recorded */
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_atomic(&revoked, kMaxRegions - 2, kPatience);
    assert_status(xfer_region_close(region), XFER_OK);
}

/* Each begins when the one before it has ended, however many wait behind it. */
static void test_long_chain(void **state) {
    xfer_engine_options_t options = host_options(*state), server = options;
    options.max_operations = kChain;
    Pair pair;
    pair_open_with(&pair, &server, &options, *state, 4096);
    uint8_t *local = test_memory(8);
    static xfer_batch_t *batches[kChain];
    xfer_submit_options_t ordered = {.size = sizeof ordered, .flags = XFER_SUBMIT_ORDERED};
    for (uint64_t i = 0; i < kChain; i++) {
        assert_status(xfer_batch_open(pair.ep, NULL, &batches[i], NULL), XFER_OK);
        assert_status(xfer_batch_put(batches[i], local, &pair.ref, i % 512 * 8, 8), XFER_OK);
    }
    for (uint64_t i = 0; i < kChain; i++)
        assert_status(xfer_batch_submit(batches[i], i, &ordered), XFER_OK);
    wait_count(pair.client, XFER_EVENT_BATCH, kChain);
    pthread_mutex_lock(&pair.client->mutex);
    uint64_t next = 0;
    for (size_t i = 0; i < pair.client->seen_count; i++) {
        const xfer_event_t *event = &pair.client->seen[i].event;
        if (event->kind != XFER_EVENT_BATCH) continue;
        assert_status(event->status, XFER_OK);
        assert_int_equal(event->user, next++);
    }
    pthread_mutex_unlock(&pair.client->mutex);
    for (uint64_t i = 0; i < kChain; i++)
        assert_status(xfer_batch_close(batches[i]), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    MODE_TEST(test_receives, 0, "thread/none"),
    MODE_TEST(test_receives, 1, "thread/1"),
    MODE_TEST(test_receives, 6, "poll/none"),
    MODE_TEST(test_receives, 7, "poll/1"),
    MODE_TEST(test_refs_of_a_batch, 1, "thread/1"),
    MODE_TEST(test_entries_of_a_batch, 1, "thread/1"),
    MODE_TEST(test_regions_that_are_watched, 1, "thread/1"),
    MODE_TEST(test_lookups_that_wait, 1, "thread/1"),
    MODE_TEST(test_regions, 7, "poll/1"),
    MODE_TEST(test_long_chain, 0, "thread/none"),
    MODE_TEST(test_long_chain, 1, "thread/1"),
};

TEST_MAIN(tests)
