/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_put and xfer_get: every size and offset, what is out of range, both directions, many
 * threads. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "carried.h"
#include "fixture.h"

static const uint64_t sizes[] = {
    0,
    1,
    63,
    64,
    65,
    4095,
    4096,
    4097,
    65536,
    262143,
    256 << 10,
    (256 << 10) + 1,
    (1 << 20) + 7,
    16 << 20,
};
enum { kSizes = sizeof sizes / sizeof sizes[0], kMargin = 64 };

static bool untouched(const uint8_t *bytes, uint64_t length, uint8_t value) {
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != value) return false;
    }
    return true;
}

static void test_put_sizes(void **state) {
    Pair pair;
    const uint64_t room = (16 << 20) + 2 * kMargin;
    pair_open(&pair, *state, room);
    uint8_t *local = test_memory(16 << 20);
    for (int i = 0; i < kSizes; i++) {
        uint64_t size = sizes[i];
        fill(local, size, (uint64_t)i);
        memset(pair.memory, 0x11, size + 2 * kMargin);
        assert_status(xfer_put(pair.ep, local, &pair.ref, kMargin, size, (uint64_t)i, NULL),
                      XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, (uint64_t)i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_completion(&event);
        assert_ptr_equal(event.ep, pair.ep);
        assert_int_equal(event.bytes, size);
        assert_true(filled(pair.memory + kMargin, size, (uint64_t)i, 0));
        assert_true(untouched(pair.memory, kMargin, 0x11));
        assert_true(untouched(pair.memory + kMargin + size, kMargin, 0x11));
    }
}

static void test_get_sizes(void **state) {
    Pair pair;
    pair_open(&pair, *state, (16 << 20) + 3);
    uint8_t *local = test_memory((16 << 20) + 2 * kMargin);
    fill(pair.memory, pair.length, 5);
    for (int i = 0; i < kSizes; i++) {
        uint64_t size = sizes[i];
        memset(local, 0x22, size + 2 * kMargin);
        assert_status(xfer_get(pair.ep, local + kMargin, &pair.ref, 3, size, (uint64_t)i, NULL),
                      XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_GET, (uint64_t)i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_completion(&event);
        assert_int_equal(event.bytes, size);
        assert_true(filled(local + kMargin, size, 5, 3));
        assert_true(untouched(local, kMargin, 0x22));
        assert_true(untouched(local + kMargin + size, kMargin, 0x22));
    }
    assert_true(filled(pair.memory, pair.length, 5, 0));
}

/* Lengths and alignments around the boundaries that an implementation might have. */
static void test_odd_offsets(void **state) {
    Pair pair;
    const uint64_t room = 1 << 20;
    pair_open(&pair, *state, room);
    uint8_t *local = test_memory(room);
    uint8_t *back = test_memory(room);
    uint64_t random = 12345;
    for (int i = 0; i < (quick() ? 40 : 200); i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t offset = (random >> 20) % room;
        uint64_t length = (random >> 44) % (room - offset) + 1;
        uint64_t at = (random >> 12) % (room - length + 1);
        fill(local + at, length, random);
        assert_status(put_now(pair.client, pair.ep, local + at, &pair.ref, offset, length),
                      XFER_OK);
        assert_true(filled(pair.memory + offset, length, random, 0));
        assert_status(get_now(pair.client, pair.ep, back + at, &pair.ref, offset, length), XFER_OK);
        assert_true(filled(back + at, length, random, 0));
    }
}

static void test_out_of_range(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(8192);
    memset(local, 0x77, 8192);
    const struct {
        uint64_t offset;
        uint64_t length;
    } table[] = {
        {0, 4097},
        {1, 4096},
        {4095, 2},
        {4096, 1},
        {4097, 1},
        {UINT64_MAX, 1},
        {UINT64_MAX, 2},
        {1, UINT64_MAX},
        {UINT64_MAX - 4095, 4096},
        {UINT64_MAX, UINT64_MAX},
        {1ull << 63, 1ull << 63},
        {4097, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_status(
            put_now(pair.client, pair.ep, local, &pair.ref, table[i].offset, table[i].length),
            XFER_ERANGE);
        assert_status(
            get_now(pair.client, pair.ep, local, &pair.ref, table[i].offset, table[i].length),
            XFER_ERANGE);
    }
    assert_true(untouched(pair.memory, 4096, 0));
    assert_true(untouched(local, 8192, 0x77));
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 4096, 0),
                  XFER_OK); /* at the end, nothing */
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 4095, 1), XFER_OK);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

