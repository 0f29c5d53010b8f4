/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be done to a batch when: in flight, canceled at any moment, closed, and when the
 * endpoint is full. */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static xfer_batch_t *open_batch(xfer_ep_t *ep) {
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK);
    return batch;
}

static void test_busy_in_flight(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    char uri[64];
    int hole = black_hole(uri, sizeof uri);
    uint8_t *local = test_memory(4096);
    xfer_status_t status;
    /* To a peer that never answers, so that it stays in flight. */
    xfer_batch_t *batch = open_batch(open_ep(pair.client, uri));
    xfer_span_t span = {(uintptr_t)local, 0, 64};
    xfer_submit_options_t forever = {.size = sizeof forever, .timeout_ms = XFER_NONE};
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 64), XFER_OK);
    assert_status(xfer_batch_cancel(batch), XFER_EINVAL);
    assert_status(xfer_batch_entries(batch, 0, 1, &status), XFER_EINVAL); /* never submitted */
    assert_status(xfer_batch_submit(batch, 1, &forever), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 64), XFER_EBUSY);
    assert_status(xfer_batch_get(batch, local, &pair.ref, 0, 64), XFER_EBUSY);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, &span, sizeof span, 1, NULL),
                  XFER_EBUSY);
    assert_status(xfer_batch_submit(batch, 2, NULL), XFER_EBUSY);
    assert_status(xfer_batch_entries(batch, 0, 1, &status), XFER_EBUSY);
    assert_status(xfer_batch_reset(batch), XFER_EBUSY);
    assert_status(xfer_batch_cancel(batch), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(event.status, XFER_ECANCELED);
    assert_completion(&event);
    assert_true((event.flags & XFER_FENCED) != 0); /* nothing of it was ever sent */
    assert_int_equal(event.bytes, 0);
    assert_status(xfer_batch_entries(batch, 0, 1, &status), XFER_OK);
    assert_status(status, XFER_ECANCELED);
    assert_status(xfer_batch_cancel(batch), XFER_EINVAL);
    assert_int_equal(count_events(pair.client, XFER_EVENT_BATCH, 2), 0);
    close(hole);
}

static void assert_told(const xfer_error_t *err, xfer_status_t status, const char *text) {
    assert_status(err->status, status);
    if (!strstr(err->message, text)) fail_msg("no \"%s\" in \"%s\"", text, err->message);
}

/* Of many pieces the wrong one is named, and nothing is added. */
static void test_wrong_piece_is_named(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    xfer_batch_t *batch = open_batch(pair.ep);
    xfer_error_t err;
    xfer_span_t spans[3] = {{(uintptr_t)local, 0, 64}, {(uintptr_t)local, 64, 64}, {0, 0, 0}};
    spans[2] = (xfer_span_t){(uintptr_t)local, 4090, 16};
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof spans[0], 3, &err),
        XFER_ERANGE);
    assert_told(&err, XFER_ERANGE, "span 2: 16 bytes at 4090 are past the end, at 4096");
    spans[2] = (xfer_span_t){0, 0, 16};
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof spans[0], 3, &err),
        XFER_EINVAL);
    assert_told(&err, XFER_EINVAL, "span 2: local is NULL");
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)local,
                              .local_stride = 64,
                              .remote = &pair.ref,
                              .remote_stride = 1024,
                              .length = 64,
                              .count = 5};
    assert_status(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, &err), XFER_ERANGE);
    assert_told(&err, XFER_ERANGE, "the last of 5 ends at 4160, past 4096");
    const uint64_t low[] = {0, 1}, high[] = {0, 4};
    xfer_page_base_t bases[2] = {{(uintptr_t)local, &pair.ref, 0}, {(uintptr_t)local, NULL, 0}};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof bases[0],
                          .index_size = 8,
                          .length = 1024,
                          .count = 2,
                          .local_pages = low,
                          .remote_pages = high,
                          .bases = bases,
                          .base_count = 2};
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, &err), XFER_ERANGE);
    assert_told(&err, XFER_ERANGE, "base 0: the last of 5 ends at 5120, past 4096");
    pages.remote_pages = low;
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, &err), XFER_EINVAL);
    assert_told(&err, XFER_EINVAL, "base 1: xfer_page_base_t.remote is NULL");
    xfer_ref_t part;
    xfer_grant_options_t grant = {
        .size = sizeof grant, .access = XFER_WRITE, .offset = 4000, .length = 97};
    assert_status(xfer_region_grant(pair.region, &grant, &part, &err), XFER_ERANGE);
    assert_told(&err, XFER_ERANGE, "97 bytes at 4000 are past the end, at 4096");
    grant.length = 96;
    assert_status(xfer_region_grant(pair.region, &grant, &part, &err), XFER_OK);
    assert_told(&err, XFER_OK, "");
    assert_status(xfer_batch_add_spans(batch, XFER_OP_GET, &part, spans, sizeof spans[0], 1, &err),
                  XFER_EACCESS);
    assert_told(&err, XFER_EACCESS, "the ref does not allow XFER_READ");
    assert_status(xfer_batch_rebind(batch, &pair.ref, &pair.ref, &err), XFER_ENOTFOUND);
    assert_told(&err, XFER_ENOTFOUND, "no entry names `from`"); /* so nothing was added */
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 64), XFER_OK);
    assert_status(xfer_batch_rebind(batch, &pair.ref, &part, &err), XFER_ERANGE);
    assert_told(&err, XFER_ERANGE, "`to` names 96 bytes, and `from` 4096");
}

