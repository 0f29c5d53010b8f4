/* SPDX-License-Identifier: Apache-2.0
 *
 * XFER_ENGINE_OWN_PEERS: the handle of a PEER event is the caller's from its delivery on, whatever
 * the peer does, and goes by xfer_ep_close alone. */
#include <string.h>

#include "fixture.h"

static Host *open_server(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    options.flags = XFER_ENGINE_OWN_PEERS;
    Host *server = host_open_with(mode, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    return server;
}

/* The same engine in each of its lives. */
static Host *open_member(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    memset(options.id, 0x31, sizeof options.id);
    return host_open_with(mode, &options);
}

static void notify_now(Host *client, const Host *server, uint64_t key) {
    xfer_ep_t *ep = open_ep(client, server->uri);
    assert_status(xfer_notify(ep, NULL, 0, key, key, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_NOTIFIED, key, kPatience).status, XFER_OK);
}

static uint32_t state_of(xfer_ep_t *ep) {
    uint32_t state = 0;
    assert_status(xfer_ep_state(ep, &state), XFER_OK);
    return state;
}

/* Past PEER_DOWN, and at the peer's return, it is the same handle. */
static void test_stays_until_close(void **state) {
    Host *server = open_server(*state);
    Host *client = open_member(*state);
    notify_now(client, server, 5);
    xfer_ep_t *ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience).ep, ep);
    host_end(client);
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).ep, ep);
    pass_ms(30);
    assert_int_equal(state_of(ep), XFER_EP_IDLE);
    assert_status(xfer_ep_keep(ep, 77), XFER_OK);
    assert_status(xfer_ep_keep(ep, 78), XFER_EINVAL);
    for (uint64_t life = 1; life <= 3; life++) {
        client = open_member(*state);
        notify_now(client, server, 5 + life);
        xfer_event_t up = wait_event(server, XFER_EVENT_PEER_UP, 77, kPatience);
        assert_ptr_equal(up.ep, ep);
        assert_int_equal(up.flags, XFER_RESTARTED);
        assert_ptr_equal(wait_event(server, XFER_EVENT_NOTIFY, 77, kPatience).ep, ep);
        host_end(client);
        assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_DOWN, 77, kPatience).ep, ep);
    }
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 1);
    assert_status(xfer_ep_close(ep), XFER_OK);
    xfer_event_t closed = wait_event(server, XFER_EVENT_CLOSED, 77, kPatience);
    assert_ptr_equal(closed.object, ep);
    /* Whom nobody has a handle on is a newcomer. */
    client = open_member(*state);
    notify_now(client, server, 20);
    ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(server, ep);
}

/* By its user alone each event of a peer is known, from PEER on, and so is the sender of a message.
 */
static void test_known_by_user(void **state) {
    enum { kClients = 3 };
    static uint8_t letter[8];
    Host *server = open_server(*state);
    uint64_t words[kClients] = {0};
    for (int i = 0; i < kClients; i++) {
        Host *client = host_open(*state);
        notify_now(client, server, 5);
        const xfer_event_t peer = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
        words[i] = peer.user;
        assert_true(words[i] >> 63);
        for (int j = 0; j < i; j++)
            assert_true(words[i] != words[j]);
        assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, words[i], kPatience).ep, peer.ep);
        assert_ptr_equal(wait_event(server, XFER_EVENT_NOTIFY, words[i], kPatience).ep, peer.ep);
        xfer_ep_t *ep = open_ep(client, server->uri);
        for (uint64_t round = 0; round < 3;
             round++) { /* any sender, that one, and that one once it is kept */
            xfer_ep_t *from = round == 0 ? NULL : peer.ep;
            if (round == 2) assert_status(xfer_ep_keep(peer.ep, 70 + (uint64_t)i), XFER_OK);
            assert_status(xfer_send(ep, "letter", 6, 1, round, NULL), XFER_OK);
            assert_status(
                xfer_recv(server->engine, from, letter, sizeof letter, 1, UINT64_MAX, round, NULL),
                XFER_OK);
            const xfer_event_t got = wait_event(server, XFER_EVENT_RECV, round, kPatience);
            assert_ptr_equal(got.ep, peer.ep);
            assert_int_equal(got.index, round == 2 ? 70 + (uint64_t)i : words[i]);
        }
        host_end(client);
        assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_DOWN, 70 + (uint64_t)i, kPatience).ep,
                         peer.ep);
    }
}