static void test_wrong_arguments(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t local[16] = {0};
    xfer_op_options_t options = {.size = sizeof options, .flags = 1};
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 16, 1, &options), XFER_EINVAL);
    options = (xfer_op_options_t){.size = 0};
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, 16, 1, &options), XFER_EINVAL);
    assert_status(xfer_put(pair.ep, NULL, &pair.ref, 0, 0, 2, NULL),
                  XFER_OK); /* no byte, no address */
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 2, kPatience).status, XFER_OK);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 1), 0);
}

/* A put and a get of the same region by its own ref, after the region went and came again. */
static void test_stale_ref(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    open_region(pair.server, "memory", XFER_READ | XFER_WRITE, pair.memory, 4096);
    memset(local, 1, 4096);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_ESTALE);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_ESTALE);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1 << 12), XFER_ESTALE);
    assert_true(untouched(pair.memory, 4096, 0));
    assert_true(untouched(local, 4096, 1));
}

/* A ref of an engine that is gone, used on its successor at the same address: of the same identity,
 * and of another. */
static void test_stale_incarnation(void **state) {
    xfer_engine_options_t options = host_options(*state);
    const xfer_engine_options_t client = options;
    options.id[3] = 3;
    Pair pair;
    pair_open_with(&pair, &options, &client, *state, 4096);
    char uri[256];
    strcpy(uri, pair.server->uri);
    uint8_t *local = test_memory(4096);
    memset(local, 1, 4096);
    for (int i = 0; i < 2; i++) {
        host_end(pair.server);
        wait_event(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        options.id[3] = (uint8_t)(3 + i);
        pair.server = host_open_with(*state, &options);
        host_listen(pair.server, uri);
        memset(pair.memory, 0, 4096);
        open_region(pair.server, "memory", XFER_READ | XFER_WRITE, pair.memory, 4096);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_ESTALE);
        assert_true(untouched(pair.memory, 4096, 0));
        xfer_ref_t ref = look_up(pair.client, pair.ep, "memory");
        assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 4096), XFER_OK);
        assert_true(untouched(pair.memory, 4096, 1));
    }
}

/* Puts and gets by both engines at the same time, over the one connection. */
static void test_both_directions(void **state) {
    Pair pair;
    const uint64_t size = 3 << 20;
    const uint64_t rounds = quick() ? 3 : 8;
    pair_open(&pair, *state, 2 * size);
    xfer_event_t peer = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience);
    uint8_t *other = test_memory(2 * size);
    open_region(pair.client, "other", XFER_READ | XFER_WRITE, other, 2 * size);
    xfer_ref_t ref = look_up(pair.server, peer.ep, "other");
    uint8_t *from_client = test_memory(size), *to_client = test_memory(size);
    uint8_t *from_server = test_memory(size), *to_server = test_memory(size);
    fill(pair.memory + size, size, 101);
    fill(other + size, size, 102);
    for (uint64_t i = 0; i < rounds; i++) {
        fill(from_client, size, i);
        fill(from_server, size, i + 1000);
        assert_status(xfer_put(pair.ep, from_client, &pair.ref, 0, size, i, NULL), XFER_OK);
        assert_status(xfer_get(pair.ep, to_client, &pair.ref, size, size, i, NULL), XFER_OK);
        assert_status(xfer_put(peer.ep, from_server, &ref, 0, size, i, NULL), XFER_OK);
        assert_status(xfer_get(peer.ep, to_server, &ref, size, size, i, NULL), XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_GET, i, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.server, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.server, XFER_EVENT_GET, i, kPatience).status, XFER_OK);
        assert_true(filled(pair.memory, size, i, 0));
        assert_true(filled(other, size, i + 1000, 0));
        assert_true(filled(to_client, size, 101, 0));
        assert_true(filled(to_server, size, 102, 0));
        memset(to_client, 0, size);
        memset(to_server, 0, size);
    }
}

/* ---- many threads ---- */

enum { kThreads = 64, kPerThread = 40, kPiece = 512 };

typedef struct Submitter {
    Pair *pair;
    uint64_t number;
    uint8_t *local;
    xfer_status_t status;
    _Atomic int *done;
} Submitter;

static void *submit_many(void *data) {
    Submitter *self = data;
    for (uint64_t i = 0; i < kPerThread; i++) {
        uint64_t slot = self->number * kPerThread + i;
        xfer_status_t status;
        do {
            status = xfer_put(self->pair->ep, self->local + i * kPiece, &self->pair->ref,
                              slot * kPiece, kPiece, slot, NULL);
            if (status == XFER_EAGAIN) usleep(200);
        } while (status == XFER_EAGAIN);
        if (status != XFER_OK) self->status = status;
    }
    (*self->done)++;
    return NULL;
}

