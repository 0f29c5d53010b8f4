/* SPDX-License-Identifier: Apache-2.0
 *
 * When a submit leaves: the calling thread sends it itself if nobody is in the loop and nothing
 * else is under way; what follows on that leaves together. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

enum { kPuts = 200, kByte = 64 };

/* The loop sleeps between two puts. It wakes up to read the answer, and not to send. */
static void test_sent_by_the_caller(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *out = test_memory(kByte);
    for (int warm = 0; warm < 10; warm++)
        assert_status(put_now(pair.client, pair.ep, out, &pair.ref, 0, kByte), XFER_OK);
    const uint64_t before = host_stats(pair.client).wakeups;
    for (uint64_t i = 0; i < kPuts; i++) {
        fill(out, kByte, i);
        assert_status(put_now(pair.client, pair.ep, out, &pair.ref, i % 64, kByte), XFER_OK);
        assert_true(filled(pair.memory + i % 64, kByte, i, 0));
    }
    const uint64_t wakeups = host_stats(pair.client).wakeups - before;
    if (over_sockets()) assert_in_range(wakeups, 0, kPuts + kPuts / 4);
}

/* What the server has got by now, without a turn of the client. */
static bool arrives(const uint8_t *memory, uint8_t value, uint32_t ms) {
    const uint64_t end = now_ms() + ms;
    while (*(const volatile uint8_t *)memory != value)
        if (now_ms() >= end) return false;
    return true;
}

/* A client that is polled, and a server that goes on by itself. */
typedef struct Polled {
    Host *client;
    uint8_t *memory, *out; /* the server's, and what is put there */
    xfer_ep_t *ep;
    xfer_ref_t ref;
} Polled;

enum { kLarge = 1 << 20, kUser = 1000 };

static Polled open_polled(void) {
    static const Mode polled = {"poll/none", XFER_DISPATCH_POLL, XFER_NONE};
    Host *server = host_open(THREAD_MODE);
    host_listen(server, "tcp://127.0.0.1:0");
    Polled pair = {.client = host_open(&polled),
                   .memory = test_memory(2 * kLarge),
                   .out = test_memory(kLarge)};
    open_region(server, "memory", XFER_READ | XFER_WRITE, pair.memory, 2 * kLarge);
    pair.ep = open_ep(pair.client, server->uri);
    pair.ref = look_up(pair.client, pair.ep, "memory");
    memset(pair.out, 7, kLarge);
    return pair;
}

static void begin(Polled *pair, uint64_t offset, uint64_t length) {
    assert_status(xfer_put(pair->ep, pair->out, &pair->ref, offset, length, kUser, NULL), XFER_OK);
}

static void end_well(Polled *pair, int count) {
    for (; count > 0; count--)
        assert_status(wait_event(pair->client, XFER_EVENT_PUT, kUser, kPatience).status, XFER_OK);
}

/* Nobody polls meanwhile. The first one leaves at once; those that follow leave with the next poll,
 * or when there are many. */
static void test_held_until_a_poll(void **state) {
    (void)state;
    Polled pair = open_polled();
    int count = 0;
    for (; count < 5; count++)
        begin(&pair, (uint64_t)count, 1);
    assert_true(arrives(pair.memory, 7, kPatience));
    assert_false(arrives(pair.memory + 4, 7, 30));
    turn(10);
    assert_true(arrives(pair.memory + 4, 7, kPatience));
    end_well(&pair, count);
    for (count = 0; count < 40; count++)
        begin(&pair, 100 + (uint64_t)count, 1);
    assert_true(arrives(pair.memory + 100 + 30, 7, kPatience));
    end_well(&pair, count);
}

static void test_large_ones_do_not_wait(void **state) {
    (void)state;
    Polled pair = open_polled();
    begin(&pair, 0, 1);
    begin(&pair, kLarge, kLarge);
    assert_true(arrives(pair.memory + kLarge, 7, kPatience));
    end_well(&pair, 2);
}

/* What can't go does not keep others. */
static void test_others_do_not_wait(void **state) {
    (void)state;
    Polled pair = open_polled();
    char nobody[64];
    const int hole = black_hole(nobody, sizeof nobody);
    xfer_ep_t *ep = open_ep(pair.client, nobody);
    assert_status(xfer_ep_lookup(ep, "memory", 1, NULL, NULL), XFER_OK);
    uint64_t word = 0;
    assert_status(xfer_send(ep, &word, sizeof word, 1, 2, NULL), XFER_OK);
    begin(&pair, 0, 1);
    assert_true(arrives(pair.memory, 7, kPatience));
    end_well(&pair, 1);
    assert_status(xfer_cancel(pair.client->engine, ep, 0, 0), XFER_OK);
    wait_event(pair.client, XFER_EVENT_SEND, 2, kPatience);
    close(hole);
}

