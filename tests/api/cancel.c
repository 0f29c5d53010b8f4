/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_cancel: what it reaches, what it leaves, and many of them. */
#include <signal.h>
#include <unistd.h>

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
            assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 8, kReceives + i, NULL), XFER_OK);
        if (i % 2)
            assert_status(xfer_cancel(pair.client->engine, pair.ep, i, UINT64_MAX), XFER_OK);
        else
            assert_status(xfer_cancel(pair.client->engine, NULL, i, UINT64_MAX), XFER_OK);
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

/* ---- what it reaches ---- */

/* Each kind of operation, none of which can end: the peer of `ep` is stopped, nobody answers at
 * that of `hole`. */
static void begin_each(Host *host, xfer_ep_t *ep, xfer_ep_t *hole, xfer_batch_t *batch,
                       const xfer_ref_t *ref, uint64_t user) {
    static uint8_t local[kLength];
    const xfer_op_options_t wait = {.size = sizeof wait, .flags = XFER_FLAG_WAIT};
    assert_status(xfer_put(ep, local, ref, 0, kLength, user, NULL), XFER_OK);
    assert_status(xfer_get(ep, local, ref, 0, kLength, user, NULL), XFER_OK);
    assert_status(xfer_send(ep, local, 8, 1, user, NULL), XFER_OK);
    assert_status(xfer_recv(host->engine, ep, local, 8, 1, UINT64_MAX, user, NULL), XFER_OK);
    assert_status(xfer_ep_lookup(ep, "none", user, &wait, NULL), XFER_OK);
    assert_status(xfer_ep_probe(ep, user, NULL), XFER_OK);
    assert_status(xfer_ep_connect(hole, user, NULL), XFER_OK);
    assert_status(xfer_batch_submit(batch, user, NULL), XFER_OK);
}

static const uint32_t kinds_of_ep[] = {XFER_EVENT_PUT,  XFER_EVENT_GET,    XFER_EVENT_SEND,
                                       XFER_EVENT_RECV, XFER_EVENT_LOOKUP, XFER_EVENT_PROBE,
                                       XFER_EVENT_BATCH};
enum { kKinds = sizeof kinds_of_ep / sizeof kinds_of_ep[0] };

static void assert_canceled(Host *host, uint32_t kind, uint64_t user) {
    xfer_event_t event = wait_event(host, kind, user, kPatience);
    if (event.status != XFER_ECANCELED)
        fail_msg("kind %u: %s", kind, xfer_status_name(event.status));
}

static void assert_none(Host *host, uint64_t user) {
    for (size_t i = 0; i < kKinds; i++)
        assert_int_equal(count_events(host, kinds_of_ep[i], user), 0);
    assert_int_equal(count_events(host, XFER_EVENT_CONNECT, user), 0);
}

typedef struct Stuck {
    Peer peer;
    Host *host;
    xfer_ep_t *ep, *hole;
    xfer_batch_t *batch;
    xfer_ref_t ref;
    int silent;
} Stuck;

static void stuck_open(Stuck *stuck, const Mode *mode) {
    char uri[64];
    peer_start(&stuck->peer, "tcp://127.0.0.1:0", kLength, 0);
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = 60000; /* a slow machine must not lose the stopped peer meanwhile */
    Host *host = stuck->host = host_open_with(mode, &options);
    stuck->ep = open_ep(host, stuck->peer.uri);
    stuck->silent = black_hole(uri, sizeof uri);
    stuck->hole = open_ep(host, uri);
    stuck->ref = look_up(host, stuck->ep, "memory");
    assert_status(xfer_batch_open(stuck->ep, NULL, &stuck->batch, NULL), XFER_OK);
    static uint8_t local[kLength];
    assert_status(xfer_batch_put(stuck->batch, local, &stuck->ref, 0, kLength), XFER_OK);
    peer_signal(&stuck->peer, SIGSTOP);
}

static void stuck_close(Stuck *stuck) {
    peer_kill(&stuck->peer);
    host_end(stuck->host);
    close(stuck->silent);
}

