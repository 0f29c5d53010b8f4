/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_cancel and xfer_recv_cancel: what they reach, what they leave, and many of them. */
#include <signal.h>

#include "fixture.h"

enum { kReceives = 60000, kPuts = 10, kLength = 4 << 20 };

static void wait_count(Host *host, uint32_t type, size_t wanted) {
    uint64_t end = now_ms() + kPatience;
    while (count_events(host, type, ANY_USER) < wanted) {
        if (now_ms() >= end) fail_msg("%zu came", count_events(host, type, ANY_USER));
        turn(5);
    }
}

/* One by one, the youngest first: each costs what it finds, not what there is, and meanwhile the
 * connection serves others. */
static void test_many_receives(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    for (uint64_t i = 0; i < kReceives; i++)
        assert_status(xfer_recv(pair.client->engine, i % 2 ? pair.ep : NULL, local, 8, 1 + i % 3,
                                i % 5 ? UINT64_MAX : 0xff, i, NULL),
                      XFER_OK);
    for (uint64_t i = kReceives; i-- > 0;) {
        if (i % (kReceives / kPuts) == 0)
            assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 8, i, NULL), XFER_OK);
        if (i % 2)
            assert_status(xfer_cancel(pair.ep, i), XFER_OK);
        else
            assert_status(xfer_recv_cancel(pair.client->engine, i), XFER_OK);
    }
    wait_count(pair.client, XFER_EVENT_RECV, kReceives);
    wait_count(pair.client, XFER_EVENT_PUT, kPuts);
    pthread_mutex_lock(&pair.client->mutex);
    size_t canceled = 0, put = 0;
    for (size_t i = 0; i < pair.client->seen_count; i++) {
        const xfer_event_t *event = &pair.client->seen[i].event;
        canceled += event->kind == XFER_EVENT_RECV && event->status == XFER_ECANCELED;
        put += event->kind == XFER_EVENT_PUT && event->status == XFER_OK;
    }
    pthread_mutex_unlock(&pair.client->mutex);
    assert_int_equal(canceled, kReceives);
    assert_int_equal(put, kPuts);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 8), XFER_OK);
}

/* One word, given to operations of all kinds by two handles and none: a cancel reaches those of its
 * handle, or the receives, and all of them at once. */
static void test_one_word(void **state) {
    Peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", kLength, 0);
    xfer_engine_options_t options = host_options(*state);
    options.heartbeat_ms = 60000; /* a slow machine must not lose the stopped peer meanwhile */
    Host *host = host_open_with(*state, &options);
    xfer_ep_t *ep = open_ep(host, peer.uri), *other = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    assert_status(connect_now(host, other, 0), XFER_OK);
    peer_signal(&peer, SIGSTOP);
    uint8_t *local = test_memory(kLength);
    for (int i = 0; i < 3; i++) {
        assert_status(xfer_put(ep, local, &ref, 0, kLength, 7, NULL), XFER_OK);
        assert_status(xfer_get(other, local, &ref, 0, kLength, 7, NULL), XFER_OK);
        assert_status(xfer_send(ep, local, 8, 1, 7, NULL), XFER_OK);
        assert_status(xfer_recv(host->engine, ep, local, 8, 1, UINT64_MAX, 7, NULL), XFER_OK);
        assert_status(xfer_recv(host->engine, NULL, local, 8, 1, UINT64_MAX, 7, NULL), XFER_OK);
    }
    assert_status(xfer_cancel(ep, 8), XFER_OK);
    assert_status(xfer_cancel(ep, 7), XFER_OK);
    wait_count(host, XFER_EVENT_PUT, 3);
    wait_count(host, XFER_EVENT_SEND, 3);
    wait_count(host, XFER_EVENT_RECV, 3);
    assert_int_equal(count_events(host, XFER_EVENT_GET, 7), 0);
    assert_status(xfer_recv_cancel(host->engine, 7), XFER_OK);
    wait_count(host, XFER_EVENT_RECV, 6);
    assert_int_equal(count_events(host, XFER_EVENT_GET, 7), 0);
    assert_status(xfer_cancel(other, 7), XFER_OK);
    wait_count(host, XFER_EVENT_GET, 3);
    peer_kill(&peer);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_many_receives),
    EACH_MODE(test_one_word),
};

TEST_MAIN(tests)
