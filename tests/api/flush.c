/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations without an event each: XFER_FLAG_QUIET, XFER_FLAG_COPY, and xfer_ep_flush, which waits
 * for them. */
#include <string.h>

#include "fixture.h"

enum { kFlush = 1000000 }; /* the words of flushes; operations have smaller ones */

static const xfer_op_options_t quiet_options = {.size = sizeof(xfer_op_options_t),
                                                .flags = XFER_FLAG_QUIET};
static const xfer_op_options_t copy_options = {.size = sizeof(xfer_op_options_t),
                                               .flags = XFER_FLAG_QUIET | XFER_FLAG_COPY};

static xfer_status_t flush(xfer_ep_t *ep, uint64_t user, uint32_t timeout_ms) {
    const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms};
    return xfer_ep_flush(ep, NULL, user, &options);
}

static xfer_event_t flushed(Host *host, uint64_t user) {
    xfer_event_t event = wait_event(host, XFER_EVENT_FLUSH, user, kPatience);
    assert_completion(&event);
    return event;
}

static xfer_event_t flush_now(Pair *pair, uint64_t user) {
    assert_status(flush(pair->ep, user, 0), XFER_OK);
    return flushed(pair->client, user);
}

/* One that succeeds has no event, and its bytes are there when the flush ends. */
static void test_quiet(void **state) {
    Pair pair;
    enum { kCount = 500, kSize = 3000 };
    pair_open(&pair, *state, (uint64_t)kCount * kSize);
    uint8_t *local = test_memory((uint64_t)kCount * kSize);
    uint8_t *back = test_memory((uint64_t)kCount * kSize);
    fill(local, (uint64_t)kCount * kSize, 1);
    const uint64_t gets = host_stats(pair.client).get.completed; /* which waited for a way */
    for (uint64_t i = 0; i < kCount; i++)
        assert_status(
            xfer_put(pair.ep, local + i * kSize, &pair.ref, i * kSize, kSize, i, &quiet_options),
            XFER_OK);
    assert_status(flush_now(&pair, kFlush).status, XFER_OK);
    assert_true(filled(pair.memory, (uint64_t)kCount * kSize, 1, 0));
    for (uint64_t i = 0; i < kCount; i++)
        assert_status(
            xfer_get(pair.ep, back + i * kSize, &pair.ref, i * kSize, kSize, i, &quiet_options),
            XFER_OK);
    for (uint64_t i = 0; i < 10; i++) {
        assert_status(xfer_send(pair.ep, local, 100, i, i, &quiet_options), XFER_OK);
        assert_status(xfer_notify(pair.ep, "quiet", 5, i, i, &quiet_options), XFER_OK);
    }
    assert_status(flush_now(&pair, kFlush + 1).status, XFER_OK);
    assert_true(filled(back, (uint64_t)kCount * kSize, 1, 0));
    for (uint64_t i = 0; i < 10; i++)
        wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
    const uint32_t kinds[] = {XFER_EVENT_PUT, XFER_EVENT_GET, XFER_EVENT_SEND, XFER_EVENT_NOTIFIED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(count_events(pair.client, kinds[i], ANY_USER), 0);
    /* They count all the same. */
    const xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.put.completed, kCount);
    assert_int_equal(stats.get.completed - gets, kCount);
    assert_int_equal(stats.send.completed, 10);
    assert_int_equal(stats.notify.completed, 10);
    assert_int_equal(stats.queued, 0);
    assert_int_equal(stats.batch.submitted, 0);
}

