/* SPDX-License-Identifier: Apache-2.0
 *
 * How sends and receives end when they do not find each other: floods, cancels, deadlines, closes,
 * and lost peers. */
#include <string.h>

#include "message.h"

enum { kBig = 8 << 20 };

static xfer_status_t recv_status(Letters *letters, uint64_t user) {
    return received(letters, user).status;
}

/* More than there is room for, and nobody receives: the rest waits at the sender, and other work
 * goes on. Then all of them are received, in order. */
static void test_flood(void **state) {
    Letters letters;
    xfer_engine_options_t options = host_options(*state);
    options.max_operations = 4096;
    letters_open_with(&letters, &options, *state);
    enum { kCount = 3000, kRoom = 4000 };
    uint8_t *local = test_memory((uint64_t)kCount * kRoom), *buffer = test_memory(kRoom);
    for (uint64_t i = 0; i < kCount; i++) {
        *(uint64_t *)(local + i * kRoom) = i;
        send_to(&letters, local + i * kRoom, kRoom, 5, i);
    }
    assert_status(put_now(letters.pair.client, letters.pair.ep, local, &letters.pair.ref, 0, 4096),
                  XFER_OK);
    assert_status(xfer_notify(letters.pair.ep, NULL, 0, 3, 9999, NULL), XFER_OK);
    assert_status(wait_event(letters.pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience).status,
                  XFER_OK);
    assert_status(wait_event(letters.pair.client, XFER_EVENT_NOTIFIED, 9999, kPatience).status,
                  XFER_OK);
    /* 256 KiB are held, so no more have ended. */
    assert_in_range(count_events(letters.pair.client, XFER_EVENT_SEND, ANY_USER), 1,
                    256 * 1024 / kRoom);
    for (uint64_t i = 0; i < kCount; i++) {
        receive(&letters, NULL, buffer, kRoom, 5, UINT64_MAX, i);
        assert_status(recv_status(&letters, i), XFER_OK);
        assert_int_equal(*(uint64_t *)buffer, i);
        assert_status(sent(&letters, i), XFER_OK);
    }
}

/* What was held stays when its sender is gone; what was not is lost with it. */
static void test_sender_leaves(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t word = 7, got;
    uint8_t *big = test_memory(kBig);
    send_to(&letters, &word, 8, 1, 1);
    send_to(&letters, big, kBig, 2, 2);
    assert_status(sent(&letters, 1), XFER_OK);
    pass_ms(10);
    host_end(letters.pair.client);
    wait_event(letters.pair.server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    receive(&letters, NULL, &got, 8, 1, UINT64_MAX, 1);
    xfer_event_t event = received(&letters, 1);
    assert_status(event.status, XFER_OK);
    assert_null(event.ep);
    assert_int_equal(got, 7);
    receive(&letters, NULL, big, kBig, 2, UINT64_MAX, 2);
    pass_ms(50);
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, 2), 0);
    assert_status(xfer_cancel(letters.pair.server->engine, NULL, 2, UINT64_MAX), XFER_OK);
    assert_status(recv_status(&letters, 2), XFER_ECANCELED);
}

static void test_cancel_receives(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t word = 7, got[3];
    receive(&letters, NULL, &got[0], 8, 1, UINT64_MAX, 1);
    receive(&letters, letters.back, &got[1], 8, 1, UINT64_MAX, 2);
    receive(&letters, letters.back, &got[2], 8, 1, UINT64_MAX, 3);
    assert_status(xfer_cancel(letters.pair.server->engine, letters.back, 1, UINT64_MAX),
                  XFER_OK); /* that one is from any */
    assert_status(xfer_cancel(letters.pair.server->engine, letters.back, 2, UINT64_MAX), XFER_OK);
    assert_status(recv_status(&letters, 2), XFER_ECANCELED);
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, 1), 0);
    assert_status(xfer_cancel(letters.pair.server->engine, NULL, 1, UINT64_MAX), XFER_OK);
    assert_status(recv_status(&letters, 1), XFER_ECANCELED);
    send_to(&letters, &word, 8, 1, 1);
    assert_status(recv_status(&letters, 3), XFER_OK);
    assert_int_equal(got[0] + got[1], 0);
    assert_int_equal(got[2], 7);
}

/* A receive that has matched is canceled: the message is thrown away, and its sender is told.
 * Whoever was faster, both know the same. */
