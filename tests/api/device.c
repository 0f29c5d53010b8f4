/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts from memory of a device, and gets into it, over any path (device_memory.h). What is in a
 * copy is left alone until that has ended, however the operation ends. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_memory.h"
#include "peer.h"

static void put(Pair *pair, const void *local, uint64_t offset, uint64_t length, uint64_t user,
                uint32_t timeout_ms) {
    const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms};
    assert_status(xfer_put(pair->ep, local, &pair->ref, offset, length, user, &options), XFER_OK);
}

static void get(Pair *pair, void *local, uint64_t offset, uint64_t length, uint64_t user) {
    assert_status(xfer_get(pair->ep, local, &pair->ref, offset, length, user, NULL), XFER_OK);
}

/* ---- bytes ---- */

static void test_sizes(void **state) {
    const uint64_t sizes[] = {1, 8, 4095, 65536, kChunk, kChunk + 1, 5 * kChunk + 3, kHalf};
    Pair pair;
    pair_open(&pair, *state, kLength);
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *from = device_memory(sizes[i] + 16, i + 1), *to = device_memory(sizes[i], 99);
        memset(pair.memory, 0, kLength);
        assert_status(put_now(pair.client, pair.ep, (char *)from + 7, &pair.ref, 3, sizes[i]),
                      XFER_OK);
        assert_true(filled(pair.memory + 3, sizes[i], i + 1, 7));
        assert_int_equal(pair.memory[2] | pair.memory[3 + sizes[i]], 0);
        fill(pair.memory, sizes[i], i + 50);
        assert_status(get_now(pair.client, pair.ep, to, &pair.ref, 0, sizes[i]), XFER_OK);
        assert_device_filled(to, sizes[i], i + 50, 0);
        fake_cuda_free(from);
        fake_cuda_free(to);
    }
}

/* More of them than there is bounce memory for, both ways. */
static void test_many(void **state) {
    enum { kCount = 3 * kSlots };
    Pair pair;
    pair_open(&pair, *state, kLength);
    uint8_t *from = device_memory(kHalf, 5), *to = device_memory(kHalf, 6);
    fill(pair.memory + kHalf, kHalf, 7);
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t at = i % (kHalf / kChunk) * kChunk;
        put(&pair, from + at, at, kChunk, 1000 + i, 0);
        get(&pair, to + at, kHalf + at, kChunk, 2000 + i);
    }
    for (uint64_t i = 0; i < kCount; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 1000 + i, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_GET, 2000 + i, kPatience).status, XFER_OK);
    }
    assert_true(filled(pair.memory, kHalf, 5, 0));
    assert_device_filled(to, kHalf, 7, 0);
    fake_cuda_free(from);
    fake_cuda_free(to);
}

/* Entries of the host's and of the device's memory, of each form. */
static void test_batch(void **state) {
    enum { kPage = 4096, kPages = 300 };
    Pair pair;
    xfer_batch_t *batch;
    pair_open(&pair, *state, kLength);
    uint8_t *device = device_memory(kPages * kPage, 3), *host = test_memory(kPages * kPage);
    uint32_t pages[kPages];
    for (uint32_t i = 0; i < kPages; i++)
        pages[i] = kPages - 1 - i;
    fill(host, kPages * kPage, 4);
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    const xfer_span_t spans[] = {{(uintptr_t)device, 0, 100},
                                 {(uintptr_t)host + 100, 100, 100},
                                 {(uintptr_t)device + 200, 200, 0},
                                 {(uintptr_t)device + 200, 200, kPage - 200}};
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof *spans, 4, NULL),
        XFER_OK);
    const xfer_strided_t strided = {.size = sizeof strided,
                                    .local = (uintptr_t)device,
                                    .local_stride = 2 * kPage,
                                    .remote = &pair.ref,
                                    .offset = kHalf,
                                    .remote_stride = kPage,
                                    .length = kPage,
                                    .count = kPages / 2};
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    const xfer_page_base_t bases[] = {
        {.local = (uintptr_t)device, .remote = &pair.ref, .offset = kChunk},
        {.local = (uintptr_t)host, .remote = &pair.ref, .offset = kChunk + kPages * kPage}};
    const xfer_pages_t table = {.size = sizeof table,
                                .base_size = sizeof *bases,
                                .index_size = 4,
                                .length = kPage,
                                .count = kPages,
                                .base_count = 2,
                                .local_pages = pages,
                                .remote_pages = pages,
                                .bases = bases};
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &table, NULL), XFER_OK);
    for (int round = 0; round < 2; round++) {
        memset(pair.memory, 0, kLength);
        assert_status(submit_now(pair.client, batch), XFER_OK);
        assert_true(filled(pair.memory, 100, 3, 0));
        assert_true(filled(pair.memory + 100, 100, 4, 100));
        assert_true(filled(pair.memory + 200, kPage - 200, 3, 200));
        for (uint64_t i = 0; i < kPages / 2; i++)
            assert_true(filled(pair.memory + kHalf + i * kPage, kPage, 3, 2 * i * kPage));
        assert_true(filled(pair.memory + kChunk, kPages * kPage, 3, 0));
        assert_true(filled(pair.memory + kChunk + kPages * kPage, kPages * kPage, 4, 0));
    }
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_free(device);
}

