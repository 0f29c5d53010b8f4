/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers that die in the middle, and come back: under the same identity, under another, or not dead
 * at all. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

enum { kId = 7, kPuts = 8, kHeartbeat = 1500 };
static const uint64_t kLength = 24 << 20;

typedef struct Survivor {
    Host *host;
    Peer peer;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint8_t *local;
    xfer_batch_t *prepared;
} Survivor;

static void open_survivor(Survivor *survivor, const Mode *mode, uint32_t heartbeat_ms) {
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = heartbeat_ms;
    *survivor = (Survivor){.local = test_memory(kLength)};
    peer_start(&survivor->peer, own_address(), kLength, kId);
    survivor->host = host_open_with(mode, &options);
    survivor->ep = open_ep(survivor->host, survivor->peer.uri);
    survivor->ref = look_up(survivor->host, survivor->ep, "memory");
    assert_status(xfer_batch_open(survivor->ep, NULL, &survivor->prepared, NULL), XFER_OK);
    for (uint64_t i = 0; i < 64; i++) {
        assert_status(xfer_batch_put(survivor->prepared, survivor->local + i * 4096, &survivor->ref,
                                     i * 4096, 4096),
                      XFER_OK);
    }
    assert_status(submit_now(survivor->host, survivor->prepared), XFER_OK);
    xfer_event_t up = wait_event(survivor->host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), 0);
}

static void restart(Survivor *survivor, int id) {
    char uri[256];
    strcpy(uri, survivor->peer.uri);
    peer_start(&survivor->peer, uri, kLength, id);
}

static void assert_prepared_works(Survivor *survivor, const xfer_ref_t *ref) {
    uint8_t *back = test_memory(64 * 4096);
    fill(survivor->local, 64 * 4096, 31);
    assert_status(submit_now(survivor->host, survivor->prepared), XFER_OK);
    assert_status(get_now(survivor->host, survivor->ep, back, ref, 0, 64 * 4096), XFER_OK);
    assert_true(filled(back, 64 * 4096, 31, 0));
}

