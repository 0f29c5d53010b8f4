/* SPDX-License-Identifier: Apache-2.0
 *
 * Small puts and gets between neighbours, which the calling thread does by itself: whoever waits
 * for their events is woken, peers are served meanwhile, and the connection counts as used. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

enum { kLength = 4096, kUser = 1000 };

static const Mode kPolled = {"poll/none", XFER_DISPATCH_POLL, XFER_NONE};

static bool is_local(Host *host) {
    static char text[65536];
    uint64_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    return strstr(text, "\"control\": \"local\"") != NULL;
}

/* They share memory, and the client knows the region. */
static void meet(Pair *pair) {
    const uint64_t end = now_ms() + kPatience;
    uint8_t *out = test_memory(8);
    do {
        assert_true(now_ms() < end);
        assert_status(put_now(pair->client, pair->ep, out, &pair->ref, 0, 8), XFER_OK);
    } while (!is_local(pair->client));
    for (int i = 0; i < 5; i++) {
        pass_ms(2);
        assert_status(put_now(pair->client, pair->ep, out, &pair->ref, 0, 8), XFER_OK);
    }
}

static xfer_op_options_t quietly(void) {
    return (xfer_op_options_t){.size = sizeof(xfer_op_options_t), .flags = XFER_FLAG_QUIET};
}

/* ---- applied before the call returns ---- */

/* Without a thread beside it nothing keeps it from being done at once. */
static void test_applied_at_once(void **state) {
    const Mode *mode = *state;
    const bool alone = mode->dispatch == kPolled.dispatch && mode->io_threads == kPolled.io_threads;
    Pair pair;
    pair_open(&pair, *state, kLength);
    meet(&pair);
    const xfer_op_options_t quiet = quietly();
    uint8_t *out = test_memory(kLength), *back = test_memory(kLength);
    const xfer_op_stats_t before = host_stats(pair.client).put;
    const size_t told = count_events(pair.client, XFER_EVENT_PUT, ANY_USER);
    for (uint64_t i = 0; i < 100; i++) {
        const uint64_t at = i * 7, length = i * 31;
        fill(out, length, i);
        assert_status(xfer_put(pair.ep, out, &pair.ref, at, length, kUser + i, &quiet), XFER_OK);
        uint32_t idle = 0;
        assert_status(xfer_ep_flush(pair.ep, &idle, kUser + i, NULL), XFER_OK);
        if (alone) assert_int_equal(idle, 1);
        if (!idle)
            assert_status(wait_event(pair.client, XFER_EVENT_FLUSH, kUser + i, kPatience).status,
                          XFER_OK);
        assert_true(filled(pair.memory + at, length, i, 0));
        assert_status(xfer_get(pair.ep, back, &pair.ref, at, length, kUser + i, NULL), XFER_OK);
        const xfer_event_t event = wait_event(pair.client, XFER_EVENT_GET, kUser + i, kPatience);
        assert_completion(&event);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, length);
        assert_ptr_equal(event.ep, pair.ep);
        assert_null(event.data);
        assert_true(filled(back, length, i, 0));
    }
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), told);
    const xfer_op_stats_t after = host_stats(pair.client).put;
    assert_int_equal(after.submitted - before.submitted, 100);
    assert_int_equal(after.completed - before.completed, 100);
    assert_int_equal(after.bytes - before.bytes, 31 * 99 * 100 / 2);
    uint64_t timed = 0;
    for (size_t i = 0; i < 40; i++)
        timed += after.latency[i] - before.latency[i];
    assert_int_equal(timed, 100);
    if (alone) assert_int_equal(after.latency[0] - before.latency[0], 0);
}

/* A region that has ended is not written any more; what names it is told so. */
static void test_region_ended(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    meet(&pair);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    memset(pair.memory, 0, kLength);
    const uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const xfer_op_options_t quiet = quietly();
    assert_status(xfer_put(pair.ep, ones, &pair.ref, 0, 8, 1, &quiet), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_ESTALE);
    assert_status(put_now(pair.client, pair.ep, ones, &pair.ref, 8, 8), XFER_ESTALE);
    for (int i = 0; i < kLength; i++)
        assert_int_equal(pair.memory[i], 0);
}

/* ---- who waits for an event ---- */

