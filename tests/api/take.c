/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages whose length is not known before: received without a buffer, and looked at before they
 * are received. */
#include <string.h>

#include "fixture.h"
#include "message.h"

static const xfer_op_options_t take_options = {.size = sizeof(xfer_op_options_t),
                                               .flags = XFER_FLAG_TAKE};

static void take(Letters *letters, uint64_t capacity, uint64_t tag, uint64_t user) {
    assert_status(xfer_recv(letters->pair.server->engine, NULL, NULL, capacity, tag, UINT64_MAX,
                            user, &take_options),
                  XFER_OK);
}

static void assert_taken(Letters *letters, const xfer_event_t *event, uint64_t length,
                         uint64_t seed) {
    xfer_id_t sender;
    assert_status(xfer_engine_id(letters->pair.client->engine, &sender), XFER_OK);
    assert_int_equal(event->data_length, sizeof sender + length);
    assert_int_equal((uintptr_t)event->data % 8, 0);
    assert_memory_equal(event->data, &sender, sizeof sender);
    assert_true(filled((const uint8_t *)event->data + sizeof sender, length, seed, 0));
}

/* Nothing, what is held, what is pulled; before the message and behind it. */
static void test_every_length(void **state) {
    static const uint64_t lengths[] = {0, 1, 4088, 4089, 65536, 3u << 20};
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(3u << 20);
    for (uint64_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        const uint64_t length = lengths[i / 2];
        fill(local, length, i);
        if (i % 2) take(&letters, 4u << 20, i, i);
        send_to(&letters, local, length, i, i);
        if (i % 2 == 0) pass_ms(2);
        if (i % 2 == 0) take(&letters, 4u << 20, i, i);
        const xfer_event_t event = received(&letters, i);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, length);
        assert_taken(&letters, &event, length, i);
        assert_status(sent(&letters, i), XFER_OK);
    }
}

/* `capacity` bounds what is allocated: the event has the beginning. */
static void test_bound(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(100000);
    fill(local, 100000, 1);
    const uint64_t lengths[] = {33, 100000}, rooms[] = {0, 32};
    for (uint64_t i = 0; i < 4; i++) {
        send_to(&letters, local, lengths[i / 2], 1, i);
        take(&letters, rooms[i % 2], 1, i);
        const xfer_event_t event = received(&letters, i);
        assert_status(event.status, XFER_ETRUNC);
        assert_int_equal(event.bytes, lengths[i / 2]);
        assert_taken(&letters, &event, rooms[i % 2], 1);
        assert_status(sent(&letters, i), XFER_OK);
    }
}

/* One that fails has the sender alone, or nothing. */
static void test_failed(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint8_t byte;
    take(&letters, 8, 1, 1);
    assert_status(xfer_cancel(letters.pair.server->engine, NULL, 1, UINT64_MAX), XFER_OK);
    xfer_event_t event = received(&letters, 1);
    assert_status(event.status, XFER_ECANCELED);
    assert_null(event.data);
    assert_status(xfer_recv(letters.pair.server->engine, NULL, &byte, 1, 1, 0, 2, &take_options),
                  XFER_EINVAL);
    /* A bound is not what is allocated. */
    send_to(&letters, &byte, 1, 7, 7);
    take(&letters, UINT64_MAX, 7, 7);
    event = received(&letters, 7);
    assert_status(event.status, XFER_OK);
    assert_status(sent(&letters, 7), XFER_OK);
}

static xfer_status_t peek(Letters *letters, xfer_ep_t *from, uint64_t tag, uint64_t mask,
                          xfer_message_info_t *info) {
    return xfer_peek(letters->pair.server->engine, from, tag, mask, info, sizeof *info);
}