static void test_killed_and_restarted(void **state) {
    Survivor survivor;
    open_survivor(&survivor, *state, 0);
    for (uint64_t i = 0; i < kPuts; i++) {
        /* It reads no more, so that one of them is under way however late we are. */
        if (i == 1) {
            assert_status(wait_event(survivor.host, XFER_EVENT_PUT, 0, kPatience).status, XFER_OK);
            peer_signal(&survivor.peer, SIGSTOP);
        }
        assert_status(xfer_put(survivor.ep, survivor.local, &survivor.ref, 0, kLength, i, NULL),
                      XFER_OK);
    }
    const uint64_t end = now_ms() + kPatience;
    while (host_stats(survivor.host).inflight == 0) {
        assert_true(now_ms() < end);
        turn(1);
    }
    pass_ms(20);
    peer_kill(&survivor.peer);
    xfer_event_t down = wait_event(survivor.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_ptr_equal(down.ep, survivor.ep);
    assert_true(down.status != XFER_OK);
    restart(&survivor, kId);
    /* What was sent is lost; what was not waits for the next connection, where its ref is stale. */
    int lost = 0;
    for (uint64_t i = 1; i < kPuts; i++) {
        xfer_event_t event = wait_event(survivor.host, XFER_EVENT_PUT, i, kPatience);
        assert_completion(&event);
        if (event.status == XFER_EPEERLOST) {
            assert_true((event.flags & XFER_MAYBE_APPLIED) != 0);
            assert_int_equal(event.origin, down.origin);
            assert_int_equal(event.native_code, down.native_code);
            assert_true(event.origin != XFER_ORIGIN_PEER && event.native_code != ETIMEDOUT);
            lost++;
        } else if (event.status != XFER_OK) {
            assert_status(event.status, XFER_ESTALE);
        }
    }
    assert_true(lost > 0);
    assert_status(put_now(survivor.host, survivor.ep, survivor.local, &survivor.ref, 0, 64),
                  XFER_ESTALE);
    xfer_event_t up = wait_event(survivor.host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RESTARTED);
    xfer_id_t id;
    memcpy(&id, up.data, sizeof id);
    assert_int_equal(id.bytes[0], kId);
    assert_status(submit_now(survivor.host, survivor.prepared), XFER_ESTALE);

    /* The survivor's handles live on: the name is found anew, the batch is filled anew. */
    xfer_ref_t ref = look_up(survivor.host, survivor.ep, "memory");
    assert_status(xfer_batch_reset(survivor.prepared), XFER_OK);
    for (uint64_t i = 0; i < 64; i++) {
        assert_status(
            xfer_batch_put(survivor.prepared, survivor.local + i * 4096, &ref, i * 4096, 4096),
            XFER_OK);
    }
    assert_prepared_works(&survivor, &ref);
    assert_status(put_now(survivor.host, survivor.ep, survivor.local, &survivor.ref, 0, 64),
                  XFER_ESTALE);
}

static void test_restarted_as_another(void **state) {
    Survivor survivor;
    open_survivor(&survivor, *state, 0);
    xfer_id_t expected = {.bytes = {kId}};
    xfer_ep_options_t options = {.size = sizeof options, .peer = &expected};
    xfer_ep_t *strict = NULL;
    assert_status(xfer_ep_open(survivor.host->engine, survivor.peer.uri, &options, &strict, NULL),
                  XFER_OK);
    assert_status(connect_now(survivor.host, strict, 5000), XFER_OK);
    peer_kill(&survivor.peer);
    wait_event(survivor.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    restart(&survivor, kId + 1);
    xfer_ref_t ref =
        look_up(survivor.host, survivor.ep, "memory"); /* this one did not say whom it wants */
    xfer_id_t told = {.bytes = {0}};
    while (told.bytes[0] != kId + 1) { /* the first is still that of the strict one */
        xfer_event_t up = wait_event(survivor.host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
        memcpy(&told, up.data, sizeof told);
        assert_ptr_equal(up.ep, told.bytes[0] == kId ? strict : survivor.ep);
        assert_int_equal(up.flags & XFER_RESTARTED, told.bytes[0] == kId ? 0 : XFER_RESTARTED);
    }
    assert_status(put_now(survivor.host, survivor.ep, survivor.local, &ref, 0, 64), XFER_OK);
    assert_status(put_now(survivor.host, survivor.ep, survivor.local, &survivor.ref, 0, 64),
                  XFER_ESTALE);
    assert_status(connect_now(survivor.host, strict, kPatience), XFER_EIDENTITY);
}

/* With a random id, as by default, whoever answers at the address after a restart is its successor.
 */
static void test_restarted_without_id(void **state) {
    Survivor survivor;
    open_survivor(&survivor, *state, 0);
    for (int round = 0; round < 2; round++) {
        peer_kill(&survivor.peer);
        xfer_event_t down = wait_event(survivor.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        assert_status(down.status, XFER_EPEERLOST);
        assert_true(down.origin != XFER_ORIGIN_PEER); /* no goodbye */
        assert_int_not_equal(down.native_code, ETIMEDOUT);
        restart(&survivor, 0);
        assert_status(put_now(survivor.host, survivor.ep, survivor.local, &survivor.ref, 0, 64),
                      XFER_ESTALE);
        xfer_event_t up = wait_event(survivor.host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
        assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RESTARTED);
        assert_status(submit_now(survivor.host, survivor.prepared), XFER_ESTALE);
    }
    xfer_ref_t ref = look_up(survivor.host, survivor.ep, "memory");
    assert_status(xfer_batch_rebind(survivor.prepared, &survivor.ref, &ref, NULL), XFER_OK);
    assert_prepared_works(&survivor, &ref);
}

/* One that closes its engine says goodbye, also to what is under way. */
static bool goodbye_amid_a_batch(const Mode *mode) {
    enum { kTimes = 64 };
    Pair pair;
    pair_open(&pair, mode, kLength);
    uint8_t *local = test_memory(kLength);
    xfer_batch_t *batch;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    for (int i = 0; i < kTimes; i++)
        assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kLength), XFER_OK);
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (host_stats(pair.server).served_put == 0) {
        assert_true(now_ms() < end);
        turn(1);
    }
    host_end(pair.server);
    xfer_event_t down = wait_event(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_int_equal(down.origin, XFER_ORIGIN_PEER);
    assert_int_equal(down.native_code, down.status);
    xfer_status_t canceled = xfer_batch_cancel(batch);
    assert_true(canceled == XFER_OK || canceled == XFER_EINVAL); /* it has ended */
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_completion(&event);
    if (canceled == XFER_OK && event.status == XFER_ECANCELED) return false;
    assert_status(event.status, XFER_EPEERLOST);
    assert_int_equal(event.origin, XFER_ORIGIN_PEER);
    assert_int_equal(event.native_code, down.native_code);
    return true;
}

/* If all that had left was answered before the goodbye, the rest would wait for the next engine. */
static void test_goodbye(void **state) {
    for (int round = 0; !goodbye_amid_a_batch(*state); round++)
        assert_true(round < 20);
}

/* Not dead, only cut off for a while: the same incarnation, so that refs and prepared batches go
 * on. */
static void test_cut_off(void **state) {
    Survivor survivor;
    open_survivor(&survivor, *state, kHeartbeat);
    peer_signal(&survivor.peer, SIGSTOP);
    wait_event(survivor.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    peer_signal(&survivor.peer, SIGCONT);
    assert_prepared_works(&survivor, &survivor.ref);
    xfer_event_t up = wait_event(survivor.host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RECONNECTED);
}

/* Two puts to a peer that reads nothing: more than the kernel takes, but no more than may be
 * unanswered. Of the second nothing has left when the connection ends, so that it goes with the
 * next one. */
static void test_not_sent_yet(void **state) {
    const uint64_t first = 7 << 20, second = 512 << 10;
    Survivor survivor;
    open_survivor(&survivor, *state, kHeartbeat);
    uint8_t *back = test_memory(second);
    fill(survivor.local, first + second, 5);
    peer_signal(&survivor.peer, SIGSTOP);
    assert_status(xfer_put(survivor.ep, survivor.local, &survivor.ref, 0, first, 1, NULL), XFER_OK);
    assert_status(
        xfer_put(survivor.ep, survivor.local + first, &survivor.ref, first, second, 2, NULL),
        XFER_OK);
    xfer_event_t event = wait_event(survivor.host, XFER_EVENT_PUT, 1, kPatience);
    assert_status(event.status, XFER_EPEERLOST);
    assert_true((event.flags & XFER_MAYBE_APPLIED) != 0);
    peer_signal(&survivor.peer, SIGCONT);
    event = wait_event(survivor.host, XFER_EVENT_PUT, 2, kPatience);
    assert_status(event.status, XFER_OK);
    assert_status(get_now(survivor.host, survivor.ep, back, &survivor.ref, first, second), XFER_OK);
    assert_memory_equal(back, survivor.local + first, second);
}

/* What is told by an endpoint, in its order: at most `room` of its events, how many there are. */
static size_t told_by(Host *host, const xfer_ep_t *ep, xfer_event_t *events, size_t room) {
    size_t count = 0;
    pthread_mutex_lock(&host->mutex);
    for (size_t i = 0; i < host->seen_count; i++) {
        const xfer_event_t *event = &host->seen[i].event;
        if (event->ep == ep && count++ < room) events[count - 1] = *event;
    }
    pthread_mutex_unlock(&host->mutex);
    return count;
}

/* A peer that is stopped is started anew by who thinks it dead, and comes before its earlier life
 * was missed: that ends first, with all that was under way, and is told of no more when it wakes.
 */
static void test_next_life_of_a_stopped_peer(void **state) {
    enum { kEvents = 16 };
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.id[0] = kId;
    Peer peer;
    peer_start(&peer, own_address(), kLength, kId);
    Host *host = host_open(mode);
    host_listen(host, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(host, peer.uri);
    assert_status(connect_now(host, ep, kPatience), XFER_OK);
    xfer_ref_t ref = look_up(host, ep, "memory");
    const size_t before = told_by(host, ep, NULL, 0);
    assert_int_equal(count_events(host, XFER_EVENT_PEER_UP, ANY_USER), 1);
    peer_signal(&peer, SIGSTOP);
    assert_status(xfer_put(ep, test_memory(kLength), &ref, 0, kLength, 1, NULL), XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (host_stats(host).inflight == 0) {
        assert_true(now_ms() < end);
        turn(1);
    }
    Host *heir = host_open_with(mode, &options);
    xfer_ep_t *back = open_ep(heir, host->uri);
    assert_int_equal(count_events(host, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    assert_status(connect_now(heir, back, kPatience), XFER_OK);
    wait_event(host, XFER_EVENT_PEER_UP, ANY_USER, kPatience); /* of the first life */
    wait_event(host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    peer_signal(&peer, SIGCONT);
    pass_ms(50);
    xfer_event_t events[kEvents];
    assert_int_equal(told_by(host, ep, events, kEvents), before + 3);
    const xfer_event_t *put = &events[before], *down = put + 1, *up = put + 2;
    assert_int_equal(put->kind, XFER_EVENT_PUT);
    assert_status(put->status, XFER_EPEERLOST);
    assert_completion(put);
    assert_int_equal(down->kind, XFER_EVENT_PEER_DOWN);
    assert_int_equal(down->origin, XFER_ORIGIN_OS);
    assert_int_equal(down->native_code, ETIMEDOUT);
    assert_int_equal(up->kind, XFER_EVENT_PEER_UP);
    assert_int_equal(up->flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RESTARTED);
    peer_kill(&peer);
}

static void assert_counts(Host *host, xfer_ep_t *ep, uint64_t queued, uint64_t inflight) {
    const uint64_t end = now_ms() + kPatience;
    for (;; turn(1)) {
        const xfer_engine_stats_t all = host_stats(host);
        xfer_ep_stats_t own;
        assert_status(xfer_ep_stats(ep, &own, sizeof own), XFER_OK);
        if (all.queued == queued && all.inflight == inflight && own.queued == queued &&
            own.inflight == inflight)
            return;
        if (now_ms() >= end)
            fail_msg("%llu are queued and %llu in flight, of the endpoint %llu and %llu",
                     (unsigned long long)all.queued, (unsigned long long)all.inflight,
                     (unsigned long long)own.queued, (unsigned long long)own.inflight);
    }
}

/* What is under way is not queued, and what waits for credit is: both are seen where the peer takes
 * nothing any more. */
static void test_counts_at_a_stopped_peer(void **state) {
    enum { kOps = 64, kMore = 5 }; /* what one lane carries at once */
    Peer peer;
    peer_start(&peer, own_address(), kLength, kId);
    xfer_engine_options_t patient = host_options(*state);
    patient.heartbeat_ms = 60000;
    Host *host = host_open_with(*state, &patient);
    xfer_ep_t *ep = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    assert_counts(host, ep, 0, 0);
    peer_signal(&peer, SIGSTOP);
    uint8_t *local = test_memory(8);
    assert_status(xfer_put(ep, local, &ref, 0, 8, 0, NULL), XFER_OK);
    assert_counts(host, ep, 0, 1);
    for (uint64_t i = 1; i < kOps + kMore; i++)
        assert_status(xfer_put(ep, local, &ref, 0, 8, i, NULL), XFER_OK);
    assert_counts(host, ep, kMore, kOps);
    peer_signal(&peer, SIGCONT);
    for (uint64_t i = 0; i < kOps + kMore; i++)
        assert_status(wait_event(host, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    assert_counts(host, ep, 0, 0);
    xfer_ep_t *away = open_ep(host, "tcp://127.0.0.1:1");
    assert_status(xfer_put(away, local, &ref, 0, 8, 1, NULL), XFER_OK);
    assert_counts(host, away, 1, 0);
    peer_kill(&peer);
}

/* Killed and restarted again and again, always found. */
static void test_many_restarts(void **state) {
    Survivor survivor;
    open_survivor(&survivor, *state, 0);
    /* A put of which no byte left before the death waits for the next connection: it needs an end
     * of its own where that comes later. */
    const xfer_op_options_t soon = {.size = sizeof soon, .timeout_ms = 1000};
    int rounds = quick() ? 3 : 8;
    for (int round = 0; round < rounds; round++) {
        xfer_put(survivor.ep, survivor.local, &survivor.ref, 0, kLength, 1,
                 round % 2 == 0 ? &soon : NULL);
        pass_ms((uint32_t)(round % 3));
        peer_kill(&survivor.peer);
        if (round % 2 == 0) wait_event(survivor.host, XFER_EVENT_PUT, 1, kPatience);
        restart(&survivor, kId);
        if (round % 2 == 1) wait_event(survivor.host, XFER_EVENT_PUT, 1, kPatience);
        survivor.ref = look_up(survivor.host, survivor.ep, "memory");
        assert_status(put_now(survivor.host, survivor.ep, survivor.local, &survivor.ref, 0, 64),
                      XFER_OK);
    }
    assert_int_equal(count_events(survivor.host, XFER_EVENT_PUT, 1), rounds);
}

/* ---- the initiator dies; the owner is told, and nothing lands after it was ---- */

/* The role: puts all of "memory" at the URI, for ever. */
static int push(const char *uri) {
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .id = {kId + 2}};
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_event_t event;
    uint32_t count = 0;
    xfer_ref_t ref;
    bool found = false;
    uint8_t *local = malloc(kLength);
    if (local == NULL || xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, uri, NULL, &ep, NULL) != XFER_OK ||
        xfer_ep_lookup(ep, "memory", 1, NULL, NULL) != XFER_OK) {
        return 3;
    }
    for (uint64_t round = 0;;) {
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        if (count == 0) continue;
        if (event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK) {
            memcpy(&ref, event.data, sizeof ref);
            found = true;
        } else if (event.kind != XFER_EVENT_PUT) {
            continue;
        }
        if (!found) return 5;
        fill(local, kLength, round++);
        if (xfer_put(ep, local, &ref, 0, kLength, 2, NULL) != XFER_OK) return 6;
    }
}

static void test_initiator_killed(void **state) {
    Host *owner = host_open(*state);
    host_listen(owner, "tcp://127.0.0.1:0");
    uint8_t *copy = test_memory(kLength);
    int rounds = quick() ? 2 : 5;
    for (int round = 0; round < rounds; round++) {
        Peer peer;
        uint8_t *memory = test_memory(kLength);
        xfer_region_t *region =
            open_region(owner, "memory", XFER_READ | XFER_WRITE, memory, kLength);
        peer_start_role(&peer, "push", owner->uri);
        xfer_event_t up = wait_event(owner, XFER_EVENT_PEER, ANY_USER, kPatience);
        uint64_t served = host_stats(owner).served_put;
        uint64_t end = now_ms() + kPatience;
        while (host_stats(owner).served_put == served) {
            assert_true(now_ms() < end);
            turn(1);
        }
        pass_ms((uint32_t)(3 * round));
        peer_kill(&peer);
        xfer_event_t down = wait_event(owner, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        assert_ptr_equal(down.ep, up.ep);
        memcpy(copy, memory, kLength);
        pass_ms(100);
        assert_memory_equal(copy, memory, kLength);
        assert_int_equal(host_stats(owner).connections, 0);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(owner, region);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_killed_and_restarted),
    EACH_DISPATCH(test_restarted_as_another),
    EACH_DISPATCH(test_restarted_without_id),
    EACH_DISPATCH(test_goodbye),
    EACH_MODE(test_cut_off),
    EACH_DISPATCH(test_not_sent_yet),
    EACH_MODE(test_next_life_of_a_stopped_peer),
    EACH_MODE(test_counts_at_a_stopped_peer),
    EACH_DISPATCH(test_many_restarts),
    EACH_MODE(test_initiator_killed),
};

TEST_MAIN_AFTER(tests, peer_role("push", push))