/* One that fails has its event, before the flush, which tells the first failure, once. */
static void test_failures(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    static uint8_t other[64];
    xfer_region_t *going = open_region(pair.server, "going", XFER_WRITE, other, sizeof other);
    const xfer_ref_t stale = look_up(pair.client, pair.ep, "going");
    assert_status(xfer_region_close(going), XFER_OK);
    wait_closed(pair.server, going);
    static uint64_t word;
    for (uint64_t i = 0; i < 20; i++)
        assert_status(xfer_put(pair.ep, &word, i == 5 || i == 9 ? &stale : &pair.ref, 0, 8, i,
                               &quiet_options),
                      XFER_OK);
    const xfer_event_t told = flush_now(&pair, kFlush);
    assert_status(told.status, XFER_ESTALE);
    assert_int_equal(told.origin, XFER_ORIGIN_PEER);
    assert_int_equal(told.flags, XFER_FENCED);
    for (uint64_t i = 0; i < 20; i++) {
        xfer_event_t event;
        assert_int_equal(take_event(pair.client, XFER_EVENT_PUT, i, &event), i == 5 || i == 9);
        if (i != 5 && i != 9) continue;
        assert_status(event.status, XFER_ESTALE);
        assert_true(event.sequence < told.sequence);
    }
    assert_status(flush_now(&pair, kFlush + 1).status, XFER_OK);
    /* A failure that has an event anyway, and one of a batch, count as well. */
    assert_status(put_now(pair.client, pair.ep, &word, &stale, 0, 8), XFER_ESTALE);
    assert_status(flush_now(&pair, kFlush + 2).status, XFER_ESTALE);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, &word, &stale, 0, 8), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_ESTALE);
    assert_status(flush_now(&pair, kFlush + 3).status, XFER_ESTALE);
    assert_status(flush_now(&pair, kFlush + 4).status, XFER_OK);
}

/* No event where nothing is under way and nothing has failed; else one, and *idle says so. */
static void test_idle(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    static uint64_t word;
    uint32_t idle = 7;
    assert_status(xfer_ep_flush(pair.ep, &idle, kFlush, NULL), XFER_OK);
    assert_int_equal(idle, 1);
    assert_status(put_now(pair.client, pair.ep, &word, &pair.ref, 0, 8), XFER_OK);
    assert_status(xfer_ep_flush(pair.ep, &idle, kFlush, NULL), XFER_OK);
    assert_int_equal(idle, 1);
    /* Who does not ask has an event. */
    assert_status(flush_now(&pair, kFlush + 1).status, XFER_OK);
    assert_int_equal(count_events(pair.client, XFER_EVENT_FLUSH, kFlush), 0);
    /* Under way: until somebody receives. */
    const xfer_op_options_t sync = {.size = sizeof sync, .flags = XFER_FLAG_SYNC | XFER_FLAG_QUIET};
    assert_status(xfer_send(pair.ep, &word, 8, 1, 1, &sync), XFER_OK);
    assert_status(xfer_ep_flush(pair.ep, &idle, kFlush + 2, NULL), XFER_OK);
    assert_int_equal(idle, 0);
    pass_ms(30);
    assert_int_equal(count_events(pair.client, XFER_EVENT_FLUSH, kFlush + 2), 0);
    static uint64_t got;
    assert_status(xfer_recv(pair.server->engine, NULL, &got, 8, 1, UINT64_MAX, 1, NULL), XFER_OK);
    assert_status(flushed(pair.client, kFlush + 2).status, XFER_OK);
    /* Ended, and failed. */
    assert_status(xfer_send(pair.ep, &word, 8, 1, 1, &sync), XFER_OK);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, 1, UINT64_MAX), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_SEND, 1, kPatience).status, XFER_ECANCELED);
    assert_status(xfer_ep_flush(pair.ep, &idle, kFlush + 3, NULL), XFER_OK);
    assert_int_equal(idle, 0);
    assert_status(flushed(pair.client, kFlush + 3).status, XFER_ECANCELED);
    assert_status(xfer_ep_flush(pair.ep, &idle, kFlush + 4, NULL), XFER_OK);
    assert_int_equal(idle, 1);
}

/* The bytes are the caller's at once: what it writes there next is never seen. */
static void test_copy(void **state) {
    Pair pair;
    enum { kCount = 300 };
    pair_open(&pair, *state, kCount * 4096);
    uint8_t *local = test_memory(4096), *got = test_memory(4096);
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t length = i % 4 ? i : 4096;
        fill(local, length, i);
        assert_status(xfer_put(pair.ep, local, &pair.ref, i * 4096, length, i, &copy_options),
                      XFER_OK);
        memset(local, 0xee, 4096);
    }
    for (uint64_t i = 0; i < 20; i++) {
        fill(local, 200 * i, i);
        assert_status(xfer_send(pair.ep, local, 200 * i, 100 + i, i, &copy_options), XFER_OK);
        memset(local, 0xee, 4096);
    }
    /* A long one, and one past what is held, is copied too: it waits here. */
    fill(local, 4096, 77);
    assert_status(xfer_send(pair.ep, local, 4096, 1, 1, &copy_options), XFER_OK);
    memset(local, 0xee, 4096);
    for (uint64_t i = 0; i < 21; i++) {
        assert_status(xfer_recv(pair.server->engine, NULL, got, 4096, i < 20 ? 100 + i : 1,
                                UINT64_MAX, i, NULL),
                      XFER_OK);
        const xfer_event_t event = wait_event(pair.server, XFER_EVENT_RECV, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_true(filled(got, event.bytes, i < 20 ? i : 77, 0));
    }
    assert_status(flush_now(&pair, kFlush).status, XFER_OK);
    for (uint64_t i = 0; i < kCount; i++)
        assert_true(filled(pair.memory + i * 4096, i % 4 ? i : 4096, i, 0));
}

