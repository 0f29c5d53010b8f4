/* SPDX-License-Identifier: Apache-2.0
 *
 * What the event of an operation may say, as its function lists it: the word of each is 1. */
#include <string.h>

#include "returns.h"

xfer_status_t ended(Scene *scene, uint32_t kind) {
    return wait_event(scene->host, kind, 1, kPatience).status;
}

/* An endpoint of our own engine. */
static xfer_ep_t *ourselves(Scene *s) {
    host_listen(s->host, "tcp://127.0.0.1:0");
    return open_ep(s->host, s->host->uri);
}

static xfer_status_t drained_late(Scene *s) {
    assert_status(xfer_put(s->ep, s->local, &s->ref, 0, 8, 2, NULL), XFER_OK);
    assert_status(xfer_engine_drain(s->engine, 1, WITHIN(20)), XFER_OK);
    return ended(s, XFER_EVENT_DRAINED);
}
static xfer_status_t drained_closed(Scene *s) {
    assert_status(xfer_put(s->ep, s->local, &s->ref, 0, 8, 2, NULL), XFER_OK);
    assert_status(xfer_engine_drain(s->engine, 1, WITHIN(kPatience)), XFER_OK);
    assert_status(xfer_engine_close(s->engine), XFER_OK);
    return ended(s, XFER_EVENT_DRAINED);
}

static xfer_ref_t granted(Scene *s, uint32_t lease_ms) {
    xfer_grant_options_t options = {
        .size = sizeof options, .access = XFER_READ, .length = 8, .lease_ms = lease_ms, .user = 1};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(s->region, &options, &ref, NULL), XFER_OK);
    return ref;
}
static xfer_status_t revoked(Scene *s) {
    xfer_ref_t ref = granted(s, 0);
    assert_status(xfer_region_revoke(s->region, &ref), XFER_OK);
    return ended(s, XFER_EVENT_REVOKED);
}
static xfer_status_t revoked_late(Scene *s) {
    granted(s, 1);
    return ended(s, XFER_EVENT_REVOKED);
}
static xfer_status_t revoked_closed(Scene *s) {
    granted(s, 0);
    assert_status(xfer_region_close(s->region), XFER_OK);
    return ended(s, XFER_EVENT_REVOKED);
}

static xfer_status_t no_such_name(Scene *s) {
    assert_status(xfer_ep_lookup(ourselves(s), "nothing", 1, NULL, NULL), XFER_OK);
    return ended(s, XFER_EVENT_LOOKUP);
}

static xfer_status_t sent(Scene *s) {
    assert_status(xfer_send(ourselves(s), s->local, 8, 1, 1, NULL), XFER_OK);
    return ended(s, XFER_EVENT_SEND);
}
/* The receive has its message, and is canceled before it has pulled all of it. When that is, is
 * tried. */
static xfer_status_t sent_to_canceled(Scene *s) {
    enum { kLong = 4 << 20, kTries = 400 };
    Host *client = host_open(s->host->mode);
    uint8_t *from = test_memory(kLong), *to = test_memory(kLong);
    host_listen(s->host, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(client, s->host->uri);
    xfer_status_t status = XFER_OK;
    for (uint64_t i = 2; status == XFER_OK && i < kTries; i++) {
        assert_status(xfer_recv(s->engine, NULL, to, kLong, i, UINT64_MAX, i, NULL), XFER_OK);
        assert_status(xfer_send(ep, from, kLong, i, i, NULL), XFER_OK);
        for (uint64_t spent = 0; spent < i % 16; spent++)
            usleep(50);
        assert_status(xfer_cancel(s->engine, NULL, i, UINT64_MAX), XFER_OK);
        /* One that had no message yet leaves it to the next. */
        wait_event(s->host, XFER_EVENT_RECV, i, kPatience);
        assert_status(xfer_recv(s->engine, NULL, to, kLong, i, UINT64_MAX, i, NULL), XFER_OK);
        status = wait_event(client, XFER_EVENT_SEND, i, kPatience).status;
        xfer_cancel(s->engine, NULL, i, UINT64_MAX);
        wait_event(s->host, XFER_EVENT_RECV, i, kPatience);
    }
    host_end(client);
    return status;
}
static xfer_status_t received_part(Scene *s) {
    assert_status(xfer_send(ourselves(s), s->local, 8, 1, 1, NULL), XFER_OK);
    assert_status(xfer_recv(s->engine, NULL, s->local, 4, 1, UINT64_MAX, 1, NULL), XFER_OK);
    return ended(s, XFER_EVENT_RECV);
}

static void count(Scene *s, uint32_t timeout_ms) {
    xfer_counter_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms, .user = 1};
    xfer_counter_t *counter;
    assert_status(xfer_counter_open(s->engine, kKey + 1, 1, &options, &counter, NULL), XFER_OK);
}
static xfer_status_t counted(Scene *s) {
    count(s, 0);
    assert_status(xfer_notify(ourselves(s), NULL, 0, kKey + 1, 2, NULL), XFER_OK);
    return ended(s, XFER_EVENT_COUNTER);
}
static xfer_status_t counted_late(Scene *s) {
    count(s, 1);
    return ended(s, XFER_EVENT_COUNTER);
}
static xfer_status_t counted_closed(Scene *s) {
    count(s, 0);
    assert_status(xfer_engine_close(s->engine), XFER_OK);
    return ended(s, XFER_EVENT_COUNTER);
}

const End ends[] = {
    {XFER_EVENT_DRAINED, XFER_ETIMEDOUT, drained_late, NULL},
    {XFER_EVENT_DRAINED, XFER_ECANCELED, drained_closed, NULL},
    {XFER_EVENT_REVOKED, XFER_OK, revoked, NULL},
    {XFER_EVENT_REVOKED, XFER_ETIMEDOUT, revoked_late, NULL},
    {XFER_EVENT_REVOKED, XFER_ECLOSED, revoked_closed, NULL},
    {XFER_EVENT_LOOKUP, XFER_ENOTFOUND, no_such_name, NULL},
    END_ELSEWHERE(XFER_EVENT_LOOKUP, XFER_EVERSION, "hostile/later.py"),
    END_ELSEWHERE(XFER_EVENT_LOOKUP, XFER_EOVERLOAD, "api/bounds.c"),
    END_ELSEWHERE(XFER_EVENT_BATCH, XFER_ECANCELED, "api/device_stream_end.c"),
    END_ELSEWHERE(XFER_EVENT_BATCH, XFER_ECLOSED, "api/device_stream_end.c"),
    {XFER_EVENT_SEND, XFER_OK, sent, NULL},
    {XFER_EVENT_SEND, XFER_ECANCELED, sent_to_canceled, NULL},
    {XFER_EVENT_RECV, XFER_ETRUNC, received_part, NULL},
    END_ELSEWHERE(XFER_EVENT_RECV, XFER_EPEERLOST, "sim/message_test.cc"),
    {XFER_EVENT_COUNTER, XFER_OK, counted, NULL},
    {XFER_EVENT_COUNTER, XFER_ETIMEDOUT, counted_late, NULL},
    {XFER_EVENT_COUNTER, XFER_ECANCELED, counted_closed, NULL},
};
const size_t end_count = sizeof ends / sizeof ends[0];