static void test_reset(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    memset(local, 1, 4096);
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 2048), XFER_OK);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 2048, 2048), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(pair.memory[i], i < 2048 ? 0 : 1);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

static void test_close_in_flight(void **state) {
    Pair pair;
    const uint64_t length = 8 << 20;
    pair_open(&pair, *state, length);
    uint8_t *local = test_memory(length);
    for (uint64_t round = 1; round <= 12; round++) {
        xfer_batch_t *batch = open_batch(pair.ep);
        for (uint64_t at = 0; at < length; at += length / 8) {
            assert_status(xfer_batch_put(batch, local, &pair.ref, at, length / 8), XFER_OK);
        }
        assert_status(xfer_batch_submit(batch, round, NULL), XFER_OK);
        if (round % 3 != 0) pass_ms((uint32_t)(round % 4));
        assert_status(xfer_batch_close(batch), XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, round, kPatience);
        assert_completion(&event);
        if (event.status != XFER_OK) assert_status(event.status, XFER_ECANCELED);
    }
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, length), XFER_OK);
    for (uint64_t round = 1; round <= 12; round++) {
        assert_int_equal(count_events(pair.client, XFER_EVENT_BATCH, round), 1);
    }
    assert_int_equal(count_events(pair.client, XFER_EVENT_CLOSED, ANY_USER),
                     0); /* the completion was the last */
}

/* ---- cancel ---- */

/* Puts are canceled at all moments; their buffers are gone the moment the event is there. */
static void test_cancel_puts(void **state) {
    Pair pair;
    const uint64_t length = 6 << 20;
    pair_open(&pair, *state, length);
    int canceled = 0;
    const int rounds = quick() ? 10 : 30;
    /* The engine's thread may be quicker than each cancel of a few rounds. */
    const uint64_t end = now_ms() + kPatience;
    for (int round = 0; round < rounds || (canceled == 0 && now_ms() < end); round++) {
        uint8_t *local =
            mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(local != MAP_FAILED);
        fill(local, length, (uint64_t)round);
        xfer_batch_t *batch = open_batch(pair.ep);
        for (uint64_t at = 0; at < length; at += length / 64) {
            assert_status(xfer_batch_put(batch, local + at, &pair.ref, at, length / 64), XFER_OK);
        }
        assert_status(xfer_batch_submit(batch, (uint64_t)round, NULL), XFER_OK);
        for (int i = 0; i < round % 5; i++)
            turn(0);
        if (round % 3 == 1) usleep((useconds_t)(round % 30 * 70));
        xfer_status_t status = xfer_batch_cancel(batch);
        assert_true(status == XFER_OK || status == XFER_EINVAL); /* or it had ended */
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, (uint64_t)round, kPatience);
        assert_int_equal(munmap(local, length), 0);
        assert_completion(&event);
        xfer_status_t statuses[64];
        assert_status(xfer_batch_entries(batch, 0, 64, statuses), XFER_OK);
        if (event.status == XFER_OK) {
            assert_true(filled(pair.memory, length, (uint64_t)round, 0));
        } else {
            assert_status(event.status, XFER_ECANCELED);
            canceled++;
            for (uint64_t i = 0; i < 64; i++) {
                if (statuses[i] != XFER_OK) {
                    assert_status(statuses[i], XFER_ECANCELED);
                    continue;
                }
                uint64_t at = i * (length / 64);
                assert_true(filled(pair.memory + at, length / 64, (uint64_t)round, at));
            }
        }
        assert_status(xfer_batch_close(batch), XFER_OK);
        if ((event.flags & XFER_MAYBE_APPLIED) != 0) {
            /* Parts of it may still land, in the next round too: not after CLOSED. */
            assert_status(xfer_region_close(pair.region), XFER_OK);
            wait_closed(pair.server, pair.region);
            pair.region = open_region(pair.server, "memory", XFER_WRITE, pair.memory, length);
            pair.ref = look_up(pair.client, pair.ep, "memory");
        }
    }
    assert_true(canceled > 0);
    assert_int_equal(host_stats(pair.client).batch.canceled, canceled);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