/* A put of another thread, once the one that polls had time to fall asleep. */
static void *put_later(void *argument) {
    Pair *pair = argument;
    static const uint8_t word[8] = {0};
    const struct timespec soon = {.tv_nsec = 30 * 1000 * 1000};
    nanosleep(&soon, NULL);
    const xfer_status_t status = xfer_put(pair->ep, word, &pair->ref, 0, 8, kUser, NULL);
    return status == XFER_OK ? pair : NULL;
}

/* `spins`: the client never asks for its descriptor. */
static void open_polled(Pair *pair, bool spins) {
    xfer_engine_options_t server = host_options(THREAD_MODE), client = host_options(&kPolled);
    client.heartbeat_ms = 10 * kPatience; /* nothing else wakes it up */
    *pair = (Pair){.length = kLength, .memory = test_memory(kLength)};
    pair->server = host_open_with(THREAD_MODE, &server);
    host_listen(pair->server, "tcp://127.0.0.1:0");
    if (spins) setenv("XFER_TEST_SPIN", "1", 1);
    pair->client = host_open_with(&kPolled, &client);
    unsetenv("XFER_TEST_SPIN");
    pair->region =
        open_region(pair->server, "memory", XFER_READ | XFER_WRITE, pair->memory, kLength);
    pair->ep = open_ep(pair->client, pair->server->uri);
    pair->ref = look_up(pair->client, pair->ep, "memory");
    meet(pair);
}

static void test_wakes_a_poll(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, true);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, put_later, &pair), 0);
        xfer_event_t event = {0};
        uint32_t count = 0;
        const uint64_t end = now_ms() + kPatience / 2;
        while (event.user != kUser && now_ms() < end)
            assert_status(
                xfer_engine_poll(pair.client->engine, &event, sizeof event, 1, kPatience, &count),
                XFER_OK);
        void *put = NULL;
        assert_int_equal(pthread_join(thread, &put), 0);
        assert_non_null(put);
        assert_int_equal(event.user, kUser);
        pair.client->last_sequence = event.sequence;
        assert_true(now_ms() < end);
    }
}

static void test_descriptor_becomes_readable(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, false);
    int32_t fd = -1;
    assert_status(xfer_engine_fd(pair.client->engine, &fd), XFER_OK);
    for (int i = 0; i < 10; i++) {
        turn(0);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, put_later, &pair), 0);
        const uint64_t end = now_ms() + kPatience / 2;
        xfer_event_t event;
        bool told = false;
        while (!told && now_ms() < end) {
            struct pollfd readable = {.fd = fd, .events = POLLIN};
            assert_true(poll(&readable, 1, kPatience) >= 0);
            turn(0);
            told = take_event(pair.client, XFER_EVENT_PUT, kUser, &event);
        }
        void *put = NULL;
        assert_int_equal(pthread_join(thread, &put), 0);
        assert_non_null(put);
        assert_true(told && now_ms() < end);
    }
}

static xfer_event_t poll_one(Host *host, uint32_t timeout_ms, uint32_t *count) {
    xfer_event_t event = {0};
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, timeout_ms, count),
                  XFER_OK);
    if (*count) host->last_sequence = event.sequence;
    return event;
}

/* Also if it is asked for when the event is there already. */
static void test_descriptor_is_asked_for_later(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, true);
    uint64_t word = 0;
    uint32_t count = 0;
    do { /* until the loop has nothing to do */
        poll_one(pair.client, 5, &count);
    } while (count);
    assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, sizeof word, kUser, NULL), XFER_OK);
    int32_t fd = -1;
    assert_status(xfer_engine_fd(pair.client->engine, &fd), XFER_OK);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 1000), 1); /* a timer comes later */
    pair.client->fd = fd;
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, kUser, kPatience).status, XFER_OK);
}

/* A wake-up is for one poll, whatever that finds. */
static void test_woken_once(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, true);
    uint64_t word = 0;
    uint32_t count = 0;
    for (int i = 0; i < 40; i++) {
        assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, sizeof word, kUser, NULL), XFER_OK);
        assert_status(xfer_engine_wake(pair.client->engine), XFER_OK);
        poll_one(pair.client, 0, &count);
        assert_int_equal(count, 1);
        const uint64_t begun = now_ms();
        poll_one(pair.client, 3, &count);
        assert_int_equal(count, 0);
        assert_true(now_ms() - begun >= 2);
    }
}