static void test_refused(void **state) {
    Pair pair;
    pair_open(&pair, *state, 8192);
    static uint8_t local[8192];
    xfer_op_options_t options = copy_options;
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 4097, 1, &options), XFER_ETOOBIG);
    assert_status(xfer_send(pair.ep, local, 4097, 1, 1, &options), XFER_ETOOBIG);
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, 8, 1, &options), XFER_EINVAL);
    assert_status(xfer_notify(pair.ep, local, 8, 1, 1, &options), XFER_EINVAL);
    options.flags = XFER_FLAG_QUIET;
    assert_status(xfer_recv(pair.client->engine, NULL, local, 8, 1, 1, 1, &options), XFER_EINVAL);
    assert_status(xfer_ep_probe(pair.ep, 1, &options), XFER_EINVAL);
    assert_status(xfer_ep_connect(pair.ep, 1, &options), XFER_EINVAL);
    uint32_t idle = 7;
    assert_status(xfer_ep_flush(pair.ep, &idle, 1, &options), XFER_EINVAL);
    assert_int_equal(idle, 0);
    options.flags = XFER_FLAG_SYNC;
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 8, 1, &options), XFER_EINVAL);
    assert_status(xfer_notify(pair.ep, local, 8, 1, 1, &options), XFER_EINVAL);
    options.flags = 8;
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 8, 1, &options), XFER_EINVAL);
    hold_events(pair.client);
    const xfer_status_t closed = xfer_ep_close(pair.ep);
    const xfer_status_t late = xfer_ep_flush(pair.ep, NULL, 1, NULL);
    release_events(pair.client);
    assert_status(closed, XFER_OK);
    assert_status(late, XFER_ECLOSED);
    wait_closed(pair.client, pair.ep);
}

/* The end of a flush is not that of the operations that it waits for, and they are told later. */
static void test_ends_early(void **state) {
    char uri[64];
    Pair pair;
    pair_open(&pair, *state, 4096);
    assert_true(black_hole(uri, sizeof uri) >= 0);
    pair.ep = open_ep(pair.client, uri); /* nobody ever answers there */
    static uint64_t word;
    assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, 8, 1, &quiet_options), XFER_OK);
    assert_status(flush(pair.ep, kFlush, 30), XFER_OK);
    assert_status(flush(pair.ep, kFlush + 1, 0), XFER_OK);
    assert_status(flush(pair.ep, kFlush + 2, 0), XFER_OK);
    assert_status(flushed(pair.client, kFlush).status, XFER_ETIMEDOUT);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, kFlush + 1, UINT64_MAX), XFER_OK);
    assert_status(flushed(pair.client, kFlush + 1).status, XFER_ECANCELED);
    pass_ms(20);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_FLUSH, kFlush + 2), 0);
    /* A quiet one that is canceled has its event. */
    assert_status(xfer_cancel(pair.client->engine, NULL, 1, UINT64_MAX), XFER_OK);
    assert_status(flushed(pair.client, kFlush + 2).status, XFER_ECANCELED);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_ECANCELED);
    assert_status(flush_now(&pair, kFlush + 3).status, XFER_OK);
    /* With the endpoint both end. */
    assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, 8, 2, &quiet_options), XFER_OK);
    assert_status(flush(pair.ep, kFlush + 4, 0), XFER_OK);
    assert_status(xfer_ep_close(pair.ep), XFER_OK);
    wait_closed(pair.client, pair.ep);
    xfer_event_t event;
    assert_true(take_event(pair.client, XFER_EVENT_PUT, 2, &event));
    assert_status(event.status, XFER_ECANCELED);
    assert_true(take_event(pair.client, XFER_EVENT_FLUSH, kFlush + 4, &event));
    assert_status(event.status, XFER_ECANCELED);
}