/* Gets are canceled at all moments; after the event their buffers stay as the user leaves them. */
static void test_cancel_gets(void **state) {
    Pair pair;
    const uint64_t length = 6 << 20;
    pair_open(&pair, *state, length);
    fill(pair.memory, length, 4);
    uint8_t *local = test_memory(length);
    int rounds = quick() ? 6 : 20;
    for (int round = 0; round < rounds; round++) {
        xfer_batch_t *batch = open_batch(pair.ep);
        for (uint64_t at = 0; at < length; at += length / 8) {
            assert_status(xfer_batch_get(batch, local + at, &pair.ref, at, length / 8), XFER_OK);
        }
        assert_status(xfer_batch_submit(batch, (uint64_t)round, NULL), XFER_OK);
        for (int i = 0; i < round % 4; i++)
            turn(1);
        xfer_batch_cancel(batch);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, (uint64_t)round, kPatience);
        if (event.status == XFER_OK)
            assert_true(filled(local, length, 4, 0));
        else
            assert_status(event.status, XFER_ECANCELED);
        assert_completion(&event);
        memset(local, 0x33, length);
        pass_ms(20);
        for (uint64_t i = 0; i < length; i++) {
            if (local[i] != 0x33)
                fail_msg("byte %llu was written after the event", (unsigned long long)i);
        }
        assert_status(xfer_batch_close(batch), XFER_OK);
    }
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, length), XFER_OK);
    assert_true(filled(local, length, 4, 0));
}

/* xfer_cancel names puts and gets by their user word. */
static void test_cancel_by_user(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    char uri[64];
    int hole = black_hole(uri, sizeof uri);
    uint8_t *local = test_memory(4096);
    xfer_ep_t *ep = open_ep(pair.client, uri);
    assert_status(xfer_cancel(pair.client->engine, ep, 1, UINT64_MAX), XFER_OK); /* there is none */
    for (uint64_t user = 1; user <= 4; user++) {
        assert_status(xfer_put(ep, local, &pair.ref, 0, 64, user % 2, NULL), XFER_OK);
        assert_status(xfer_get(ep, local, &pair.ref, 0, 64, user % 2, NULL), XFER_OK);
    }
    assert_status(xfer_cancel(pair.client->engine, ep, 1, UINT64_MAX), XFER_OK);
    for (int i = 0; i < 2; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_ECANCELED);
        assert_status(wait_event(pair.client, XFER_EVENT_GET, 1, kPatience).status, XFER_ECANCELED);
    }
    pass_ms(50);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 0), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_GET, 0), 0);
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(pair.client, ep);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 0), 2);
    assert_int_equal(count_events(pair.client, XFER_EVENT_GET, 0), 2);
    close(hole);
}

/* ---- a full endpoint ---- */

static void test_room(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.max_operations = 4;
    Pair pair;
    const uint64_t length = 4 << 20;
    pair_open_with(&pair, &options, &options, *state, length);
    uint8_t *local = test_memory(length);
    xfer_ep_options_t ep_options = {.size = sizeof ep_options, .user = 55};
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(pair.client->engine, pair.server->uri, &ep_options, &ep, NULL),
                  XFER_OK);
    size_t rooms = 0;
    for (int round = 0; round < 3; round++) {
        size_t accepted = 0;
        size_t before = count_events(pair.client, XFER_EVENT_PUT, 1);
        while (xfer_put(ep, local, &pair.ref, 0, length, 1, NULL) == XFER_OK) {
            accepted++;
            assert_true(accepted < 100000);
        }
        assert_true(accepted >= 4);
        xfer_batch_t *batch = open_batch(ep);
        assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 64), XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_ROOM, 55, kPatience);
        rooms++;
        assert_ptr_equal(event.ep, ep);
        assert_status(submit_now(pair.client, batch), XFER_OK);
        assert_status(xfer_batch_close(batch), XFER_OK);
        uint64_t end = now_ms() + kPatience;
        while (count_events(pair.client, XFER_EVENT_PUT, 1) < before + accepted) {
            assert_true(now_ms() < end);
            turn(10);
        }
        pass_ms(20);
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 1), before + accepted);
        assert_int_equal(count_events(pair.client, XFER_EVENT_ROOM, ANY_USER),
                         rooms); /* once for each refusal */
    }
}