/* Threads that submit at once, each waiting for its own: whoever finds the loop free does what
 * others have left, and nothing is left to nobody. */
typedef struct Submitter {
    Pair *pair;
    uint64_t user;
    uint8_t out[8];
} Submitter;

enum { kThreads = 4, kEach = 400 };
static atomic_int ended[kThreads];

static void count_end(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind == XFER_EVENT_PUT && event->user < kThreads && event->status == XFER_OK)
        atomic_fetch_add(&ended[event->user], 1);
}

static void *submit_all(void *argument) {
    Submitter *submitter = argument;
    for (int i = 0; i < kEach; i++) {
        const xfer_status_t status =
            xfer_put(submitter->pair->ep, submitter->out, &submitter->pair->ref,
                     8 * submitter->user, 8, submitter->user, NULL);
        if (status != XFER_OK) return (void *)(intptr_t)status;
        const uint64_t end = now_ms() + kPatience;
        while (atomic_load(&ended[submitter->user]) <= i) {
            if (now_ms() >= end) return (void *)(intptr_t)XFER_ETIMEDOUT;
            if (i % 3 == 0) usleep(50); /* long enough for the loop to sleep */
        }
    }
    return NULL;
}

static void test_many_threads(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    for (int i = 0; i < kThreads; i++)
        atomic_store(&ended[i], 0);
    atomic_store(&pair.client->hook, count_end);
    pthread_t threads[kThreads];
    Submitter submitters[kThreads];
    for (uint64_t i = 0; i < kThreads; i++) {
        submitters[i] = (Submitter){.pair = &pair, .user = i};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    intptr_t failed = 0;
    for (int i = 0; i < kThreads; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result) failed = (intptr_t)result;
    }
    assert_status((xfer_status_t)failed, XFER_OK);
    atomic_store(&pair.client->hook, NULL);
}

static pthread_t submitter;
static atomic_int told, told_by_submitter;

static void note_thread(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_PUT) return;
    if (pthread_equal(pthread_self(), submitter)) atomic_fetch_add(&told_by_submitter, 1);
    atomic_fetch_add(&told, 1);
}

/* What has ended when the submit returns, as between regions of one engine, is told by the engine's
 * thread all the same. */
static void test_no_event_inside(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    uint8_t *memory = test_memory(64), *out = test_memory(64);
    open_region(host, "memory", XFER_READ | XFER_WRITE, memory, 64);
    xfer_ep_t *ep = open_ep(host, host->uri);
    const xfer_ref_t ref = look_up(host, ep, "memory");
    submitter = pthread_self();
    atomic_store(&told, 0);
    atomic_store(&told_by_submitter, 0);
    atomic_store(&host->hook, note_thread);
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(put_now(host, ep, out, &ref, 0, 8), XFER_OK);
    wait_atomic(&told, kPuts, kPatience); /* the hook runs after the event was recorded */
    assert_int_equal(atomic_load(&told_by_submitter), 0);
    atomic_store(&host->hook, NULL);
}

/* With LOOP and no I/O thread a submit waits for the loop's next turn. */
#define EACH_THAT_SENDS(test)                                          \
    MODE_TEST(test, 0, "thread/none"), MODE_TEST(test, 1, "thread/1"), \
        MODE_TEST(test, 2, "thread/2"), MODE_TEST(test, 4, "loop/1"),  \
        MODE_TEST(test, 6, "poll/none"), MODE_TEST(test, 7, "poll/1")

static const struct CMUnitTest tests[] = {
    EACH_THAT_SENDS(test_sent_by_the_caller),
    TEST(test_held_until_a_poll),
    TEST(test_large_ones_do_not_wait),
    TEST(test_others_do_not_wait),
    MODE_TEST(test_many_threads, 0, "thread/none"),
    ONE_MODE(test_many_threads),
    MODE_TEST(test_many_threads, 2, "thread/2"),
    MODE_TEST(test_no_event_inside, 0, "thread/none"),
    ONE_MODE(test_no_event_inside),
};

TEST_MAIN(tests)
