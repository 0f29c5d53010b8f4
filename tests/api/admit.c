/* SPDX-License-Identifier: Apache-2.0
 *
 * XFER_ENGINE_ASK: the application lets peers in. Until its verdict nothing that they asked for is
 * served, and whatever becomes of the question, a PEER_DOWN ends it. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fixture.h"

enum { kBytes = 4096 };
static uint8_t *lent;

static Host *open_asking(const Mode *mode, uint32_t flags, uint32_t connect_ms) {
    xfer_engine_options_t options = host_options(mode);
    options.flags = XFER_ENGINE_ASK | flags;
    options.connect_ms = connect_ms;
    Host *server = host_open_with(mode, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    lent = test_memory(kBytes);
    open_region(server, "memory", XFER_READ | XFER_WRITE, lent, kBytes);
    return server;
}

/* The same engine in each of its lives. */
static Host *open_member(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    memset(options.id, 0x31, sizeof options.id);
    options.blob = "worker 7";
    options.blob_length = 8;
    return host_open_with(mode, &options);
}

static void begin_lookup(xfer_ep_t *ep, uint64_t user) {
    assert_status(xfer_ep_lookup(ep, "memory", user, NULL, NULL), XFER_OK);
}

static xfer_ep_t *wait_question(Host *server) {
    return wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
}

static xfer_status_t wait_down(Host *server, xfer_ep_t *ep) {
    const xfer_event_t down = wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_ptr_equal(down.ep, ep);
    return down.status;
}

static xfer_status_t ended(Host *host, uint32_t kind, uint64_t user) {
    const xfer_event_t event = wait_event(host, kind, user, kPatience);
    if (event.status != XFER_OK) assert_int_equal(event.flags, XFER_FENCED);
    return event.status;
}

/* The question says who asks; nothing is served before the verdict. */
static void test_let_in(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    xfer_ep_t *there = open_ep(client, server->uri);
    begin_lookup(there, 1);
    xfer_ep_t *ep = wait_question(server);
    xfer_peer_info_t info;
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_int_equal(info.id.bytes[15], 0x31);
    assert_int_equal(info.state, XFER_EP_IDLE);
    assert_int_equal(info.blob_length, 8);
    assert_memory_equal(info.blob, "worker 7", 8);
    assert_true(strlen(info.address) > 0);
    pass_ms(50);
    assert_int_equal(count_events(client, XFER_EVENT_LOOKUP, ANY_USER), 0);
    assert_int_equal(count_events(client, XFER_EVENT_PEER_UP, ANY_USER), 0);
    assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER), 0);
    assert_int_equal(host_stats(server).connections, 0);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience).ep, ep);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK); /* it is in */
    const xfer_ref_t ref = look_up(client, there, "memory");
    uint8_t byte = 7;
    assert_status(put_now(client, there, &byte, &ref, 0, 1), XFER_OK);
    assert_int_equal(lent[0], 7);
    host_end(client);
    assert_true(wait_down(server, ep) != XFER_OK);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 1);
}

/* All that waits there hears it at once, and who comes again is asked about again. */
static void test_turned_away(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    xfer_ep_t *there = open_ep(client, server->uri);
    for (uint64_t round = 1; round <= 3; round++) {
        begin_lookup(there, round);
        assert_status(xfer_ep_connect(there, 10 + round, NULL), XFER_OK);
        assert_status(xfer_notify(there, "x", 1, 5, 20 + round, NULL), XFER_OK);
        xfer_ep_t *ep = wait_question(server);
        assert_status(xfer_ep_admit(ep, XFER_EACCESS), XFER_OK);
        assert_status(wait_down(server, ep), XFER_EACCESS);
        assert_status(ended(client, XFER_EVENT_LOOKUP, round), XFER_EACCESS);
        assert_status(ended(client, XFER_EVENT_CONNECT, 10 + round), XFER_EACCESS);
        assert_status(ended(client, XFER_EVENT_NOTIFIED, 20 + round), XFER_EACCESS);
    }
    assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER), 0);
    assert_int_equal(count_events(server, XFER_EVENT_NOTIFY, ANY_USER), 0);
    begin_lookup(there, 4);
    assert_status(xfer_ep_admit(wait_question(server), XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 4), XFER_OK);
}