/* What the next receive would get, and nothing is changed by looking. */
static void test_peek(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(100000), *buffer = test_memory(100000);
    xfer_message_info_t info;
    xfer_id_t sender;
    assert_status(xfer_engine_id(letters.pair.client->engine, &sender), XFER_OK);
    assert_status(peek(&letters, NULL, 0, 0, &info), XFER_ENOTFOUND);
    send_to(&letters, local, 10, 5, 0);
    send_to(&letters, local, 100000, 6, 1); /* its envelope */
    send_to(&letters, local, 30, 5, 2);
    while (peek(&letters, NULL, 6, UINT64_MAX, &info) == XFER_ENOTFOUND)
        turn(1);
    assert_int_equal(info.length, 100000);
    for (int i = 0; i < 3; i++) {
        assert_status(peek(&letters, i ? letters.back : NULL, 0, 0, &info), XFER_OK);
        assert_int_equal(info.length, 10);
        assert_int_equal(info.tag, 5);
        assert_memory_equal(&info.sender, &sender, sizeof sender);
    }
    assert_status(peek(&letters, NULL, 7, UINT64_MAX, &info), XFER_ENOTFOUND);
    receive(&letters, NULL, buffer, 10, 5, UINT64_MAX, 0);
    assert_status(received(&letters, 0).status, XFER_OK);
    while (peek(&letters, letters.back, 5, UINT64_MAX, &info) == XFER_ENOTFOUND)
        turn(1);
    assert_int_equal(info.length, 30);
    receive(&letters, NULL, buffer, 100000, 6, UINT64_MAX, 1);
    receive(&letters, NULL, buffer, 30, 5, UINT64_MAX, 2);
    assert_status(received(&letters, 1).status, XFER_OK);
    assert_status(received(&letters, 2).status, XFER_OK);
    assert_status(peek(&letters, NULL, 0, 0, &info), XFER_ENOTFOUND);
    assert_status(xfer_peek(letters.pair.server->engine, letters.pair.ep, 0, 0, &info, sizeof info),
                  XFER_EINVAL);
    assert_status(xfer_peek(letters.pair.server->engine, NULL, 0, 0, NULL, 0), XFER_EINVAL);
}

static xfer_batch_info_t info_of(xfer_batch_t *batch) {
    xfer_batch_info_t info;
    assert_status(xfer_batch_info(batch, &info, sizeof info), XFER_OK);
    return info;
}

/* A batch is asked how far it is by another thread than that which submits it. */
static void test_batch_info(void **state) {
    Pair pair;
    enum { kBytes = 32 << 20 };
    pair_open(&pair, *state, kBytes);
    uint8_t *local = test_memory(kBytes);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kBytes), XFER_OK);
    xfer_batch_info_t info = info_of(batch);
    assert_int_equal(info.state, XFER_BATCH_IDLE);
    assert_int_equal(info.bytes | info.entries, 0); /* of the last submit; there was none */
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t before = 0;
        assert_status(xfer_batch_submit(batch, round, NULL), XFER_OK);
        while (info = info_of(batch), info.state == XFER_BATCH_INFLIGHT) {
            assert_true(info.bytes <= kBytes && (info.bytes >= before || before == kBytes));
            assert_int_equal(info.status, XFER_OK);
            assert_int_equal(info.entries, 1);
            before = info.bytes;
            turn(0);
        }
        assert_int_equal(info.state, XFER_BATCH_IDLE);
        assert_int_equal(info.bytes, kBytes);
        assert_status(wait_event(pair.client, XFER_EVENT_BATCH, round, kPatience).status, XFER_OK);
    }
    assert_status(xfer_batch_info(batch, NULL, sizeof info), XFER_EINVAL);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

/* It tells what the event told, until the next submit; entries added meanwhile do not count. */
static void test_info_of_a_failure(void **state) {
    Pair pair;
    enum { kEach = 4096, kEntries = 8, kWrong = 5 };
    pair_open(&pair, *state, kEach * kEntries);
    uint8_t *local = test_memory(kEach * kEntries);
    xfer_region_options_t brief = {.size = sizeof brief, .access = XFER_WRITE};
    xfer_region_t *region = NULL;
    xfer_ref_t gone;
    assert_status(xfer_region_open(pair.server->engine, &brief, pair.memory, kEach, &region, NULL),
                  XFER_OK);
    assert_status(xfer_region_ref(region, &gone), XFER_OK);
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair.server, region);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    for (uint64_t i = 0; i < kEntries; i++)
        assert_status(xfer_batch_put(batch, local, i == kWrong ? &gone : &pair.ref, 0, kEach),
                      XFER_OK);
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
    xfer_event_t end = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(end.status, XFER_ESTALE);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kEach), XFER_OK);
    xfer_batch_info_t info = info_of(batch);
    assert_status(info.status, XFER_ESTALE);
    assert_int_equal(info.entries, kEntries);
    assert_int_equal(info.first_failed, end.index);
    assert_int_equal(end.index, kWrong);
    assert_int_equal(info.bytes, end.bytes);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kEach), XFER_OK);
    assert_status(xfer_batch_submit(batch, 2, NULL), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_BATCH, 2, kPatience).status, XFER_OK);
    info = info_of(batch);
    assert_status(info.status, XFER_OK);
    assert_int_equal(info.entries, 1);
    assert_int_equal(info.first_failed, 0);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_every_length),   EACH_MODE(test_bound),
    EACH_DISPATCH(test_failed),     EACH_MODE(test_peek),
    EACH_DISPATCH(test_batch_info), EACH_DISPATCH(test_info_of_a_failure),
};

TEST_MAIN(tests)