static void close_at_once(Host *host, const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_PEER && xfer_ep_close(event->ep) != XFER_OK)
        snprintf(host->broken, sizeof host->broken, "the close of a handle that has just come");
}

static void test_closed_in_its_callback(void **state) {
    Host *server = open_server(*state);
    server->hook = close_at_once;
    for (uint64_t life = 1; life <= 3; life++) {
        Host *client = open_member(*state);
        notify_now(client, server, life);
        xfer_event_t peer = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
        wait_closed(server, peer.ep);
        /* The connection stays. */
        notify_now(client, server, 10 + life);
        assert_int_equal(host_stats(client).connections, 1);
        host_end(client);
    }
    server->hook = NULL;
}

/* Its close has begun, and its peer comes and goes. */
static void test_closed_while_down(void **state) {
    Host *server = open_server(*state);
    Host *client = open_member(*state);
    notify_now(client, server, 5);
    xfer_ep_t *ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    host_end(client);
    wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_status(xfer_ep_probe(ep, 9, WITHIN(kPatience)), XFER_OK); /* it waits for the peer */
    assert_status(xfer_ep_close(ep), XFER_OK);
    assert_status(wait_event(server, XFER_EVENT_PROBE, 9, kPatience).status, XFER_ECANCELED);
    wait_closed(server, ep);
}

/* Each endpoint that the caller has is told CLOSED with its engine, and is a shell then. */
static void test_engine_closes(void **state) {
    Host *server = open_server(*state);
    xfer_ep_t *eps[3];
    for (int i = 0; i < 3; i++) {
        Host *client = host_open(*state);
        notify_now(client, server, 1);
        eps[i] = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
        if (i == 1) host_end(client);
    }
    wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    host_end(server);
    assert_int_equal(count_events(server, XFER_EVENT_CLOSED, ANY_USER), 3 + 1);
    for (int i = 0; i < 3; i++) {
        wait_closed(server, eps[i]);
        assert_status(xfer_ep_close(eps[i]), XFER_ECLOSED);
    }
}

/* An idle peer that does not come back is told as down, kept or not: who accepts has to know. */
static void test_stays_away(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.idle_ms = 1500; /* not before it is kept */
    options.flags = XFER_ENGINE_OWN_PEERS;
    Host *server = host_open_with(*state, &options);
    Host *client = host_open_with(*state, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    host_listen(client, "tcp://127.0.0.1:0");
    notify_now(client, server, 1);
    xfer_ep_t *ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_keep(ep, 7), XFER_OK);
    xfer_event_t down = wait_event(server, XFER_EVENT_PEER_DOWN, 7, kPatience);
    assert_ptr_equal(down.ep, ep);
    assert_status(connect_now(server, ep, kPatience), XFER_OK); /* now we dial */
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(server, ep);
}

/* ---- between two polls ---- */

enum { kRoom = 16 };
static xfer_engine_t *polled;
static char uri[256];
static xfer_event_t events[kRoom];
static uint32_t count;

static void open_polled(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    options.flags = XFER_ENGINE_OWN_PEERS;
    assert_status(xfer_engine_open(&options, &polled, NULL), XFER_OK);
    assert_status(xfer_engine_listen(polled, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL),
                  XFER_OK);
}

static void wait_queued(uint64_t wanted) {
    xfer_engine_stats_t stats;
    for (uint64_t end = now_ms() + kPatience;; turn(1)) {
        assert_status(xfer_engine_stats(polled, &stats, sizeof stats), XFER_OK);
        if (stats.events_queued >= wanted) return;
        if (now_ms() >= end) fail_msg("%llu events", (unsigned long long)stats.events_queued);
    }
}