/* It comes again by itself, and what waits there waits on. */
static void test_later(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    xfer_ep_t *there = open_ep(client, server->uri);
    begin_lookup(there, 1);
    for (int round = 0; round < 3; round++) {
        xfer_ep_t *ep = wait_question(server);
        assert_status(xfer_ep_admit(ep, XFER_EOVERLOAD), XFER_OK);
        assert_status(wait_down(server, ep), XFER_EOVERLOAD);
    }
    assert_status(xfer_ep_admit(wait_question(server), XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
}

/* The peer hears that nobody decided, also if it has the same patience for an attempt. */
static void test_no_verdict(void **state) {
    Host *server = open_asking(*state, 0, 1500);
    xfer_engine_options_t options = host_options(*state);
    options.connect_ms = 1500;
    Host *client = host_open_with(*state, &options);
    assert_status(connect_now(client, open_ep(client, server->uri), XFER_NONE), XFER_ETIMEDOUT);
    xfer_ep_t *ep = wait_question(server);
    assert_status(wait_down(server, ep), XFER_ETIMEDOUT);
    assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER), 0);
}

/* Who asks may go before the verdict, which then is about nobody. */
static void test_gone_before(void **state) {
    Host *server = open_asking(*state, XFER_ENGINE_OWN_PEERS, 0), *client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 1);
    xfer_ep_t *ep = wait_question(server);
    host_end(client);
    assert_true(wait_down(server, ep) != XFER_OK);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
    assert_status(xfer_ep_admit(ep, XFER_EACCESS), XFER_OK);
    pass_ms(30);
    assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER), 0);
    /* Its next life is another question. */
    client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 2);
    xfer_ep_t *next = wait_question(server);
    assert_ptr_not_equal(next, ep);
    assert_status(xfer_ep_admit(next, XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 2), XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);
    assert_status(xfer_ep_close(next), XFER_OK);
    wait_closed(server, ep);
    wait_closed(server, next);
}

/* A verdict holds for an incarnation until PEER_DOWN: an idle end is none. */
static void test_idle_is_not_asked(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.idle_ms = 100;
    Host *client = host_open_with(*state, &options);
    options.flags = XFER_ENGINE_ASK;
    options.idle_ms = 60000;
    Host *server = host_open_with(*state, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    host_listen(client, "tcp://127.0.0.1:0"); /* else it can't be called back, and never idles */
    lent = test_memory(kBytes);
    open_region(server, "memory", XFER_READ, lent, kBytes);
    xfer_ep_t *there = open_ep(client, server->uri);
    begin_lookup(there, 1);
    assert_status(xfer_ep_admit(wait_question(server), XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
    for (uint64_t round = 2; round < 5; round++) {
        for (uint64_t end = now_ms() + kPatience; host_stats(server).connections > 0; turn(1))
            assert_true(now_ms() < end);
        begin_lookup(there, round);
        assert_status(ended(client, XFER_EVENT_LOOKUP, round), XFER_OK);
    }
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 1);
    assert_int_equal(count_events(server, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
}

/* Whom the application dials itself it has let in: two that ask, and dial each other at once. */
static void test_dialed(void **state) {
    for (int round = 0; round < 10; round++) {
        Host *a = open_asking(*state, 0, 0), *b = open_asking(*state, 0, 0);
        xfer_ep_t *to_b = open_ep(a, b->uri), *to_a = open_ep(b, a->uri);
        begin_lookup(to_b, 1);
        begin_lookup(to_a, 2);
        assert_status(ended(a, XFER_EVENT_LOOKUP, 1), XFER_OK);
        assert_status(ended(b, XFER_EVENT_LOOKUP, 2), XFER_OK);
        host_end(a);
        host_end(b);
    }
}

/* A question that is open is answered by an endpoint that is opened for that peer. */
static void test_opened_meanwhile(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 1);
    xfer_ep_t *ep = wait_question(server);
    xfer_id_t id = {{0}, 0};
    memset(id.bytes, 0x31, sizeof id.bytes);
    xfer_ep_options_t options = {.size = sizeof options, .peer = &id, .user = 9};
    xfer_ep_t *own;
    assert_status(xfer_ep_open(server->engine, NULL, &options, &own, NULL), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
    wait_event(server, XFER_EVENT_PEER_UP, 9, kPatience);
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience).ep, ep);
}

/* One that is up can be turned away as well, with and without the flag. */
static void test_turned_away_later(void **state) {
    for (int asks = 0; asks < 2; asks++) {
        Host *server = open_asking(*state, 0, 0);
        if (!asks) {
            host_end(server);
            server = host_open(*state);
            host_listen(server, "tcp://127.0.0.1:0");
        }
        Host *client = open_member(*state);
        xfer_ep_t *there = open_ep(client, server->uri);
        assert_status(xfer_ep_connect(there, 1, NULL), XFER_OK);
        xfer_ep_t *ep = wait_question(server);
        if (asks) assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
        wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
        assert_status(ended(client, XFER_EVENT_CONNECT, 1), XFER_OK);
        assert_status(xfer_ep_keep(ep, 5),
                      XFER_OK); /* its peer stays known, and no verdict with it */
        assert_status(xfer_ep_admit(ep, XFER_EACCESS), XFER_OK);
        assert_status(wait_down(server, ep), XFER_EACCESS);
        const xfer_event_t down = wait_event(client, XFER_EVENT_PEER_DOWN, 0, kPatience);
        assert_status(down.status, XFER_EACCESS);
        assert_int_equal(down.origin, XFER_ORIGIN_PEER);
        if (!asks) continue;
        assert_status(xfer_ep_connect(there, 2, NULL), XFER_OK);
        assert_status(xfer_ep_admit(wait_question(server), XFER_EACCESS), XFER_OK);
        assert_status(ended(client, XFER_EVENT_CONNECT, 2), XFER_EACCESS);
        assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER), 1);
    }
}

