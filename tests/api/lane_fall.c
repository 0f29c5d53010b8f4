/* SPDX-License-Identifier: Apache-2.0
 *
 * A data lane that ends alone: the connection goes on, what was not sent goes by other lanes, what
 * was sent ends and lands no more, and the lane is opened again. A proxy ends it. */
#include <string.h>

#include "fixture.h"
#include "proxy.h"

enum { kLength = 16 << 20, kPart = 1 << 20, kData = 1 /* the pipe of the first data lane */ };

static void pair_by_proxy(Pair *pair, const Mode *mode, uint32_t lanes) {
    xfer_engine_options_t options = host_options(mode);
    options.lanes = lanes;
    proxy_pair_open(pair, &options, &options, mode, kLength);
}

/* The state follows the name, on a line of its own. */
static bool lane_is(Host *host, int number, const char *state) {
    static char text[1 << 20];
    char name[32];
    char line[48];
    uint64_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    snprintf(name, sizeof name, "\"lane\": \"data %d\"", number);
    snprintf(line, sizeof line, "\"state\": \"%s\"", state);
    const char *at = strstr(text, name);
    const char *end = at != NULL ? strstr(at, "\"remote\"") : NULL;
    const char *found = at != NULL ? strstr(at, line) : NULL;
    return found != NULL && found < end;
}

/* Until data lanes up to that number are there at both ends. */
static void wait_lanes(const Pair *pair, int last) {
    const uint64_t limit = now_ms() + kPatience;
    for (int number = 1; number <= last; number++)
        while (!lane_is(pair->client, number, "ready") || !lane_is(pair->server, number, "ready")) {
            if (now_ms() > limit) fail_msg("data lane %d is not there", number);
            turn(5);
        }
}

static void wait_falls(Host *host, uint64_t wanted) {
    const uint64_t limit = now_ms() + kPatience;
    while (host_stats(host).lane_falls < wanted) {
        if (now_ms() > limit) fail_msg("no lane fell");
        turn(5);
    }
}

