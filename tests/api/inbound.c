/* SPDX-License-Identifier: Apache-2.0
 *
 * The handle of a PEER event where events are polled, and its peer comes and goes between two
 * polls: it lives until the poll behind the one that brought PEER_DOWN, and can be kept until
 * then. */
#include <string.h>

#include "fixture.h"

enum { kRoom = 16 };

static xfer_engine_t *server;
static char uri[256];
static xfer_event_t events[kRoom];
static uint32_t count;

static void open_server(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    xfer_error_t err;
    assert_status(xfer_engine_open(&options, &server, &err), XFER_OK);
    assert_status(xfer_engine_listen(server, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &err),
                  XFER_OK);
}

static xfer_engine_stats_t stats(void) {
    xfer_engine_stats_t now;
    assert_status(xfer_engine_stats(server, &now, sizeof now), XFER_OK);
    return now;
}

/* PEER, PEER_UP, NOTIFY and PEER_DOWN wait to be polled when this returns, `queued` events in all.
 */
static void come_and_go(uint64_t queued) {
    Host *client = host_open(THREAD_MODE);
    xfer_ep_t *ep = open_ep(client, uri);
    assert_status(xfer_notify(ep, NULL, 0, 5, 1, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_NOTIFIED, 1, kPatience).status, XFER_OK);
    host_end(client);
    uint64_t end = now_ms() + kPatience;
    while (stats().events_queued < queued) {
        if (now_ms() >= end) fail_msg("the peer's end is not told");
        turn(1);
    }
}

static void poll_once(void) {
    assert_status(xfer_engine_poll(server, events, sizeof events[0], kRoom, 0, &count), XFER_OK);
}

/* The loops have had turns of their own. */
static void let_loops_turn(void) {
    static char text[1 << 16];
    uint64_t needed;
    for (int i = 0; i < 50; i++)
        assert_status(xfer_engine_describe(server, text, sizeof text, &needed), XFER_OK);
}

static xfer_ep_t *assert_all_live(void) {
    xfer_peer_info_t info;
    assert_int_equal(count, 4);
    assert_int_equal(events[0].kind, XFER_EVENT_PEER);
    assert_int_equal(events[3].kind, XFER_EVENT_PEER_DOWN);
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(events[i].ep, events[0].ep);
        assert_status(xfer_ep_peer(events[i].ep, &info, sizeof info), XFER_OK);
        assert_int_equal(info.state, XFER_EP_IDLE);
    }
    return events[0].ep;
}

static void test_lives_until_the_next_poll(void **state) {
    open_server(*state);
    for (int round = 0; round < 20; round++) {
        come_and_go(4);
        poll_once();
        let_loops_turn();
        assert_all_live();
        poll_once();
        assert_int_equal(count, 0);
    }
    assert_status(xfer_engine_join(server, XFER_NONE), XFER_OK);
}

static void test_kept_after_its_end(void **state) {
    open_server(*state);
    for (int round = 0; round < 20; round++) {
        come_and_go(4);
        poll_once();
        let_loops_turn();
        xfer_ep_t *ep = assert_all_live();
        assert_status(xfer_ep_keep(ep, 77), XFER_OK);
        assert_status(xfer_ep_keep(ep, 77), XFER_EINVAL);
        poll_once();
        let_loops_turn();
        uint32_t is = 0;
        assert_status(xfer_ep_state(ep, &is), XFER_OK);
        assert_int_equal(is, XFER_EP_IDLE);
        /* What is asked of it now waits for the peer. */
        assert_status(xfer_ep_probe(ep, 9, WITHIN(20)), XFER_OK);
        uint64_t end = now_ms() + kPatience;
        for (count = 0; count == 0 && now_ms() < end;)
            poll_once();
        assert_int_equal(count, 1);
        assert_int_equal(events[0].kind, XFER_EVENT_PROBE);
        assert_status(events[0].status, XFER_ETIMEDOUT);
        assert_status(xfer_ep_close(ep), XFER_OK);
        for (count = 0; count == 0 && now_ms() < end;)
            poll_once();
        assert_int_equal(count, 1);
        assert_int_equal(events[0].kind, XFER_EVENT_CLOSED);
        assert_ptr_equal(events[0].object, ep);
        assert_int_equal(events[0].user, 77);
    }
    assert_status(xfer_engine_join(server, XFER_NONE), XFER_OK);
}