/* What the CPU would have to touch. */
static void test_refused(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    void *device = device_memory(kChunk, 1);
    const xfer_op_options_t copy = {.size = sizeof copy, .flags = XFER_FLAG_COPY};
    assert_status(xfer_put(pair.ep, device, &pair.ref, 0, 64, 1, &copy), XFER_EMEMKIND);
    assert_status(xfer_notify(pair.ep, device, 64, 1, 1, NULL), XFER_EMEMKIND);
    assert_status(xfer_notify(pair.ep, device, 0, 1, 1, NULL), XFER_OK);
    wait_event(pair.client, XFER_EVENT_NOTIFIED, 1, kPatience);
    xfer_batch_t *batch;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, device, &pair.ref, 0, kChunk), XFER_OK);
    const xfer_submit_options_t notifies = {.size = sizeof notifies,
                                            .flags = XFER_SUBMIT_NOTIFY,
                                            .notify_data = device,
                                            .notify_length = 64};
    assert_status(xfer_batch_submit(batch, 2, &notifies), XFER_EMEMKIND);
    assert_status(xfer_batch_submit(batch, 2, NULL), XFER_OK);
    wait_event(pair.client, XFER_EVENT_BATCH, 2, kPatience);
    assert_status(put_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
    fake_cuda_free(device);
}

/* ---- copies that do not end ---- */

/* The first number of that name in what the host says of its devices. */
static uint64_t described(Host *host, const char *name) {
    static char text[65536];
    char key[32];
    uint64_t needed;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *devices = strstr(text, "\"devices\": [\n");
    assert_non_null(devices);
    const char *found = strstr(devices, key);
    assert_non_null(found);
    return strtoull(found + strlen(key), NULL, 10);
}

static void assert_stalls(Host *host, int stalls, uint64_t at_least_ns) {
    const xfer_event_t event = wait_event(host, XFER_EVENT_STALLED, ANY_USER, kPatience);
    assert_status(event.status, stalls ? XFER_ETIMEDOUT : XFER_OK);
    assert_int_equal(event.origin, stalls ? XFER_ORIGIN_CUDA : XFER_ORIGIN_NONE);
    assert_int_equal(event.user, (uintptr_t)host);
    assert_int_equal(event.tag, 0);
    assert_int_equal(event.index, 0);
    assert_true(event.bytes >= at_least_ns);
    if (stalls) assert_non_null(memmem(event.data, event.data_length, "CUDA device 0", 13));
}

/* It is told once, and once that it is over; the operation ends when its memory is quiet; all else
 * goes on. */