static void assert_one_connection(const Pair *pair) {
    assert_int_equal(host_stats(pair->client).connection_ends, 0);
    assert_int_equal(host_stats(pair->server).connection_ends, 0);
    assert_int_equal(count_events(pair->client, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    assert_int_equal(count_events(pair->server, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
}

/* Bulk opens the lanes. */
static void open_lanes(const Pair *pair, const void *local, int last) {
    assert_status(put_now(pair->client, pair->ep, local, &pair->ref, 0, kPart), XFER_OK);
    wait_lanes(pair, last);
}

/* ---- tests ---- */

static void test_idle(void **state) {
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *local = test_memory(kPart);
    open_lanes(&pair, local, 1);
    for (int round = 1; round <= 3; round++) {
        const int pipe = proxy_count() - 1;
        proxy_cut(pipe);
        wait_falls(pair.client, (uint64_t)round);
        wait_falls(pair.server, (uint64_t)round);
        fill(local, kPart, (uint64_t)round);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kPart), XFER_OK);
        assert_memory_equal(pair.memory, local, kPart);
        wait_lanes(&pair, 1);
        assert_int_equal(proxy_count(), kData + 1 + round);
    }
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* What has left ends with what may have become of it, and nothing of it lands after its event,
 * though its bytes still come to the owner's host; what has not left arrives by other lanes. */
static void test_sent_and_unsent(void **state) {
    enum { kPuts = 16 };
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *old = test_memory(kLength);
    uint8_t *new = test_memory(kPart);
    open_lanes(&pair, old, 1);
    fill(old, kLength, 1);
    fill(new, kPart, 2);
    memset(pair.memory, 0, kLength);
    proxy_hold(kData);
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(
            xfer_put(pair.ep, old + i * kPart, &pair.ref, i * kPart, kPart, 100 + i, NULL),
            XFER_OK);
    while (proxy_held(kData) == 0)
        turn(1);
    pass_ms(20);
    proxy_cut_client(kData);
    int lost = 0;
    for (uint64_t i = 0; i < kPuts; i++) {
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, 100 + i, kPatience);
        assert_completion(&event);
        if (event.status == XFER_OK) {
            assert_memory_equal(pair.memory + i * kPart, old + i * kPart, kPart);
            continue;
        }
        assert_status(event.status, XFER_EPEERLOST);
        assert_true(event.flags & XFER_MAYBE_APPLIED);
        lost++;
        assert_status(put_now(pair.client, pair.ep, new, &pair.ref, i * kPart, kPart), XFER_OK);
        proxy_release(kData);
        pass_ms(20);
        assert_memory_equal(pair.memory + i * kPart, new, kPart);
    }
    assert_true(lost > 0);
    assert_true(lost < kPuts);
    assert_one_connection(&pair);
    wait_lanes(&pair, 1);
    proxy_pair_end(&pair);
}

/* Lanes end all the time, at either end, and each operation still ends as it may. */
static void test_again_and_again(void **state) {
    enum { kDepth = 4 };
    Pair pair;
    pair_by_proxy(&pair, *state, 3);
    uint8_t *local = test_memory(kLength);
    uint8_t *back = test_memory(kLength);
    open_lanes(&pair, local, 3);
    const int rounds = quick() ? 6 : 20;
    int whole = 0;
    /* In each of a few rounds the cut may come before all puts have ended. */
    const uint64_t end = now_ms() + kPatience;
    for (int round = 0; round < rounds || (whole == 0 && now_ms() < end); round++) {
        fill(local, kLength, (uint64_t)round);
        const uint64_t some = kLength / kDepth;
        for (uint64_t i = 0; i < kDepth; i++)
            assert_status(xfer_put(pair.ep, local + i * some, &pair.ref, i * some, some, i, NULL),
                          XFER_OK);
        for (int i = 0; i < round % 4; i++)
            turn(0);
        const int pipe = proxy_count() - 1 - round % 2;
        if (pipe >= kData) round % 3 ? proxy_cut(pipe) : proxy_cut_client(pipe);
        for (uint64_t i = 0; i < kDepth; i++) {
            xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, i, kPatience);
            assert_completion(&event);
            if (event.status == XFER_OK) {
                assert_memory_equal(pair.memory + i * some, local + i * some, some);
                whole++;
            } else {
                assert_status(event.status, XFER_EPEERLOST);
            }
        }
        memset(back, 0, kLength);
        const xfer_status_t got = get_now(pair.client, pair.ep, back, &pair.ref, 0, kLength);
        if (got == XFER_OK)
            assert_memory_equal(back, pair.memory, kLength);
        else
            assert_status(got, XFER_EPEERLOST);
        if (proxy_count() > 40) break;
    }
    assert_true(whole > 0);
    wait_falls(pair.client, 1);
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* A notification belongs to its connection: one whose data was lost fails, at both ends, and the
 * next goes on. */
static void test_notification(void **state) {
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *local = test_memory(kLength);
    open_lanes(&pair, local, 1);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kLength), XFER_OK);
    xfer_submit_options_t options = {
        .size = sizeof options, .flags = XFER_SUBMIT_NOTIFY, .notify_key = 7};
    proxy_hold(kData);
    assert_status(xfer_batch_submit(batch, 1, &options), XFER_OK);
    while (proxy_held(kData) == 0)
        turn(1);
    proxy_cut(kData);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(event.status, XFER_EPEERLOST);
    assert_completion(&event);
    xfer_event_t told = wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
    assert_int_equal(told.tag, 7);
    assert_status(told.status, XFER_EPEERLOST);
    assert_int_equal(told.origin, XFER_ORIGIN_PEER);
    proxy_release(kData);
    fill(local, kLength, 3);
    options.notify_key = 8;
    assert_status(xfer_batch_submit(batch, 2, &options), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_BATCH, 2, kPatience).status, XFER_OK);
    told = wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
    assert_int_equal(told.tag, 8);
    assert_status(told.status, XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* The owner's end of a lane carries the bytes of a get. */
static void test_get(void **state) {
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *local = test_memory(kLength);
    open_lanes(&pair, local, 1);
    fill(pair.memory, kLength, 4);
    proxy_hold(kData);
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, kLength, 1, NULL), XFER_OK);
    while (proxy_held(kData) == 0)
        turn(1);
    proxy_cut(kData);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_GET, 1, kPatience);
    assert_status(event.status, XFER_EPEERLOST);
    assert_completion(&event);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* One that can't be opened is tried again, and bulk goes by the first lane meanwhile. */