/* Where operations are refused a flush is not, up to a bound of its own. */
static void test_full(void **state) {
    char uri[64];
    Pair pair;
    xfer_engine_options_t options = host_options(*state);
    options.max_operations = 4;
    pair_open_with(&pair, &options, &options, *state, 4096);
    assert_true(black_hole(uri, sizeof uri) >= 0);
    pair.ep = open_ep(pair.client, uri);
    static uint64_t word;
    for (uint64_t i = 0; i < 4; i++)
        assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, 8, i, &copy_options), XFER_OK);
    assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, 8, 4, &copy_options), XFER_EAGAIN);
    for (uint64_t i = 0; i < 4; i++)
        assert_status(flush(pair.ep, kFlush + i, 0), XFER_OK);
    assert_status(flush(pair.ep, kFlush + 4, 0), XFER_EAGAIN);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, 2, UINT64_MAX), XFER_OK);
    wait_event(pair.client, XFER_EVENT_ROOM, ANY_USER, kPatience);
    assert_status(flush(pair.ep, kFlush + 4, 0), XFER_OK);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, 0, 0), XFER_OK);
    /* A flush whose turn comes by another's cancel ends by itself; the first one tells of it. */
    assert_status(flushed(pair.client, kFlush).status, XFER_ECANCELED);
    for (uint64_t i = 1; i < 5; i++)
        flushed(pair.client, kFlush + i);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 4);
}

/* From many threads: each writes its own words, overwrites what it wrote from, and flushes. */
typedef struct Writer {
    Pair *pair;
    uint64_t number;
    _Atomic int over;
} Writer;
enum { kWriters = 4, kWords = 64 };

static void *write_words(void *argument) {
    Writer *writer = argument;
    Pair *pair = writer->pair;
    const uint64_t rounds = quick() ? 100 : 400;
    for (uint64_t round = 1; round <= rounds; round++) {
        for (uint64_t i = 0; i < kWords; i++) {
            uint64_t word = writer->number << 32 | round;
            const uint64_t at = (writer->number * kWords + i) * 8;
            while (xfer_put(pair->ep, &word, &pair->ref, at, 8, i, &copy_options) == XFER_EAGAIN)
                usleep(100);
            word = ~word;
        }
    }
    xfer_status_t status;
    while ((status = flush(pair->ep, kFlush + writer->number, 0)) == XFER_EAGAIN)
        usleep(100);
    writer->over = status == XFER_OK ? 1 : -1;
    return NULL;
}

static void test_threads(void **state) {
    Pair pair;
    pair_open(&pair, *state, kWriters * kWords * 8);
    Writer writers[kWriters];
    pthread_t threads[kWriters];
    for (uint64_t i = 0; i < kWriters; i++) {
        writers[i] = (Writer){.pair = &pair, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_words, &writers[i]), 0);
    }
    for (uint64_t i = 0; i < kWriters; i++) {
        wait_atomic(&writers[i].over, 1, kPatience);
        assert_status(flushed(pair.client, kFlush + i).status, XFER_OK);
        const uint64_t last = i << 32 | (quick() ? 100 : 400);
        for (uint64_t at = 0; at < kWords; at++) {
            uint64_t word;
            memcpy(&word, pair.memory + (i * kWords + at) * 8, 8);
            assert_true(word == last);
        }
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
}

/* A lost peer: what was under way fails with its events, and the flush says so. */
static void test_peer_lost(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    static uint64_t word;
    const xfer_op_options_t sync = {.size = sizeof sync, .flags = XFER_FLAG_SYNC | XFER_FLAG_QUIET};
    for (uint64_t i = 0; i < 8; i++)
        assert_status(xfer_send(pair.ep, &word, 8, 1, i, &sync), XFER_OK);
    assert_status(flush(pair.ep, kFlush, 0), XFER_OK);
    pass_ms(20); /* they are there */
    host_end(pair.server);
    assert_status(flushed(pair.client, kFlush).status, XFER_EPEERLOST);
    assert_int_equal(count_events(pair.client, XFER_EVENT_SEND, ANY_USER), 8);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_quiet),    EACH_MODE(test_failures), EACH_MODE(test_idle),
    EACH_MODE(test_copy),     ONE_MODE(test_refused),   EACH_MODE(test_ends_early),
    EACH_DISPATCH(test_full), EACH_MODE(test_threads),  EACH_DISPATCH(test_peer_lost),
};

TEST_MAIN(tests)