/* Those that wait take no place of members; who is let in and finds none comes again. */
static void test_no_slot(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_ASK;
    options.max_connections = 1;
    Host *server = host_open_with(*state, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    lent = test_memory(kBytes);
    open_region(server, "memory", XFER_READ, lent, kBytes);
    Host *clients[4];
    xfer_ep_t *questions[4];
    for (int i = 0; i < 4; i++) {
        clients[i] = host_open(*state);
        begin_lookup(open_ep(clients[i], server->uri), 1);
        questions[i] = wait_question(server);
    }
    assert_status(xfer_ep_admit(questions[2], XFER_OK), XFER_OK);
    assert_status(ended(clients[2], XFER_EVENT_LOOKUP, 1), XFER_OK);
    assert_int_equal(host_stats(server).connections, 1);
    assert_status(xfer_ep_admit(questions[0], XFER_OK), XFER_OK);
    assert_status(wait_down(server, questions[0]), XFER_EOVERLOAD);
}

/* A peer that was restarted is another incarnation, and its earlier life's verdict is not its. */
static void test_restarted(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 1);
    xfer_ep_t *ep = wait_question(server);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
    host_end(client);
    assert_true(wait_down(server, ep) != XFER_OK);
    client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 2);
    ep = wait_question(server);
    pass_ms(30);
    assert_int_equal(count_events(client, XFER_EVENT_LOOKUP, ANY_USER), 0);
    assert_status(xfer_ep_admit(ep, XFER_EACCESS), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 2), XFER_EACCESS);
    assert_status(wait_down(server, ep), XFER_EACCESS);
}

/* An own handle that is closed without a word is a word. */
static void test_own_closed(void **state) {
    Host *server = open_asking(*state, XFER_ENGINE_OWN_PEERS, 0), *client = open_member(*state);
    begin_lookup(open_ep(client, server->uri), 1);
    xfer_ep_t *ep = wait_question(server);
    assert_status(xfer_ep_close(ep), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_EACCESS);
    wait_closed(server, ep);
}

/* One that is kept while its peer waits is for good, whatever the verdict. */
static void test_kept(void **state) {
    Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
    xfer_ep_t *there = open_ep(client, server->uri);
    begin_lookup(there, 1);
    xfer_ep_t *kept = wait_question(server);
    assert_status(xfer_ep_keep(kept, 77), XFER_OK);
    assert_status(xfer_ep_probe(kept, 8, NULL), XFER_OK); /* it waits for the peer to come in */
    assert_status(xfer_ep_admit(kept, XFER_EACCESS), XFER_OK);
    assert_status(wait_down(server, kept), XFER_EACCESS);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_EACCESS);
    begin_lookup(there, 2);
    xfer_ep_t *ep = wait_question(server);
    assert_ptr_not_equal(ep, kept);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, 77, kPatience).ep, kept);
    assert_status(ended(server, XFER_EVENT_PROBE, 8), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 2), XFER_OK);
    assert_status(xfer_ep_close(kept), XFER_OK);
    wait_closed(server, kept);
}

static void let_in_at_once(Host *host, const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_PEER && xfer_ep_admit(event->ep, XFER_OK) != XFER_OK)
        snprintf(host->broken, sizeof host->broken, "a verdict in the callback");
}