static void test_device_that_stalls(void **state) {
    enum { kStallMs = 1500, kLimitMs = 1000 }; /* of operations; of a device */
    xfer_engine_options_t options = host_options(*state);
    Pair pair;
    options.stall_ms = kStallMs;
    pair_open_with(&pair, &options, &options, *state, kLength);
    void *device = device_memory(kChunk, 1);
    uint8_t *host = test_memory(kChunk);
    for (uint64_t round = 0; round < 2; round++) {
        const unsigned before = fake_cuda_calls("cuEventSynchronize");
        fake_cuda_hold(1);
        put(&pair, device, 0, kChunk, round, 0);
        await_copies("cuEventSynchronize", before, 1);
        assert_stalls(pair.client, 1, kLimitMs * 1000000ull);
        assert_int_equal(described(pair.client, "copies"), 1);
        assert_true(described(pair.client, "stalled_ms") >= kLimitMs);
        assert_status(put_now(pair.client, pair.ep, host, &pair.ref, 0, kChunk), XFER_OK);
        const int told = count_events(pair.client, XFER_EVENT_STALLED, ANY_USER);
        pass_ms(kStallMs + 100);
        assert_int_equal(count_events(pair.client, XFER_EVENT_STALLED, ANY_USER), told);
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, round), 0);
        fake_cuda_hold(0);
        assert_stalls(pair.client, 0, kStallMs * 1000000ull);
        const xfer_event_t end = wait_event(pair.client, XFER_EVENT_PUT, round, kPatience);
        assert_status(end.status, XFER_ETIMEDOUT);
        assert_int_equal(end.flags & XFER_MAYBE_APPLIED, 0);
        assert_int_equal(described(pair.client, "copies"), 0);
        assert_int_equal(described(pair.client, "stalled_ms"), 0);
        assert_status(put_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
    }
    fake_cuda_free(device);
}

/* A region of a device at an engine that is soon told of a stall, and who puts there. */
typedef struct Lent {
    Pair pair;
    void *device;
    xfer_region_t *region;
    xfer_ref_t ref;
    uint8_t *host;
} Lent;
enum { kSoonMs = 500 };

static void lend(Lent *lent, const Mode *mode) {
    xfer_engine_options_t soon = host_options(mode), patient = soon;
    soon.stall_ms = kSoonMs; /* no operation begins there */
    pair_open_with(&lent->pair, &soon, &patient, mode, kLength);
    lent->device = device_memory(kChunk, 1);
    lent->region = open_region(lent->pair.server, "device", XFER_WRITE, lent->device, kChunk);
    lent->ref = look_up(lent->pair.client, lent->pair.ep, "device");
    lent->host = test_memory(kChunk);
}

static void put_into(Lent *lent, uint64_t user) {
    assert_status(xfer_put(lent->pair.ep, lent->host, &lent->ref, 0, kChunk, user, NULL), XFER_OK);
}

static _Atomic int stalls_told, let_go;

static void block_in_stall(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_STALLED || atomic_fetch_add(&stalls_told, 1) > 0) return;
    const uint64_t limit = now_ms() + kPatience;
    while (!atomic_load(&let_go) && now_ms() < limit)
        usleep(1000);
}

/* A stall that begins before the events of the last one were taken is told when they are. */
static void test_stall_behind_a_stall(void **state) {
    const uint64_t soon = kSoonMs * 1000000ull;
    Lent lent;
    lend(&lent, *state);
    Host *server = lent.pair.server;
    atomic_store(&stalls_told, 0);
    atomic_store(&let_go, 0);
    server->hook = block_in_stall;
    for (uint64_t round = 0; round < 2; round++) {
        fake_cuda_hold(1);
        put_into(&lent, round);
        if (round == 1) pass_ms(2 * kSoonMs);
        wait_atomic(&stalls_told, 1, kPatience);
        if (round == 1) atomic_store(&let_go, 1);
        if (round == 1) wait_atomic(&stalls_told, 3, kPatience);
        fake_cuda_hold(0);
        wait_event(lent.pair.client, XFER_EVENT_PUT, round, kPatience);
    }
    for (int told = 0; told < 4; told++) /* the second is told when the first was taken */
        assert_stalls(server, told % 2 == 0, told < 2 ? soon : 2 * soon);
    server->hook = NULL;
    assert_status(xfer_region_close(lent.region), XFER_OK);
    wait_closed(server, lent.region);
    fake_cuda_free(lent.device);
}

/* Of what peers ask for it is told where the device is. An engine that closes meanwhile ends behind
 * its copies, and its last event is the last one. */
static void test_stall_of_a_region(void **state) {
    const uint64_t soon = kSoonMs * 1000000ull;
    Lent lent;
    lend(&lent, *state);
    Host *server = lent.pair.server, *client = lent.pair.client;
    fake_cuda_hold(1);
    put_into(&lent, 1);
    assert_stalls(server, 1, soon);
    assert_status(xfer_engine_close(server->engine), XFER_OK);
    pass_ms(50);
    assert_int_equal(count_events(client, XFER_EVENT_STALLED, ANY_USER), 0);
    fake_cuda_hold(0);
    wait_event(client, XFER_EVENT_PUT, 1, kPatience);
    assert_stalls(server, 0, soon);
    wait_closed(server, lent.region);
    wait_closed(server, server->engine);
    fake_cuda_free(lent.device);
}