/* What a call has left to the next poll leaves with it, though that finds an event at once. */
static void test_poll_sends(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, true);
    Host *other = host_open(THREAD_MODE);
    host_listen(other, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(pair.client, other->uri);
    assert_status(connect_now(pair.client, ep, kPatience), XFER_OK);
    uint64_t word = 0;
    for (uint64_t i = 0; i < 40; i++) {
        uint8_t *into = test_memory(8);
        assert_status(xfer_recv(other->engine, NULL, into, 8, i, 0, i, NULL), XFER_OK);
        assert_status(xfer_send(ep, &word, sizeof word, i, i, NULL), XFER_OK);
        assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, sizeof word, kUser, NULL), XFER_OK);
        uint32_t count = 0;
        poll_one(pair.client, 0, &count);
        const uint64_t end = now_ms() + kPatience / 2;
        xfer_event_t event;
        while (!take_event(other, XFER_EVENT_RECV, i, &event))
            assert_true(now_ms() < end);
        /* What is left of the two events. */
        do {
            poll_one(pair.client, 1, &count);
        } while (count);
    }
}

/* ---- room ---- */

typedef struct Crowd {
    Pair pair;
    _Atomic int rooms, stuck, rounds[2], threads;
} Crowd;

static void count_rooms(Host *host, const xfer_event_t *event) {
    Crowd *crowd = host->hook_data;
    if (event->kind == XFER_EVENT_ROOM) atomic_fetch_add(&crowd->rooms, 1);
}

static void wait_past(Crowd *crowd, _Atomic int *value, int past) {
    const uint64_t end = now_ms() + kPatience;
    while (atomic_load(value) <= past && !atomic_load(&crowd->stuck)) {
        if (now_ms() > end) atomic_store(&crowd->stuck, 1);
        sched_yield(); /* the other may need this core to go on */
    }
}

/* Two put at once, each once in a round; who is refused waits for ROOM, and nothing else happens.
 */
static void *submit_in_rounds(void *argument) {
    Crowd *crowd = argument;
    const int own = atomic_fetch_add(&crowd->threads, 1);
    static const uint8_t word[8] = {0};
    const int rounds = quick() ? 2000 : 20000;
    for (int i = 0; i < rounds && !atomic_load(&crowd->stuck); i++) {
        const int rooms = atomic_load(&crowd->rooms);
        const xfer_status_t status =
            xfer_put(crowd->pair.ep, word, &crowd->pair.ref, 0, 8, kUser, NULL);
        if (status == XFER_EAGAIN) wait_past(crowd, &crowd->rooms, rooms);
        atomic_fetch_add(&crowd->rounds[own], 1);
        wait_past(crowd, &crowd->rounds[!own], i);
    }
    return NULL;
}

static void test_room_is_told(void **state) {
    xfer_engine_options_t server = host_options(*state), client = server;
    client.max_operations = 1;
    static Crowd crowd; /* the hook may run on behind the test */
    crowd = (Crowd){.rooms = 0};
    pair_open_with(&crowd.pair, &server, &client, *state, kLength);
    meet(&crowd.pair);
    crowd.pair.client->hook_data = &crowd;
    atomic_store(&crowd.pair.client->hook, count_rooms);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_in_rounds, &crowd), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    atomic_store(&crowd.pair.client->hook, NULL);
    assert_int_equal(atomic_load(&crowd.stuck), 0);
}

/* Each poll finds an event; the peer's questions are answered all the same. */
static void test_peers_are_served(void **state) {
    (void)state;
    Pair pair;
    open_polled(&pair, true);
    uint64_t word = 0;
    xfer_ep_t *back = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_keep(back, 1), XFER_OK);
    for (uint64_t question = 1; question <= 20; question++) {
        assert_status(xfer_ep_probe(back, question, NULL), XFER_OK);
        const uint64_t end = now_ms() + kPatience / 2;
        xfer_event_t event, answer;
        while (!take_event(pair.server, XFER_EVENT_PROBE, question, &answer)) {
            uint32_t count = 0;
            assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, sizeof word, kUser, NULL),
                          XFER_OK);
            assert_status(xfer_engine_poll(pair.client->engine, &event, sizeof event, 1, 0, &count),
                          XFER_OK);
            assert_int_equal(count, 1);
            pair.client->last_sequence = event.sequence;
            assert_true(now_ms() < end);
        }
        assert_status(answer.status, XFER_OK);
    }
}