static void test_cancel_matched(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(kBig), *buffer = test_memory(kBig);
    fill(local, kBig, 2);
    for (uint64_t i = 0; i < 30; i++) {
        receive(&letters, i % 2 ? letters.back : NULL, buffer, kBig, 1, UINT64_MAX, i);
        send_to(&letters, local, kBig, 1, i);
        for (uint64_t turns = 0; turns < i % 5; turns++)
            turn(i % 3 == 0);
        if (i % 2)
            assert_status(xfer_cancel(letters.pair.server->engine, letters.back, i, UINT64_MAX),
                          XFER_OK);
        else
            assert_status(xfer_cancel(letters.pair.server->engine, NULL, i, UINT64_MAX), XFER_OK);
        xfer_status_t status = recv_status(&letters, i);
        memset(buffer, 0xee, kBig);
        if (status == XFER_OK) {
            assert_status(sent(&letters, i), XFER_OK);
            continue;
        }
        assert_status(status, XFER_ECANCELED);
        pass_ms(2);
        /* Each byte is as the one before it. By one call: TSan looks at each access of ours. */
        assert_int_equal(buffer[0], 0xee);
        if (memcmp(buffer, buffer + 1, kBig - 1) != 0) fail_msg("bytes came after the event");
        if (take_event(letters.pair.client, XFER_EVENT_SEND, i, &(xfer_event_t){0})) continue;
        /* It was canceled before the message was there: the next receive gets it. */
        receive(&letters, NULL, buffer, kBig, 1, UINT64_MAX, 1000 + i);
        wait_event(letters.pair.client, XFER_EVENT_SEND, i, kPatience);
        if (count_events(letters.pair.server, XFER_EVENT_RECV, 1000 + i) == 0)
            assert_status(xfer_cancel(letters.pair.server->engine, NULL, 1000 + i, UINT64_MAX),
                          XFER_OK);
        recv_status(&letters, 1000 + i);
    }
}

/* A send that nobody has received is taken back: nobody gets it, and its bytes are the user's. */
static void test_cancel_sends(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(kBig), *buffer = test_memory(kBig);
    xfer_op_options_t sync = {.size = sizeof sync, .flags = XFER_FLAG_SYNC};
    send_to(&letters, local, kBig, 1, 1);
    assert_status(xfer_send(letters.pair.ep, local, 8, 1, 2, &sync), XFER_OK);
    send_to(&letters, "last", 4, 1, 3);
    assert_status(sent(&letters, 3), XFER_OK);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_status(xfer_cancel(letters.pair.client->engine, letters.pair.ep, i, UINT64_MAX),
                      XFER_OK);
        xfer_event_t event = wait_event(letters.pair.client, XFER_EVENT_SEND, i, kPatience);
        assert_status(event.status, XFER_ECANCELED);
        assert_int_equal(event.flags, XFER_FENCED);
    }
    receive(&letters, NULL, buffer, kBig, 1, UINT64_MAX, 1);
    xfer_event_t event = received(&letters, 1);
    assert_int_equal(event.bytes, 4);
    assert_memory_equal(buffer, "last", 4);
}

/* Canceled or not while it is pulled: after its event the sender's memory is its own, and who
 * received it well got what was sent. */
static void test_quiet_after_send(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(kBig), *buffer = test_memory(kBig);
    const uint64_t rounds = quick() ? 15 : 60;
    int whole = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        fill(local, kBig, i);
        receive(&letters, NULL, buffer, kBig, 1, UINT64_MAX, i);
        send_to(&letters, local, kBig, 1, i);
        for (uint64_t turns = 0; turns < i % 6; turns++)
            turn(0);
        if (i % 4)
            assert_status(xfer_cancel(letters.pair.client->engine, letters.pair.ep, i, UINT64_MAX),
                          XFER_OK);
        const xfer_status_t status = sent(&letters, i);
        memset(local, 0xdd, kBig);
        if (status != XFER_OK) assert_status(status, XFER_ECANCELED);
        pass_ms(1);
        xfer_event_t event;
        if (!take_event(letters.pair.server, XFER_EVENT_RECV, i, &event)) {
            assert_status(xfer_cancel(letters.pair.server->engine, NULL, i, UINT64_MAX), XFER_OK);
            event = received(&letters, i);
        }
        if (event.status != XFER_OK) continue;
        whole++;
        assert_true(filled(buffer, kBig, i, 0));
    }
    assert_true(whole > 0);
}

static void test_deadlines(void **state) {
    Letters letters;
    xfer_engine_options_t options = host_options(*state);
    options.stall_ms = 1500; /* the pair opens within it */
    letters_open_with(&letters, &options, *state);
    static uint64_t word = 7, got;
    xfer_op_options_t soon = {.size = sizeof soon, .timeout_ms = 30, .flags = XFER_FLAG_SYNC};
    xfer_op_options_t late = {.size = sizeof late, .timeout_ms = 60000, .flags = XFER_FLAG_SYNC};
    xfer_op_options_t brief = {.size = sizeof brief, .timeout_ms = 30};
    assert_status(xfer_send(letters.pair.ep, &word, 8, 1, 1, &soon), XFER_OK);
    assert_status(xfer_send(letters.pair.ep, &word, 8, 2, 2, &late), XFER_OK);
    xfer_op_options_t none = {.size = sizeof none, .flags = XFER_FLAG_SYNC};
    assert_status(xfer_send(letters.pair.ep, &word, 8, 3, 3, &none), XFER_OK);
    assert_status(sent(&letters, 1), XFER_ETIMEDOUT);
    assert_status(sent(&letters, 3), XFER_ETIMEDOUT); /* by the stall limit */
    assert_status(xfer_recv(letters.pair.server->engine, NULL, &got, 8, 1, UINT64_MAX, 1, &brief),
                  XFER_OK);
    receive(&letters, NULL, &got, 8, 9, UINT64_MAX, 9);
    assert_status(recv_status(&letters, 1), XFER_ETIMEDOUT);
    pass_ms(2000);
    /* Who was given time has it; who was given none waits for ever. */
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_SEND, 2), 0);
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, 9), 0);
    receive(&letters, NULL, &got, 8, 2, UINT64_MAX, 2);
    assert_status(recv_status(&letters, 2), XFER_OK);
    assert_status(sent(&letters, 2), XFER_OK);
    send_to(&letters, &word, 8, 9, 9);
    assert_status(recv_status(&letters, 9), XFER_OK);
}