/* Its memory is free when it is told, and not before; what waits for the same thread is told at
 * once. */
static void test_cancel_in_a_copy(void **state) {
    enum { kCancel, kDeadline, kLanding, kWays };
    Pair pair;
    pair_open(&pair, *state, kLength);
    uint8_t *host = test_memory(kChunk);
    void *behind = device_memory(kChunk, 2);
    assert_status(put_now(pair.client, pair.ep, behind, &pair.ref, 0, kChunk), XFER_OK);
    for (int way = 0; way < kWays; way++) {
        void *memory = device_memory(kChunk, 1);
        const uint64_t user = 10 + (uint64_t)way; /* of this round */
        const bool lands = way == kLanding;
        const uint32_t kind = lands ? XFER_EVENT_GET : XFER_EVENT_PUT;
        const unsigned before = fake_cuda_calls("cuEventSynchronize");
        fake_cuda_hold(1);
        if (lands)
            get(&pair, memory, 0, kChunk, user);
        else
            put(&pair, memory, 0, kChunk, user, way == kDeadline ? 1500 : 0);
        await_copies("cuEventSynchronize", before, 1); /* what comes now has not begun */
        put(&pair, behind, 0, kChunk, 2, 0);
        pass_ms(way == kDeadline ? 1700 : 50);
        assert_status(xfer_cancel(pair.client->engine, pair.ep, 2, ANY_USER), XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 2, kPatience).status, XFER_ECANCELED);
        if (way != kDeadline)
            assert_status(xfer_cancel(pair.client->engine, pair.ep, user, ANY_USER), XFER_OK);
        pass_ms(100);
        assert_false(count_events(pair.client, kind, user) != 0);
        /* All else goes on. */
        assert_status(put_now(pair.client, pair.ep, host, &pair.ref, 0, kChunk), XFER_OK);
        fake_cuda_hold(0);
        const xfer_event_t event = wait_event(pair.client, kind, user, kPatience);
        fake_cuda_free(memory);
        if (!lands) assert_status(event.status, way == kDeadline ? XFER_ETIMEDOUT : XFER_ECANCELED);
        if (!lands) assert_int_equal(event.flags & XFER_MAYBE_APPLIED, 0);
    }
    fake_cuda_free(behind);
}

/* What waits for bounce memory is in no copy, and ends at once. */
static void test_cancel_before_a_copy(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    void *from = device_memory(kHalf, 1);
    fake_cuda_hold(1);
    for (uint64_t i = 0; i < kSlots; i++)
        put(&pair, from, 0, kChunk, i, 0);
    put(&pair, from, 0, kChunk, 100, 0);
    get(&pair, from, 0, kChunk, 101);
    put(&pair, from, 0, kChunk, 102, 50);
    pass_ms(50);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, 100, ANY_USER), XFER_OK);
    assert_status(xfer_cancel(pair.client->engine, pair.ep, 101, ANY_USER), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 100, kPatience).status, XFER_ECANCELED);
    assert_status(wait_event(pair.client, XFER_EVENT_GET, 101, kPatience).status, XFER_ECANCELED);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 102, kPatience).status, XFER_ETIMEDOUT);
    fake_cuda_hold(0);
    for (uint64_t i = 0; i < kSlots; i++)
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    fake_cuda_free(from);
}

/* Its peer's end is told when the copies are over, what never left goes on by the next connection,
 * and another peer is not kept waiting. */
