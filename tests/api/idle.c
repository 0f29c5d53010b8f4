/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that nobody uses end, and come back by themselves: the user sees refs, handles and
 * batches that simply go on. */
#include <string.h>

#include "fixture.h"

enum { kIdle = 200, kLength = 1 << 20 };

static void wait_connections(Host *host, uint64_t wanted) {
    uint64_t end = now_ms() + kPatience;
    while (host_stats(host).connections != wanted) {
        if (now_ms() > end) {
            static char text[1 << 20];
            uint64_t needed;
            xfer_engine_describe(host->engine, text, sizeof text, &needed);
            fail_msg("%llu connections: %s", (unsigned long long)host_stats(host).connections,
                     text);
        }
        turn(20);
    }
}

/* The endpoint's own loop is told of the end of a connection a moment after the statistics are. */
static void wait_idle(xfer_ep_t *ep) {
    const uint64_t end = now_ms() + kPatience;
    for (;;) {
        uint32_t state = 0;
        assert_status(xfer_ep_state(ep, &state), XFER_OK);
        if (state == XFER_EP_IDLE) return;
        if (now_ms() > end) fail_msg("the endpoint is in state %u", (unsigned)state);
        turn(1);
    }
}

/* Both listen: a connection that one side could not make again is never ended. */
static void open_idle(Pair *pair, const Mode *mode, uint32_t idle_ms) {
    xfer_engine_options_t server = host_options(mode);
    xfer_engine_options_t client = host_options(mode);
    client.idle_ms = idle_ms;
    *pair = (Pair){.length = kLength, .memory = test_memory(kLength)};
    pair->server = host_open_with(mode, &server);
    pair->client = host_open_with(mode, &client);
    host_listen(pair->server, "tcp://127.0.0.1:0");
    host_listen(pair->client, "tcp://127.0.0.1:0");
    pair->region =
        open_region(pair->server, "memory", XFER_READ | XFER_WRITE, pair->memory, kLength);
    pair->ep = open_ep(pair->client, pair->server->uri);
    pair->ref = look_up(pair->client, pair->ep, "memory");
}

static void test_ends_and_reopens(void **state) {
    Pair pair;
    open_idle(&pair, *state, kIdle);
    uint8_t *local = test_memory(kLength);
    uint8_t *back = test_memory(kLength);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kLength), XFER_OK);
    for (uint64_t round = 0; round < 3; round++) {
        wait_connections(pair.client, 0);
        wait_connections(pair.server, 0);
        wait_idle(pair.ep);
        fill(local, kLength, round);
        if (round % 2 == 0) {
            assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
        } else {
            assert_status(submit_now(pair.client, batch), XFER_OK);
        }
        assert_true(filled(pair.memory, kLength, round, 0));
        assert_status(get_now(pair.client, pair.ep, back, &pair.ref, 0, kLength), XFER_OK);
        assert_true(filled(back, kLength, round, 0));
    }
    assert_true(host_stats(pair.client).connection_ends >= 3);
}

/* A client that does not listen can't be dialed: its server would never get it back. */
static void test_who_cannot_be_dialed_stays(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.idle_ms = kIdle;
    Pair pair;
    pair_open_with(&pair, &options, &options, *state, 64);
    pass_ms(5 * kIdle);
    assert_int_equal(host_stats(pair.client).connections, 1);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

static void test_used_connections_stay(void **state) {
    enum { kLong = 3 * kIdle };
    Pair pair;
    open_idle(&pair, *state, kLong);
    uint64_t longest = 0, last = now_ms();
    uint8_t local[64] = {0};
    for (int i = 0; i < 30; i++) {
        pass_ms(kIdle / 4);
        const uint64_t before = now_ms();
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 64), XFER_OK);
        const uint64_t unused = now_ms() - last;
        if (unused > longest) longest = unused;
        last = before;
    }
    if (longest >= kLong) {
        print_message("skip: a busy machine has left the connection unused\n");
        skip();
    }
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
    assert_int_equal(host_stats(pair.client).connects, 1);
}

/* A lookup that waits is work: its connection stays. */
static void test_waiting_is_use(void **state) {
    Pair pair;
    open_idle(&pair, *state, kIdle);
    xfer_op_options_t options = {
        .size = sizeof options, .flags = XFER_FLAG_WAIT, .timeout_ms = kPatience};
    assert_status(xfer_ep_lookup(pair.ep, "late", 1, &options, NULL), XFER_OK);
    pass_ms(4 * kIdle);
    open_region(pair.server, "late", XFER_READ, pair.memory, 64);
    assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, 1, kPatience).status, XFER_OK);
}

/* What happened to a region meanwhile is found out. */
static void test_region_gone_meanwhile(void **state) {
    Pair pair;
    open_idle(&pair, *state, kIdle);
    uint8_t local[64];
    memset(local, 1, sizeof local);
    wait_connections(pair.client, 0);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    open_region(pair.server, "memory", XFER_WRITE, pair.memory, 64);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 64), XFER_ESTALE);
    assert_int_equal(pair.memory[0], 0);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "memory");
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 64), XFER_OK);
}

/* The side that was dialed uses the handle that it kept: now it is the one that dials. */
static void test_accepted_side_reopens(void **state) {
    Pair pair;
    open_idle(&pair, *state, kIdle);
    uint8_t *memory = test_memory(64);
    uint8_t local[64] = {5};
    open_region(pair.client, "of the client", XFER_WRITE, memory, 64);
    xfer_event_t peer = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_status(xfer_ep_keep(peer.ep, 77), XFER_OK);
    xfer_ref_t ref = look_up(pair.server, peer.ep, "of the client");
    wait_connections(pair.server, 0);
    assert_status(put_now(pair.server, peer.ep, local, &ref, 0, 64), XFER_OK);
    assert_int_equal(memory[0], 5);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 64), XFER_OK);
    wait_connections(pair.client, 1); /* not one of each */
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_ends_and_reopens),          EACH_DISPATCH(test_who_cannot_be_dialed_stays),
    EACH_DISPATCH(test_used_connections_stay), EACH_DISPATCH(test_waiting_is_use),
    EACH_DISPATCH(test_region_gone_meanwhile), EACH_DISPATCH(test_accepted_side_reopens),
};

TEST_MAIN(tests)