/* `queued` events wait to be polled when this returns. */
static void come_and_go(uint64_t queued) {
    Host *client = open_member(THREAD_MODE);
    xfer_ep_t *ep = open_ep(client, uri);
    assert_status(xfer_notify(ep, NULL, 0, 5, 1, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_NOTIFIED, 1, kPatience).status, XFER_OK);
    host_end(client);
    wait_queued(queued);
}

static void poll_up_to(uint32_t max) {
    for (uint64_t end = now_ms() + kPatience; now_ms() < end; turn(1)) {
        assert_status(xfer_engine_poll(polled, events, sizeof events[0], max, 0, &count), XFER_OK);
        if (count > 0) return;
    }
    fail_msg("no event");
}

/* What came, went and came again before anybody looked has one handle, which is the caller's. */
static void test_gone_before_it_is_taken(void **state) {
    static const uint32_t kinds[] = {XFER_EVENT_PEER,      XFER_EVENT_PEER_UP, XFER_EVENT_NOTIFY,
                                     XFER_EVENT_PEER_DOWN, XFER_EVENT_PEER_UP, XFER_EVENT_NOTIFY,
                                     XFER_EVENT_PEER_DOWN};
    for (uint32_t max = 1; max <= kRoom; max += kRoom - 1) {
        open_polled(*state);
        come_and_go(4);
        come_and_go(7);
        xfer_ep_t *ep = NULL;
        for (uint32_t seen = 0; seen < 7;) {
            poll_up_to(max);
            for (uint32_t i = 0; i < count; i++, seen++) {
                if (seen == 0) ep = events[i].ep;
                assert_int_equal(events[i].kind, kinds[seen]);
                assert_ptr_equal(events[i].ep, ep);
                assert_int_equal(state_of(ep), XFER_EP_IDLE);
            }
        }
        assert_status(xfer_ep_close(ep), XFER_OK);
        poll_up_to(max);
        assert_int_equal(events[0].kind, XFER_EVENT_CLOSED);
        assert_ptr_equal(events[0].object, ep);
        assert_status(xfer_engine_join(polled, XFER_NONE), XFER_OK);
    }
}

/* The engine closes before the handle is taken: it still comes, with its CLOSED behind it. */
static void test_taken_while_the_engine_closes(void **state) {
    open_polled(*state);
    come_and_go(4);
    assert_status(xfer_engine_close(polled), XFER_OK);
    wait_queued(4 + 2);
    xfer_ep_t *ep = NULL;
    bool told = false, over = false;
    while (!over) {
        poll_up_to(1);
        if (events[0].kind == XFER_EVENT_PEER) ep = events[0].ep;
        over = events[0].kind == XFER_EVENT_CLOSED && events[0].object == (void *)polled;
        told |= events[0].kind == XFER_EVENT_CLOSED && events[0].object == (void *)ep;
    }
    assert_true(told);
    assert_status(xfer_engine_join(polled, XFER_NONE), XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_ECLOSED);
}

/* What a join drops was never delivered: LeakSanitizer sees whether that leaves something. */
static void test_never_taken(void **state) {
    open_polled(*state);
    come_and_go(4);
    assert_status(xfer_engine_join(polled, XFER_NONE), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_known_by_user),
    EACH_MODE(test_stays_until_close),
    EACH_MODE(test_closed_in_its_callback),
    EACH_MODE(test_closed_while_down),
    EACH_MODE(test_engine_closes),
    EACH_DISPATCH(test_stays_away),
    MODE_TEST(test_gone_before_it_is_taken, 7, "poll/1"),
    MODE_TEST(test_gone_before_it_is_taken, 8, "poll/2"),
    MODE_TEST(test_taken_while_the_engine_closes, 7, "poll/1"),
    MODE_TEST(test_taken_while_the_engine_closes, 8, "poll/2"),
    MODE_TEST(test_never_taken, 7, "poll/1"),
    MODE_TEST(test_never_taken, 8, "poll/2"),
};

TEST_MAIN(tests)