/* With an endpoint: what was begun with it, and nothing of another's. Without: everything. */
static void test_one_word(void **state) {
    Stuck stuck;
    stuck_open(&stuck, *state);
    Host *host = stuck.host;
    begin_each(host, stuck.ep, stuck.hole, stuck.batch, &stuck.ref, 7);
    uint64_t word;
    assert_status(xfer_recv(host->engine, NULL, &word, 8, 1, UINT64_MAX, 7, NULL), XFER_OK);
    assert_status(xfer_cancel(host->engine, stuck.ep, 8, UINT64_MAX), XFER_OK);
    assert_status(xfer_cancel(host->engine, stuck.hole, 8, UINT64_MAX), XFER_OK);
    assert_status(xfer_cancel(host->engine, NULL, 8, UINT64_MAX), XFER_OK);
    pass_ms(50);
    assert_none(host, 7);
    assert_status(xfer_cancel(host->engine, stuck.ep, 7, UINT64_MAX), XFER_OK);
    for (size_t i = 0; i < kKinds; i++)
        assert_canceled(host, kinds_of_ep[i], 7);
    assert_int_equal(count_events(host, XFER_EVENT_CONNECT, 7), 0);
    assert_int_equal(count_events(host, XFER_EVENT_RECV, 7), 1); /* not that from any */
    assert_status(xfer_cancel(host->engine, NULL, 7, UINT64_MAX), XFER_OK);
    assert_canceled(host, XFER_EVENT_CONNECT, 7);
    assert_canceled(host, XFER_EVENT_RECV, 7);
    stuck_close(&stuck);
}

/* The words that equal in the bits of the mask, of the endpoint or of all; 0 means each. */
static void test_mask(void **state) {
    for (int any = 0; any < 2; any++) {
        Stuck stuck;
        stuck_open(&stuck, *state);
        Host *host = stuck.host;
        xfer_ep_t *ep = any ? NULL : stuck.ep;
        begin_each(host, stuck.ep, stuck.ep, stuck.batch, &stuck.ref, 0x1200000005);
        wait_event(host, XFER_EVENT_CONNECT, 0x1200000005, kPatience); /* it is connected */
        assert_status(xfer_cancel(host->engine, ep, 0x1100000000, 0xff00000000), XFER_OK);
        assert_status(xfer_cancel(host->engine, ep, 4, 0xff), XFER_OK);
        pass_ms(50);
        for (size_t i = 0; i < kKinds; i++)
            assert_int_equal(count_events(host, kinds_of_ep[i], 0x1200000005), 0);
        assert_status(xfer_cancel(host->engine, ep, 0x1200000000, 0xff00000000), XFER_OK);
        for (size_t i = 0; i < kKinds; i++)
            assert_canceled(host, kinds_of_ep[i], 0x1200000005);
        begin_each(host, stuck.ep, stuck.hole, stuck.batch, &stuck.ref, 0x1300000005);
        assert_status(xfer_cancel(host->engine, ep, 99, 0), XFER_OK);
        for (size_t i = 0; i < kKinds; i++)
            assert_canceled(host, kinds_of_ep[i], 0x1300000005);
        if (any) assert_canceled(host, XFER_EVENT_CONNECT, 0x1300000005);
        stuck_close(&stuck);
    }
}

/* Its wait ends; what it waited for goes on, and nothing new begins. */
static void test_drain(void **state) {
    Stuck stuck;
    stuck_open(&stuck, *state);
    Host *host = stuck.host;
    static uint8_t local[kLength];
    assert_status(xfer_get(stuck.ep, local, &stuck.ref, 0, kLength, 1, NULL), XFER_OK);
    assert_status(xfer_engine_drain(host->engine, 2, NULL), XFER_OK);
    assert_status(xfer_cancel(host->engine, stuck.ep, 2, UINT64_MAX), XFER_OK); /* not with ep */
    assert_status(xfer_cancel(host->engine, NULL, 3, UINT64_MAX), XFER_OK);
    pass_ms(50);
    assert_int_equal(count_events(host, XFER_EVENT_DRAINED, ANY_USER), 0);
    assert_status(xfer_cancel(host->engine, NULL, 2, UINT64_MAX), XFER_OK);
    assert_canceled(host, XFER_EVENT_DRAINED, 2);
    assert_int_equal(count_events(host, XFER_EVENT_GET, 1), 0);
    assert_status(xfer_get(stuck.ep, local, &stuck.ref, 0, 8, 1, NULL), XFER_ECLOSED);
    peer_signal(&stuck.peer, SIGCONT);
    assert_status(wait_event(host, XFER_EVENT_GET, 1, kPatience).status, XFER_OK);
    stuck_close(&stuck);
}

static void test_other_engine(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    assert_status(xfer_cancel(pair.server->engine, pair.ep, 1, UINT64_MAX), XFER_EINVAL);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_many_receives), EACH_MODE(test_one_word),         EACH_MODE(test_mask),
    EACH_DISPATCH(test_drain),         EACH_DISPATCH(test_other_engine),
};

TEST_MAIN(tests)