static void test_many_threads(void **state) {
    Pair pair;
    pair_open(&pair, *state, kThreads * kPerThread * kPiece);
    static _Atomic int done;
    static Submitter submitters[kThreads];
    pthread_t threads[kThreads];
    uint8_t *local = test_memory(kThreads * kPerThread * kPiece);
    fill(local, kThreads * kPerThread * kPiece, 8);
    done = 0;
    for (uint64_t i = 0; i < kThreads; i++) {
        submitters[i] = (Submitter){&pair, i, local + i * kPerThread * kPiece, XFER_OK, &done};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    }
    wait_atomic(&done, kThreads, 2 * kPatience);
    for (int i = 0; i < kThreads; i++) {
        pthread_join(threads[i], NULL);
        assert_status(submitters[i].status, XFER_OK);
    }
    for (uint64_t i = 0; i < kThreads * kPerThread; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    }
    assert_true(filled(pair.memory, kThreads * kPerThread * kPiece, 8, 0));
    xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.put.submitted, kThreads * kPerThread);
    assert_int_equal(stats.put.completed, kThreads * kPerThread);
    assert_int_equal(stats.put.bytes, kThreads * kPerThread * kPiece);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), kThreads * kPerThread);
}

/* ---- what is counted ---- */

static void test_stats(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    const xfer_op_stats_t before = host_stats(pair.client).get; /* which waited for a way */
    for (int i = 0; i < 7; i++)
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1000), XFER_OK);
    for (int i = 0; i < 5; i++)
        assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, 100), XFER_OK);
    xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.put.submitted, 7);
    assert_int_equal(stats.put.completed, 7);
    assert_int_equal(stats.put.bytes, 7000);
    assert_int_equal(stats.get.submitted - before.submitted, 5);
    assert_int_equal(stats.get.bytes - before.bytes, 500);
    assert_int_equal(stats.inflight, 0);
    assert_int_equal(stats.queued, 0);
    uint64_t timed = 0;
    for (int i = 0; i < 40; i++)
        timed += stats.put.latency[i];
    assert_int_equal(timed, 7);
    xfer_ep_stats_t ep_stats;
    assert_status(xfer_ep_stats(pair.ep, &ep_stats, sizeof ep_stats), XFER_OK);
    assert_int_equal(ep_stats.put.completed, 7);
    assert_int_equal(ep_stats.get.completed - before.completed, 5);
    assert_int_equal(ep_stats.connections, 1);
    xfer_engine_stats_t served = host_stats(pair.server);
    if (over_sockets() && wanted_way() == NULL) { /* neighbours and adapters don't ask */
        assert_int_equal(served.served_put, 7000);
        assert_int_equal(served.served_get, 500);
    }
    assert_int_equal(served.refused, 0);

    /* What the owner refuses is counted on both sides. */
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_ESTALE);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_ESTALE);
    stats = host_stats(pair.client);
    assert_int_equal(stats.put.failed, 1);
    assert_int_equal(stats.get.failed, 1);
    assert_int_equal(stats.errors[-XFER_ESTALE], 2);
}

/* Without data lanes the control channel carries everything; with several, it still arrives whole.
 */
static void test_lanes(void **state) {
    const uint32_t lanes[] = {XFER_NONE, 1, 2, 4};
    const uint64_t size = 5 << 20;
    uint8_t *local = test_memory(size);
    for (int i = 0; i < 4; i++) {
        xfer_engine_options_t options = host_options(*state);
        options.lanes = lanes[i];
        Pair pair;
        pair_open_with(&pair, &options, &options, *state, size);
        fill(local, size, (uint64_t)i);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, size), XFER_OK);
        assert_true(filled(pair.memory, size, (uint64_t)i, 0));
        memset(local, 0, size);
        assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, size), XFER_OK);
        assert_true(filled(local, size, (uint64_t)i, 0));
        assert_int_equal(host_stats(pair.client).connections, 1);
        host_end(pair.client);
        host_end(pair.server);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_put_sizes),
    EACH_MODE(test_get_sizes),
    EACH_MODE(test_odd_offsets),
    EACH_MODE(test_out_of_range),
    EACH_DISPATCH(test_wrong_arguments),
    EACH_MODE(test_stale_ref),
    EACH_MODE(test_stale_incarnation),
    EACH_MODE(test_both_directions),
    EACH_MODE(test_many_threads),
    EACH_MODE(test_stats),
    EACH_MODE(test_lanes),
};

TEST_MAIN(tests)