/* Its word is also in what had happened, and was not told, when it was kept. */
static void test_kept_before_its_end_is_told(void **state) {
    open_server(*state);
    come_and_go(4);
    uint32_t taken = 0;
    xfer_ep_t *ep = NULL;
    for (uint64_t end = now_ms() + kPatience; taken < 4 && now_ms() < end;) {
        assert_status(xfer_engine_poll(server, events, sizeof events[0], 1, 0, &count), XFER_OK);
        if (count == 0) continue;
        if (taken++ == 0)
            assert_true(events[0].user >> 63);
        else
            assert_int_equal(events[0].user, 77);
        if (taken > 1) continue;
        ep = events[0].ep;
        assert_int_equal(events[0].kind, XFER_EVENT_PEER);
        assert_status(xfer_ep_keep(ep, 77), XFER_OK);
    }
    assert_int_equal(taken, 4);
    assert_int_equal(events[0].kind, XFER_EVENT_PEER_DOWN);
    assert_status(xfer_ep_close(ep), XFER_OK);
    assert_status(xfer_engine_join(server, XFER_NONE), XFER_OK);
}

/* Two that have gone: each end is the last event of its poll. */
static void test_two(void **state) {
    open_server(*state);
    come_and_go(4);
    come_and_go(8);
    int down = 0;
    for (int polls = 0; polls < 2; polls++) {
        poll_once();
        let_loops_turn();
        xfer_ep_t *ep = assert_all_live();
        down += events[3].kind == XFER_EVENT_PEER_DOWN;
        assert_status(xfer_ep_keep(ep, 77), XFER_OK);
    }
    assert_int_equal(down, 2);
    assert_status(xfer_engine_join(server, XFER_NONE), XFER_OK);
}

/* A peer that is there when the engine closes gets no PEER_DOWN: its handle lives until CLOSED. */
static void test_engine_closes(void **state) {
    open_server(*state);
    Host *client = host_open(THREAD_MODE);
    xfer_ep_t *ep = open_ep(client, uri), *theirs = NULL;
    assert_status(xfer_notify(ep, NULL, 0, 5, 1, NULL), XFER_OK);
    bool told = false, closed = false;
    for (uint64_t end = now_ms() + kPatience; !told && now_ms() < end;) {
        poll_once();
        for (uint32_t i = 0; i < count; i++) {
            if (events[i].kind == XFER_EVENT_PEER) theirs = events[i].ep;
            told |= events[i].kind == XFER_EVENT_NOTIFY;
        }
        turn(1);
    }
    assert_true(told && theirs != NULL);
    assert_status(xfer_engine_close(server), XFER_OK);
    for (uint64_t end = now_ms() + kPatience; !closed && now_ms() < end;) {
        let_loops_turn();
        poll_once();
        uint32_t is = 0;
        assert_status(xfer_ep_state(theirs, &is), XFER_OK);
        assert_status(xfer_ep_keep(theirs, 1), XFER_ECLOSED);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_not_equal(events[i].kind, XFER_EVENT_PEER_DOWN);
            closed |= events[i].kind == XFER_EVENT_CLOSED && events[i].object == (void *)server;
        }
    }
    assert_true(closed);
    assert_status(xfer_engine_join(server, XFER_NONE), XFER_OK);
    host_end(client);
}

static const struct CMUnitTest tests[] = {
    MODE_TEST(test_lives_until_the_next_poll, 7, "poll/1"),
    MODE_TEST(test_lives_until_the_next_poll, 8, "poll/2"),
    MODE_TEST(test_kept_after_its_end, 7, "poll/1"),
    MODE_TEST(test_kept_after_its_end, 8, "poll/2"),
    MODE_TEST(test_kept_before_its_end_is_told, 7, "poll/1"),
    MODE_TEST(test_two, 7, "poll/1"),
    MODE_TEST(test_engine_closes, 6, "poll/none"),
    MODE_TEST(test_engine_closes, 7, "poll/1"),
    MODE_TEST(test_engine_closes, 8, "poll/2"),
};

TEST_MAIN(tests)