static void test_peer_killed_in_a_copy(void **state) {
    Peer peer;
    Pair other;
    peer_start(&peer, preferred("tcp://127.0.0.1:0"), kLength, 0);
    pair_open(&other, *state, kLength);
    xfer_ep_t *ep = open_ep(other.client, peer.uri);
    xfer_ref_t ref = look_up(other.client, ep, "memory");
    void *from = device_memory(kHalf, 1), *into = device_memory(kHalf, 2);
    assert_status(get_now(other.client, ep, into, &ref, 0, kHalf), XFER_OK);
    fake_cuda_hold(1);
    for (uint64_t i = 0; i < 2 * kSlots; i++)
        assert_status(xfer_put(ep, from, &ref, 0, kChunk, i, NULL), XFER_OK);
    assert_status(xfer_get(ep, into, &ref, 0, kChunk, 1000, NULL), XFER_OK);
    pass_ms(50);
    peer_kill(&peer);
    uint8_t *host = test_memory(kChunk);
    assert_status(put_now(other.client, other.ep, host, &other.ref, 0, kChunk), XFER_OK);
    pass_ms(50);
    assert_status(xfer_ep_close(ep), XFER_OK);
    fake_cuda_hold(0);
    for (uint64_t i = 0; i < 2 * kSlots; i++)
        assert_true(wait_event(other.client, XFER_EVENT_PUT, i, kPatience).status != XFER_OK);
    assert_true(wait_event(other.client, XFER_EVENT_GET, 1000, kPatience).status != XFER_OK);
    fake_cuda_free(from);
    fake_cuda_free(into);
    assert_status(put_now(other.client, other.ep, host, &other.ref, 0, kChunk), XFER_OK);
}

/* An engine ends behind its copies. */
static void test_close_in_a_copy(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    void *from = device_memory(kHalf, 1);
    fake_cuda_hold(1);
    unsigned to_host = fake_cuda_calls("cuMemcpyDtoHAsync");
    for (uint64_t i = 0; i < kSlots + 9; i++)
        put(&pair, from, 0, kChunk, i, 0);
    await_copies("cuMemcpyDtoHAsync", to_host, 1);
    assert_status(xfer_engine_close(pair.client->engine), XFER_OK);
    pass_ms(50);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 0), 0);
    fake_cuda_hold(0);
    for (uint64_t i = 0; i < kSlots + 9; i++)
        wait_event(pair.client, XFER_EVENT_PUT, i, kPatience);
    fake_cuda_free(from);
}

/* It has as many chunks under way as it may, and more that wait; others have bounce memory left. */
static void test_stopped_peer_leaves_room(void **state) {
    Peer peer;
    Pair other;
    peer_start(&peer, preferred("tcp://127.0.0.1:0"), kLength, 0);
    xfer_engine_options_t patient = host_options(*state);
    patient.heartbeat_ms = 60000; /* it stays stopped */
    pair_open_with(&other, &patient, &patient, *state, kLength);
    xfer_ep_t *ep = open_ep(other.client, peer.uri);
    xfer_ref_t ref = look_up(other.client, ep, "memory");
    void *from = device_memory(kChunk, 1);
    const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = kPatience / 2};
    assert_status(put_now(other.client, ep, from, &ref, 0, kChunk), XFER_OK);
    peer_signal(&peer, SIGSTOP);
    for (uint64_t i = 0; i < 30; i++)
        assert_status(xfer_put(ep, from, &ref, 0, 64, i, NULL), XFER_OK);
    for (uint64_t i = 100; i < 110; i++) {
        assert_status(xfer_put(other.ep, from, &other.ref, 0, kChunk, i, &options), XFER_OK);
        assert_status(wait_event(other.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    }
    peer_kill(&peer);
    assert_status(xfer_ep_close(ep),
                  XFER_OK); /* what never left would wait for the next connection */
    for (uint64_t i = 0; i < 30; i++)
        wait_event(other.client, XFER_EVENT_PUT, i, kPatience);
    fake_cuda_free(from);
}

/* No copy of the driver runs from one allocation into the next, though they and their places touch.
 */
static void test_allocations_that_touch(void **state) {
    Pair pair;
    xfer_batch_t *batch;
    void *both[2];
    uint8_t *bytes = test_memory(2 * kChunk);
    pair_open(&pair, *state, 2 * kChunk);
    fake_cuda_alloc_pair(kChunk, both);
    fill(bytes, 2 * kChunk, 8);
    for (int i = 0; i < 2; i++)
        fake_cuda_write(both[i], bytes + i * kChunk, kChunk);
    const xfer_span_t spans[] = {{(uintptr_t)both[1] - 64, kChunk - 64, 64},
                                 {(uintptr_t)both[1], kChunk, 64}};
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof *spans, 2, NULL),
        XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_memory_equal(pair.memory + kChunk - 64, bytes + kChunk - 64, 128);
    assert_status(xfer_batch_close(batch), XFER_OK);
    for (int i = 0; i < 2; i++)
        fake_cuda_free(both[i]);
}