/* Also for who does not listen for some time: he is told of all that has ended meanwhile. */
static void test_room_behind_notices(void **state) {
    enum { kGone = 100 };
    xfer_engine_options_t options = host_options(*state);
    options.max_operations = 1;
    Pair pair;
    pair_open_with(&pair, &options, &options, *state, 64);
    uint8_t *local = test_memory(64);
    xfer_region_t *regions[kGone];
    for (int i = 0; i < kGone; i++) {
        char name[16];
        snprintf(name, sizeof name, "gone %d", i);
        regions[i] = open_region(pair.server, name, XFER_READ, pair.memory, 64);
        look_up(pair.client, pair.ep, name);
    }
    pair.client->paused = true;
    for (int i = 0; i < kGone; i++) {
        assert_status(xfer_region_close(regions[i]), XFER_OK);
        wait_closed(pair.server, regions[i]);
    }
    uint64_t accepted = 0;
    while (xfer_put(pair.ep, local, &pair.ref, 0, 64, 1, NULL) == XFER_OK)
        accepted++;
    const uint64_t end = now_ms() + kPatience;
    while (host_stats(pair.client).put.completed < accepted) {
        assert_true(now_ms() < end);
        pass_ms(1);
    }
    char text[64]; /* taken between two turns of the loop: the end of the last put is over, too */
    uint64_t needed;
    xfer_engine_describe(pair.client->engine, text, sizeof text, &needed);
    pair.client->paused = false;
    wait_event(pair.client, XFER_EVENT_ROOM, ANY_USER, kPatience);
    for (int i = 0; i < kGone; i++)
        wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    host_end(pair.server);
    wait_event(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
}

/* Without a connection the queue is bounded as well. */
static void test_bounded_queue(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.max_operations = 10;
    Host *host = host_open_with(*state, &options);
    Pair pair;
    pair_open(&pair, *state, 64);
    char uri[64];
    uint8_t local[8] = {0};
    int hole = black_hole(uri, sizeof uri);
    xfer_ep_t *ep = open_ep(host, uri);
    xfer_op_options_t brief = {.size = sizeof brief, .timeout_ms = 500};
    for (int i = 0; i < 10; i++)
        assert_status(xfer_put(ep, local, &pair.ref, 0, 8, 1, &brief), XFER_OK);
    assert_status(xfer_put(ep, local, &pair.ref, 0, 8, 2, &brief), XFER_EAGAIN);
    assert_status(xfer_get(ep, local, &pair.ref, 0, 8, 2, &brief), XFER_EAGAIN);
    for (int i = 0; i < 10; i++) {
        assert_status(wait_event(host, XFER_EVENT_PUT, 1, kPatience).status, XFER_ETIMEDOUT);
    }
    wait_event(host, XFER_EVENT_ROOM, ANY_USER, kPatience);
    pass_ms(20);
    assert_int_equal(count_events(host, XFER_EVENT_ROOM, ANY_USER), 1);
    assert_int_equal(count_events(host, XFER_EVENT_PUT, 2), 0);
    assert_status(xfer_put(ep, local, &pair.ref, 0, 8, 3, &brief), XFER_OK);
    assert_status(wait_event(host, XFER_EVENT_PUT, 3, kPatience).status, XFER_ETIMEDOUT);
    close(hole);
}

/* ---- resubmitting from the callback ---- */

static xfer_batch_t *again;
static _Atomic int resubmitted;

static void submit_again(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_BATCH || event->object != again || event->status != XFER_OK)
        return;
    if (resubmitted < 200 && xfer_batch_submit(again, 1, NULL) == XFER_OK) resubmitted++;
}

static void test_resubmit_inside_callback(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    fill(local, 4096, 1);
    again = open_batch(pair.ep);
    resubmitted = 0;
    pair.client->hook = submit_again;
    assert_status(xfer_batch_put(again, local, &pair.ref, 0, 4096), XFER_OK);
    assert_status(xfer_batch_submit(again, 1, NULL), XFER_OK);
    for (int i = 0; i <= 200; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience).status, XFER_OK);
    }
    assert_int_equal(resubmitted, 200);
    assert_true(filled(pair.memory, 4096, 1, 0));
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_busy_in_flight),
    MODE_TEST(test_wrong_piece_is_named, 1, "thread/1"),
    EACH_DISPATCH(test_reset),
    EACH_MODE(test_close_in_flight),
    EACH_MODE(test_cancel_puts),
    EACH_MODE(test_cancel_gets),
    EACH_MODE(test_cancel_by_user),
    EACH_MODE(test_room),
    EACH_MODE(test_bounded_queue),
    MODE_TEST(test_room_behind_notices, 7, "poll/1"),
    EACH_MODE(test_resubmit_inside_callback),
};

TEST_MAIN(tests)