static void test_in_the_callback(void **state) {
    Host *server = open_asking(*state, 0, 0);
    server->hook = let_in_at_once;
    for (uint64_t life = 1; life <= 5; life++) {
        Host *client = open_member(*state);
        begin_lookup(open_ep(client, server->uri), life);
        assert_status(ended(client, XFER_EVENT_LOOKUP, life), XFER_OK);
        host_end(client);
    }
}

/* The end of the engine, and its drain, end questions too. */
static void test_engine_ends(void **state) {
    for (int drains = 0; drains < 2; drains++) {
        Host *server = open_asking(*state, 0, 0), *client = open_member(*state);
        begin_lookup(open_ep(client, server->uri), 1);
        xfer_ep_t *ep = wait_question(server);
        if (drains) {
            assert_status(xfer_engine_drain(server->engine, 3, NULL), XFER_OK);
            assert_status(wait_down(server, ep), XFER_ECLOSED);
            assert_status(wait_event(server, XFER_EVENT_DRAINED, 3, kPatience).status, XFER_OK);
        }
        host_end(server);
        host_end(client);
    }
}

/* Those that wait have a bound, and past it they come again. */
static void test_bound(void **state) {
    struct rlimit before, few = {64, 0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0); /* what it counts by, at its open */
    Host *server = open_asking(*state, 0, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    enum { kPlaces = 16, kMore = 4 };
    xfer_ep_t *questions[kPlaces];
    Host *clients[kPlaces + kMore];
    for (int i = 0; i < kPlaces + kMore; i++) {
        clients[i] = host_open(THREAD_MODE);
        begin_lookup(open_ep(clients[i], server->uri), 1);
        if (i < kPlaces) questions[i] = wait_question(server);
    }
    pass_ms(50);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), kPlaces);
    for (int i = 0; i < kPlaces; i++)
        assert_status(xfer_ep_admit(questions[i], i % 2 ? XFER_OK : XFER_EACCESS), XFER_OK);
    for (int i = 0; i < kMore; i++)
        assert_status(xfer_ep_admit(wait_question(server), XFER_OK), XFER_OK);
    for (int i = 0; i < kPlaces + kMore; i++)
        assert_status(ended(clients[i], XFER_EVENT_LOOKUP, 1),
                      i % 2 || i >= kPlaces ? XFER_OK : XFER_EACCESS);
}

static void test_wrong(void **state) {
    Host *server = open_asking(*state, XFER_ENGINE_OWN_PEERS, 0), *client = open_member(*state);
    xfer_ep_t *there = open_ep(client, server->uri);
    begin_lookup(there, 1);
    xfer_ep_t *ep = wait_question(server);
    assert_status(xfer_ep_admit(there, XFER_OK), XFER_EINVAL);
    assert_status(xfer_ep_admit(ep, XFER_EINVAL), XFER_EINVAL);
    assert_status(xfer_ep_admit(ep, 1), XFER_EINVAL);
    assert_status(xfer_ep_admit(ep, XFER_EAUTH), XFER_EINVAL);
    assert_status(xfer_ep_admit(NULL, XFER_OK), XFER_EBADHANDLE);
    assert_status(xfer_ep_admit(ep, XFER_OK), XFER_OK);
    assert_status(ended(client, XFER_EVENT_LOOKUP, 1), XFER_OK);
    hold_events(server);
    const xfer_status_t closed = xfer_ep_close(ep);
    const xfer_status_t late = xfer_ep_admit(ep, XFER_EACCESS);
    release_events(server);
    assert_status(closed, XFER_OK);
    assert_status(late, XFER_ECLOSED);
    wait_closed(server, ep);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_let_in),
    EACH_MODE(test_turned_away),
    EACH_DISPATCH(test_later),
    EACH_DISPATCH(test_no_verdict),
    EACH_MODE(test_gone_before),
    EACH_DISPATCH(test_idle_is_not_asked),
    EACH_MODE(test_dialed),
    EACH_MODE(test_opened_meanwhile),
    EACH_MODE(test_turned_away_later),
    EACH_DISPATCH(test_no_slot),
    EACH_MODE(test_restarted),
    EACH_MODE(test_own_closed),
    EACH_MODE(test_kept),
    EACH_MODE(test_in_the_callback),
    EACH_MODE(test_engine_ends),
    EACH_DISPATCH(test_bound),
    EACH_DISPATCH(test_wrong),
};

TEST_MAIN(tests)