static unsigned questions_of(Pair *pair, const void *from) {
    const unsigned before = fake_cuda_calls("cuPointerGetAttributes");
    assert_status(put_now(pair->client, pair->ep, from, &pair->ref, 0, 64), XFER_OK);
    return fake_cuda_calls("cuPointerGetAttributes") - before;
}

/* Who copies asks whether the allocation is still that one; who submits asks only where there is no
 * region. */
static void test_pointer_into_a_region(void **state) {
    Pair pair;
    xfer_region_t *region;
    pair_open(&pair, *state, kLength);
    uint8_t *device = device_memory(kChunk, 4);
    questions_of(&pair, device);
    assert_int_equal(questions_of(&pair, device + 100), 2);
    assert_status(xfer_region_open(pair.client->engine, NULL, device, kChunk / 2, &region, NULL),
                  XFER_OK);
    assert_int_equal(questions_of(&pair, device + 100), 1);
    assert_int_equal(questions_of(&pair, device + kChunk / 2 - 64), 1);
    assert_int_equal(questions_of(&pair, device + kChunk / 2 - 63), 2);
    assert_true(filled(pair.memory, 64, 4, kChunk / 2 - 63));
    assert_status(xfer_region_close(region), XFER_OK);
    assert_int_equal(questions_of(&pair, device + 100), 2);
    fake_cuda_free(device);
}

/* A batch names memory that was freed since, and is another allocation now, in a region or not. */
static void test_allocation_that_is_another(void **state) {
    Pair pair;
    xfer_batch_t *batches[2];
    xfer_region_t *region = NULL;
    pair_open(&pair, *state, kLength);
    fill(pair.memory, kChunk, 6);
    for (int lent = 0; lent < 2; lent++) {
        uint8_t *device = device_memory(kChunk, 4);
        if (lent)
            assert_status(
                xfer_region_open(pair.client->engine, NULL, device, kChunk, &region, NULL),
                XFER_OK);
        for (int i = 0; i < 2; i++)
            assert_status(xfer_batch_open(pair.ep, NULL, &batches[i], NULL), XFER_OK);
        assert_status(xfer_batch_put(batches[0], device, &pair.ref, 0, 64), XFER_OK);
        assert_status(xfer_batch_get(batches[1], device, &pair.ref, 0, 64), XFER_OK);
        assert_status(submit_now(pair.client, batches[1]), XFER_OK);
        fake_cuda_free(device);
        assert_ptr_equal(fake_cuda_alloc_at(kChunk, device), device);
        uint8_t *other = test_memory(kChunk);
        fill(other, kChunk, 5);
        fake_cuda_write(device, other, kChunk);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(xfer_batch_submit(batches[i], 7, NULL), XFER_OK);
            const xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 7, kPatience);
            assert_status(event.status, XFER_EIO);
            assert_int_equal(event.origin, XFER_ORIGIN_OS);
            assert_int_equal(event.native_code, EFAULT);
            assert_status(xfer_batch_close(batches[i]), XFER_OK);
        }
        assert_true(filled(pair.memory, kChunk, 6, 0));
        assert_device_filled(device, kChunk, 5, 0);
        if (region) assert_status(xfer_region_close(region), XFER_OK);
        assert_status(put_now(pair.client, pair.ep, device, &pair.ref, kHalf, 64), XFER_OK);
        fake_cuda_free(device);
    }
}