static void test_refused_at_first(void **state) {
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *local = test_memory(kPart);
    proxy_refuse(3);
    for (uint64_t seed = 0; seed < 4; seed++) {
        fill(local, kPart, seed);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kPart), XFER_OK);
        assert_memory_equal(pair.memory, local, kPart);
    }
    wait_lanes(&pair, 1);
    assert_int_equal(proxy_count(), 2);
    assert_int_equal(host_stats(pair.client).lane_falls, 0); /* it was none yet */
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* Its host has answered, and the peer does not hear it. One that is driven when its user has time
 * may take as long as it likes. */
static void test_never_let_in(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.lanes = 1;
    options.connect_ms = 300;
    options.heartbeat_ms = 400; /* it is lost after 600 ms of silence */
    Pair pair;
    proxy_pair_open(&pair, &options, &options, mode, kLength);
    proxy_hold(kData);
    uint8_t *local = test_memory(kPart);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kPart), XFER_OK);
    while (proxy_held(kData) == 0)
        turn(1);
    const uint64_t dialed = now_ms();
    if (mode->io_threads == XFER_NONE) {
        pass_ms(2000);
        assert_int_equal(proxy_count(), kData + 1);
        proxy_release(kData);
        wait_lanes(&pair, 1);
        assert_int_equal(proxy_count(), kData + 1);
    } else {
        wait_lanes(&pair, 1);
        assert_int_equal(proxy_count(), kData + 2);
        assert_true(now_ms() < dialed + 4500); /* after 5 s the acceptor would have hung up */
    }
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

/* A deadline and a cancel still end what waits for the word of the peer. */
static void test_canceled(void **state) {
    Pair pair;
    pair_by_proxy(&pair, *state, 1);
    uint8_t *local = test_memory(kLength);
    open_lanes(&pair, local, 1);
    for (uint64_t round = 0; round < 6; round++) {
        const int pipe = proxy_count() - 1;
        fill(local, kLength, round);
        proxy_hold(pipe);
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, kLength, round, NULL), XFER_OK);
        while (proxy_held(pipe) == 0)
            turn(1);
        proxy_cut(pipe);
        for (uint64_t i = 0; i < round / 2; i++)
            turn(0);
        if (round % 2)
            assert_status(xfer_cancel(pair.client->engine, pair.ep, round, UINT64_MAX), XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, round, kPatience);
        assert_completion(&event);
        assert_true(event.status == XFER_EPEERLOST || event.status == XFER_ECANCELED);
        memset(local, 0xee, kLength); /* it is quiet */
        proxy_release(pipe);
        wait_lanes(&pair, 1);
    }
    assert_one_connection(&pair);
    proxy_pair_end(&pair);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_idle),
    EACH_MODE(test_sent_and_unsent),
    EACH_MODE(test_again_and_again),
    EACH_MODE(test_notification),
    EACH_DISPATCH(test_get),
    EACH_DISPATCH(test_refused_at_first),
    EACH_DISPATCH(test_never_let_in),
    EACH_DISPATCH(test_canceled),
};

TEST_MAIN(tests)