/* Also if it polls seldom: not each sixteenth of its polls serves them then. */
static void test_peers_are_served_by_seldom_polls(void **state) {
    (void)state;
    enum { kQuestions = 10 };
    Pair pair;
    open_polled(&pair, true);
    uint64_t word = 0;
    xfer_ep_t *back = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_keep(back, 1), XFER_OK);
    int soon = 0;
    for (uint64_t question = 1; question <= kQuestions; question++) {
        assert_status(xfer_ep_probe(back, question, NULL), XFER_OK);
        xfer_event_t answer;
        int polls = 0;
        const uint64_t end = now_ms() + kPatience / 2;
        while (!take_event(pair.server, XFER_EVENT_PROBE, question, &answer)) {
            uint32_t count = 0;
            assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, sizeof word, kUser, NULL),
                          XFER_OK);
            poll_one(pair.client, 0, &count);
            assert_int_equal(count, 1);
            assert_true(now_ms() < end);
            polls++;
            const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
            nanosleep(&pause, NULL);
        }
        /* The first may come just before a sixteenth poll. */
        soon += question > 1 && polls < 8;
    }
    /* The server's thread may get no turn for a while; most often where a sanitizer slows it. */
#ifdef __SANITIZE_THREAD__
    assert_true(soon > 0);
#else
    assert_true(soon > kQuestions / 2);
#endif
}

/* ---- submitted by callbacks ---- */

typedef struct Chain {
    Pair pair;
    _Atomic int ended;
} Chain;

enum { kLinks = 2000 };

static void submit_next(Host *host, const xfer_event_t *event) {
    Chain *chain = host->hook_data;
    if (event->kind != XFER_EVENT_PUT || event->user < kUser) return;
    static const uint8_t word[8] = {0};
    if (atomic_fetch_add(&chain->ended, 1) + 1 < kLinks)
        xfer_put(chain->pair.ep, word, &chain->pair.ref, 0, 8, event->user + 1, NULL);
}

static void test_from_a_callback(void **state) {
    Chain chain = {.ended = 0};
    pair_open(&chain.pair, *state, kLength);
    meet(&chain.pair);
    Host *client = chain.pair.client;
    client->hook_data = &chain;
    atomic_store(&client->hook, submit_next);
    uint64_t word = 0;
    assert_status(xfer_put(chain.pair.ep, &word, &chain.pair.ref, 0, 8, kUser, NULL), XFER_OK);
    wait_atomic(&chain.ended, kLinks, kPatience);
    atomic_store(&client->hook, NULL);
    assert_status(wait_event(client, XFER_EVENT_PUT, kUser + kLinks - 1, kPatience).status,
                  XFER_OK);
}

/* ---- the connection is of use ---- */

static void test_not_idle(void **state) {
    enum { kIdleMs = 150 };
    xfer_engine_options_t server = host_options(*state), client = server;
    client.idle_ms = kIdleMs;
    Pair pair = {.length = kLength, .memory = test_memory(kLength)};
    pair.server = host_open_with(*state, &server);
    pair.client = host_open_with(*state, &client);
    host_listen(pair.server, "tcp://127.0.0.1:0");
    host_listen(pair.client, "tcp://127.0.0.1:0");
    pair.region = open_region(pair.server, "memory", XFER_READ | XFER_WRITE, pair.memory, kLength);
    pair.ep = open_ep(pair.client, pair.server->uri);
    pair.ref = look_up(pair.client, pair.ep, "memory");
    meet(&pair);
    const xfer_op_options_t quiet = quietly();
    const uint64_t ends = host_stats(pair.client).connection_ends;
    uint64_t word = 0, longest = 0, last = now_ms();
    for (const uint64_t until = last + 6 * kIdleMs; last < until;) {
        assert_status(xfer_put(pair.ep, &word, &pair.ref, 0, 8, kUser, &quiet), XFER_OK);
        pass_ms(5);
        const uint64_t now = now_ms();
        if (now - last > longest) longest = now - last;
        last = now;
    }
    if (longest < kIdleMs) assert_int_equal(host_stats(pair.client).connection_ends, ends);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_applied_at_once),
    EACH_MODE(test_region_ended),
    TEST(test_wakes_a_poll),
    TEST(test_descriptor_becomes_readable),
    TEST(test_descriptor_is_asked_for_later),
    TEST(test_woken_once),
    TEST(test_poll_sends),
    TEST(test_peers_are_served),
    TEST(test_peers_are_served_by_seldom_polls),
    MODE_TEST(test_room_is_told, 1, "thread/1"),
    EACH_MODE(test_from_a_callback),
    EACH_MODE(test_not_idle),
};

TEST_MAIN(tests)