/* As of a pool, in an application that has no primary context. */
static void test_memory_of_no_context(void **state) {
    Pair pair;
    fake_cuda_without_context(1);
    pair_open(&pair, *state, kLength);
    uint8_t *device = device_memory(kChunk, 4);
    assert_status(put_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
    assert_true(filled(pair.memory, kChunk, 4, 0));
    fill(pair.memory, kChunk, 6);
    assert_status(get_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
    assert_device_filled(device, kChunk, 6, 0);
    fake_cuda_free(device);
    host_end(pair.client);
    host_end(pair.server);
    fake_cuda_without_context(0);
}

/* Of several allocations in one chunk each is asked about, whichever comes first. */
static void test_one_of_two_that_is_another(void **state) {
    Pair pair;
    xfer_batch_t *batch;
    pair_open(&pair, *state, kLength);
    fill(pair.memory, kChunk, 6);
    for (int freed = 0; freed < 2; freed++) {
        uint8_t *two[] = {device_memory(kChunk, 4), device_memory(kChunk, 4)};
        const xfer_span_t spans[] = {{(uintptr_t)two[0], 0, 64}, {(uintptr_t)two[1], 64, 64}};
        assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
        assert_status(
            xfer_batch_add_spans(batch, XFER_OP_GET, &pair.ref, spans, sizeof *spans, 2, NULL),
            XFER_OK);
        fake_cuda_free(two[freed]);
        assert_ptr_equal(fake_cuda_alloc_at(kChunk, two[freed]), two[freed]);
        uint8_t *other = test_memory(kChunk);
        fill(other, kChunk, 5);
        fake_cuda_write(two[freed], other, kChunk);
        assert_status(submit_now(pair.client, batch), XFER_EIO);
        assert_status(xfer_batch_close(batch), XFER_OK);
        assert_device_filled(two[freed], kChunk, 5, 0);
        for (int i = 0; i < 2; i++)
            fake_cuda_free(two[i]);
    }
}

/* Of memory that is mapped, nothing is copied where no mapping is any more. */
static void test_mapping_that_is_a_hole(void **state) {
    Pair pair;
    xfer_batch_t *batch;
    uint8_t *host = test_memory(kChunk);
    pair_open(&pair, *state, kLength);
    for (int half = 0; half < 2; half++) {
        const uint64_t left = half ? 0 : kChunk / 2;
        uint8_t *device = fake_cuda_map(kChunk);
        xfer_region_t *region =
            open_region(pair.server, "mapped", XFER_READ | XFER_WRITE, device, kChunk);
        const xfer_ref_t ref = look_up(pair.client, pair.ep, "mapped");
        assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
        assert_status(xfer_batch_put(batch, device, &pair.ref, 0, kChunk), XFER_OK);
        assert_status(submit_now(pair.client, batch), XFER_OK);
        assert_status(put_now(pair.client, pair.ep, host, &ref, 0, kChunk), XFER_OK);
        fake_cuda_unmap(device, half);
        assert_status(xfer_batch_submit(batch, 7, NULL), XFER_OK);
        const xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 7, kPatience);
        assert_status(event.status, XFER_EIO);
        assert_int_equal(event.origin, XFER_ORIGIN_OS);
        assert_int_equal(event.native_code, EFAULT);
        assert_status(put_now(pair.client, pair.ep, host, &ref, 0, kChunk), XFER_EIO);
        assert_status(get_now(pair.client, pair.ep, host, &ref, 0, kChunk), XFER_EIO);
        assert_status(get_now(pair.client, pair.ep, host, &ref, left, kChunk / 2), XFER_OK);
        assert_status(xfer_batch_close(batch), XFER_OK);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(pair.server, region);
        fake_cuda_free(device);
    }
}

/* ---- a driver that fails ---- */

/* A copy that can't be waited for goes on, and its memory is in use until it is over. */
static void test_wait_that_fails(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    void *from = device_memory(kChunk, 1), *into = device_memory(kChunk, 2);
    assert_status(put_now(pair.client, pair.ep, from, &pair.ref, 0, kChunk), XFER_OK);
    for (int i = 0; i < 2; i++) {
        const uint32_t kind = i ? XFER_EVENT_GET : XFER_EVENT_PUT;
        fake_cuda_hold(1);
        fake_cuda_fail("cuEventSynchronize", 1, CUDA_ERROR_INVALID_VALUE, 0);
        i ? get(&pair, into, 0, kChunk, 1) : put(&pair, from, 0, kChunk, 1, 0);
        pass_ms(100);
        assert_int_equal(count_events(pair.client, kind, 1), 0);
        fake_cuda_hold(0);
        assert_status(wait_event(pair.client, kind, 1, kPatience).status, XFER_EIO);
        fake_cuda_free(i ? into : from);
    }
}

/* A part of it is with a peer that has stopped, and another in a copy: when that is over, the
 * peer's word is waited for as ever, and not longer. */
static void test_stopped_peer_and_a_copy(void **state) {
    Peer peer;
    peer_start(&peer, preferred("tcp://127.0.0.1:0"), kLength, 0);
    xfer_engine_options_t patient = host_options(*state);
    patient.heartbeat_ms = 60000;
    Host *client = host_open_with(*state, &patient);
    xfer_ep_t *ep = open_ep(client, peer.uri);
    xfer_ref_t ref = look_up(client, ep, "memory");
    void *from = device_memory(kChunk, 1);
    xfer_batch_t *batch;
    assert_status(put_now(client, ep, from, &ref, 0, kChunk), XFER_OK);
    assert_status(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, test_memory(kChunk), &ref, 0, kChunk), XFER_OK);
    assert_status(xfer_batch_put(batch, from, &ref, kChunk, kChunk), XFER_OK);
    peer_signal(&peer, SIGSTOP);
    fake_cuda_hold(1);
    const xfer_submit_options_t options = {.size = sizeof options, .timeout_ms = 1000};
    const unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync");
    assert_status(xfer_batch_submit(batch, 1, &options), XFER_OK);
    await_copies("cuMemcpyDtoHAsync", copies, 1);
    pass_ms(1300);
    assert_int_equal(count_events(client, XFER_EVENT_BATCH, 1), 0);
    const uint64_t before = now_ms();
    fake_cuda_hold(0);
    assert_status(wait_event(client, XFER_EVENT_BATCH, 1, kPatience).status, XFER_ETIMEDOUT);
    assert_true(now_ms() - before < kPatience / 2); /* a heartbeat takes longer */
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_free(from);
    peer_kill(&peer);
}