static void test_endpoint_closes(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t got;
    uint8_t *big = test_memory(kBig);
    for (uint64_t i = 0; i < 20; i++)
        assert_status(xfer_recv(letters.pair.client->engine, letters.pair.ep, &got, 8, i,
                                UINT64_MAX, 100 + i, NULL),
                      XFER_OK);
    assert_status(xfer_recv(letters.pair.client->engine, NULL, &got, 8, 1, UINT64_MAX, 200, NULL),
                  XFER_OK);
    for (uint64_t i = 0; i < 20; i++)
        send_to(&letters, big, i % 2 ? kBig : 100, i, i);
    assert_status(xfer_ep_close(letters.pair.ep), XFER_OK);
    wait_closed(letters.pair.client, letters.pair.ep);
    /* Its own event is its last: theirs are here. */
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_SEND, ANY_USER), 20);
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_RECV, ANY_USER), 20);
    for (uint64_t i = 0; i < 20; i++)
        assert_status(wait_event(letters.pair.client, XFER_EVENT_RECV, 100 + i, kPatience).status,
                      XFER_ECANCELED);
}

static void test_engine_closes(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *big = test_memory(kBig), *buffer = test_memory(kBig);
    static uint64_t got;
    for (uint64_t i = 0; i < 10; i++) {
        receive(&letters, i % 2 ? letters.back : NULL, &got, 8, 1000, UINT64_MAX, 100 + i);
        send_to(&letters, big, i % 2 ? kBig : 100, i, i);
    }
    receive(&letters, NULL, buffer, kBig, 1, UINT64_MAX, 1);
    turn(1);
    host_end(letters.pair.server);
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, ANY_USER), 11);
    /* What was held has succeeded; the others are lost, or wait for the next engine there. */
    for (uint64_t i = 0; i < 10; i++)
        assert_status(xfer_cancel(letters.pair.client->engine, letters.pair.ep, i, UINT64_MAX),
                      XFER_OK);
    for (uint64_t i = 0; i < 10; i++) {
        xfer_status_t status = sent(&letters, i);
        if (status == XFER_OK)
            assert_true(i % 2 == 0 || i == 1); /* only that one had a receive */
        else
            assert_true(status == XFER_EPEERLOST || status == XFER_ECANCELED);
    }
}

/* From many threads and both ways at once; every message arrives once. */
static void test_many_at_once(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    enum { kWindow = 64 };
    const uint64_t total = quick() ? 2000 : 10000;
    static uint64_t out[kWindow], in[kWindow];
    static uint8_t seen[10000];
    memset(seen, 0, sizeof seen);
    uint64_t begun = 0, done = 0, posted = 0, ended = 0;
    while (done < total || ended < total) {
        while (posted < total && posted < done + kWindow) {
            receive(&letters, posted % 3 ? NULL : letters.back, &in[posted % kWindow], 8, 0, 0,
                    posted % kWindow);
            posted++;
        }
        while (begun < total && begun < ended + kWindow) {
            out[begun % kWindow] = begun;
            send_to(&letters, &out[begun % kWindow], 8, begun, begun % kWindow);
            begun++;
        }
        assert_status(recv_status(&letters, done % kWindow), XFER_OK);
        const uint64_t word = in[done % kWindow];
        assert_true(word < total && !seen[word]);
        seen[word] = 1;
        done++;
        assert_status(sent(&letters, ended % kWindow), XFER_OK);
        ended++;
    }
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_flood),       EACH_MODE(test_sender_leaves),
    EACH_MODE(test_cancel_receives), EACH_MODE(test_cancel_matched),
    EACH_MODE(test_cancel_sends),    EACH_MODE(test_quiet_after_send),
    EACH_DISPATCH(test_deadlines),   EACH_MODE(test_endpoint_closes),
    EACH_MODE(test_engine_closes),   EACH_MODE(test_many_at_once),
};

TEST_MAIN(tests)