static void test_failing_calls(void **state) {
    static const char *const calls[] = {"cuDeviceGet",
                                        "cuDevicePrimaryCtxGetState",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxPushCurrent",
                                        "cuStreamCreate",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventSynchronize",
                                        "cuMemcpyDtoHAsync",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemHostRegister"};
    uint8_t *device = device_memory(4 * kChunk, 1);
    int failures = 0;
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
        for (int nth = 1; nth <= 3; nth++) {
            Pair pair;
            pair_open(&pair, *state, kLength);
            const int sticky = nth == 3;
            fake_cuda_fail(calls[call], nth, CUDA_ERROR_ILLEGAL_ADDRESS, sticky);
            fake_cuda_hold(1);
            put(&pair, device, 0, 4 * kChunk, 1, 0);
            get(&pair, device, 0, 4 * kChunk, 2);
            fake_cuda_hold(0);
            const xfer_event_t events[] = {wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience),
                                           wait_event(pair.client, XFER_EVENT_GET, 2, kPatience)};
            for (int i = 0; i < 2; i++) {
                if (events[i].status == XFER_OK) continue;
                failures++;
                assert_status(events[i].status, XFER_EIO);
                assert_int_equal(events[i].origin, XFER_ORIGIN_CUDA);
                assert_int_equal(events[i].native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
            }
            uint8_t *host = test_memory(64);
            assert_status(put_now(pair.client, pair.ep, host, &pair.ref, 0, 64), XFER_OK);
            fake_cuda_fail(NULL, 0, 0, 0);
            assert_status(put_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
            assert_status(get_now(pair.client, pair.ep, device, &pair.ref, 0, kChunk), XFER_OK);
            host_end(pair.client);
            host_end(pair.server);
        }
    }
    assert_in_range(failures, 2 * (sizeof calls / sizeof *calls), 1000);
    fake_cuda_free(device);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_sizes),
    EACH_WAY(test_many),
    EACH_WAY(test_batch),
    EACH_WAY(test_refused),
    EACH_WAY(test_device_that_stalls),
    EACH_WAY(test_stall_of_a_region),
    DEVICE_TEST(test_stall_behind_a_stall, 1, "thread/1"),
    EACH_WAY(test_cancel_in_a_copy),
    EACH_WAY(test_cancel_before_a_copy),
    EACH_WAY(test_peer_killed_in_a_copy),
    EACH_WAY(test_close_in_a_copy),
    EACH_WAY(test_stopped_peer_leaves_room),
    EACH_WAY(test_allocations_that_touch),
    EACH_WAY(test_pointer_into_a_region),
    EACH_WAY(test_allocation_that_is_another),
    EACH_WAY(test_one_of_two_that_is_another),
    EACH_WAY(test_memory_of_no_context),
    EACH_WAY(test_mapping_that_is_a_hole),
    EACH_WAY(test_wait_that_fails),
    EACH_WAY(test_stopped_peer_and_a_copy),
    DEVICE_TEST(test_failing_calls, 1, "thread/1"),
};

TEST_MAIN(tests)
