/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions that are memory of a device, over any path (device_memory.h). What is told as applied is
 * in it; what is told as over is not copied any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/text.h>

#include "device_memory.h"
#include "peer.h"

static const char kPut[] = "cuMemcpyHtoDAsync", kGet[] = "cuMemcpyDtoHAsync";

/* A pair whose server has lent memory of the device, too. */
typedef struct Lent {
    Pair pair;
    uint8_t *device;
    xfer_region_t *region;
    xfer_ref_t ref;
} Lent;

static void lend(Lent *lent, const Mode *mode) {
    pair_open(&lent->pair, mode, kLength);
    lent->device = device_memory(kLength, 1);
    lent->region =
        open_region(lent->pair.server, "device", XFER_READ | XFER_WRITE, lent->device, kLength);
    lent->ref = look_up(lent->pair.client, lent->pair.ep, "device");
}

static void put(Lent *lent, const void *local, uint64_t offset, uint64_t length, uint64_t user) {
    assert_status(xfer_put(lent->pair.ep, local, &lent->ref, offset, length, user, NULL), XFER_OK);
}

static void get(Lent *lent, void *local, uint64_t offset, uint64_t length, uint64_t user) {
    assert_status(xfer_get(lent->pair.ep, local, &lent->ref, offset, length, user, NULL), XFER_OK);
}

static xfer_event_t wait_of(Lent *lent, uint32_t kind, uint64_t user) {
    return wait_event(lent->pair.client, kind, user, kPatience);
}

static void *host_memory(uint64_t length, uint64_t seed) {
    void *memory = test_memory(length);
    fill(memory, length, seed);
    return memory;
}

/* ---- bytes ---- */

static void test_sizes(void **state) {
    const uint64_t sizes[] = {1, 8, 4095, 65536, kChunk, kChunk + 1, 5 * kChunk + 3, kHalf};
    Lent lent;
    lend(&lent, *state);
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t length = sizes[i];
        uint8_t around[2] = {0xaa, 0xbb};
        void *from = host_memory(length, 10 + i), *to = test_memory(length);
        fake_cuda_write(lent.device + 6, around, 1);
        fake_cuda_write(lent.device + 7 + length, around + 1, 1);
        assert_status(put_now(lent.pair.client, lent.pair.ep, from, &lent.ref, 7, length), XFER_OK);
        assert_device_filled(lent.device + 7, length, 10 + i, 0);
        fake_cuda_read(around, lent.device + 6, 1);
        fake_cuda_read(around + 1, lent.device + 7 + length, 1);
        assert_true(around[0] == 0xaa && around[1] == 0xbb);
        assert_status(get_now(lent.pair.client, lent.pair.ep, to, &lent.ref, 7, length), XFER_OK);
        assert_true(filled(to, length, 10 + i, 0));
    }
    /* Nothing, behind its end: alone, and before something. */
    xfer_batch_t *batch;
    uint8_t *from = host_memory(64, 3);
    assert_status(put_now(lent.pair.client, lent.pair.ep, from, &lent.ref, kLength, 0), XFER_OK);
    assert_status(get_now(lent.pair.client, lent.pair.ep, from, &lent.ref, kLength, 0), XFER_OK);
    assert_status(xfer_batch_open(lent.pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, from, &lent.ref, kLength, 0), XFER_OK);
    assert_status(xfer_batch_put(batch, from, &lent.ref, 0, 64), XFER_OK);
    assert_status(submit_now(lent.pair.client, batch), XFER_OK);
    assert_device_filled(lent.device, 64, 3, 0);
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_free(lent.device);
}

/* From a device, into one, and to one's own region. */
static void test_both_sides(void **state) {
    Lent lent;
    lend(&lent, *state);
    uint8_t *local = device_memory(kHalf, 4), *into = device_memory(kHalf, 5);
    assert_status(put_now(lent.pair.client, lent.pair.ep, local, &lent.ref, 0, kHalf), XFER_OK);
    assert_device_filled(lent.device, kHalf, 4, 0);
    assert_status(get_now(lent.pair.client, lent.pair.ep, into, &lent.ref, kHalf, kHalf), XFER_OK);
    assert_device_filled(into, kHalf, 1, kHalf);
    /* A pointer into a region of this engine's is a device's for all that. */
    xfer_ep_t *self = open_ep(lent.pair.server, lent.pair.server->uri);
    assert_status(put_now(lent.pair.server, self, lent.device, &lent.ref, kHalf, kHalf), XFER_OK);
    assert_device_filled(lent.device + kHalf, kHalf, 4, 0);
    void *host = test_memory(kHalf);
    assert_status(get_now(lent.pair.server, self, host, &lent.ref, kHalf, kHalf), XFER_OK);
    assert_true(filled(host, kHalf, 4, 0));
    fake_cuda_free(local);
    fake_cuda_free(into);
    fake_cuda_free(lent.device);
}

/* More chunks than slots, both ways at once, and pages. */
static void test_many(void **state) {
    enum { kPage = 4096, kPages = 3000, kCount = 3 * kSlots };
    Lent lent;
    xfer_batch_t *batch;
    uint32_t pages[kPages];
    lend(&lent, *state);
    uint8_t *from = host_memory(kHalf, 6), *to = test_memory(kHalf);
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t at = i % (kHalf / kChunk) * kChunk;
        put(&lent, from + at, at, kChunk, 1000 + i);
        get(&lent, to + at, kHalf + at, kChunk, 2000 + i);
    }
    for (uint64_t i = 0; i < kCount; i++) {
        assert_status(wait_of(&lent, XFER_EVENT_PUT, 1000 + i).status, XFER_OK);
        assert_status(wait_of(&lent, XFER_EVENT_GET, 2000 + i).status, XFER_OK);
    }
    assert_device_filled(lent.device, kHalf, 6, 0);
    assert_true(filled(to, kHalf, 1, kHalf));
    for (uint32_t i = 0; i < kPages; i++)
        pages[i] = kPages - 1 - i;
    fill(from, kHalf, 7);
    const xfer_page_base_t base = {.local = (uintptr_t)from, .remote = &lent.ref, .offset = 64};
    const xfer_pages_t table = {.size = sizeof table,
                                .base_size = sizeof base,
                                .index_size = 4,
                                .length = kPage,
                                .count = kPages,
                                .base_count = 1,
                                .local_pages = pages,
                                .remote_pages = pages,
                                .bases = &base};
    assert_status(xfer_batch_open(lent.pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &table, NULL), XFER_OK);
    assert_status(submit_now(lent.pair.client, batch), XFER_OK);
    assert_device_filled(lent.device + 64, kPages * kPage, 7, 0);
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_free(lent.device);
}

/* With a checksum, which is of what travels. */
static void test_checked(void **state) {
    Lent lent;
    xfer_engine_options_t options = host_options(*state);
    options.flags |= XFER_ENGINE_CHECKSUM;
    pair_open_with(&lent.pair, &options, &options, *state, kLength);
    lent.device = device_memory(kLength, 1);
    open_region(lent.pair.server, "device", XFER_READ | XFER_WRITE, lent.device, kLength);
    lent.ref = look_up(lent.pair.client, lent.pair.ep, "device");
    void *host = host_memory(kHalf, 2);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kHalf), XFER_OK);
    assert_device_filled(lent.device, kHalf, 2, 0);
    assert_status(get_now(lent.pair.client, lent.pair.ep, host, &lent.ref, kHalf, kHalf), XFER_OK);
    assert_true(filled(host, kHalf, 1, kHalf));
    fake_cuda_free(lent.device);
}

static void test_rules(void **state) {
    Lent lent;
    xfer_region_t *region;
    lend(&lent, *state);
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_ATOMIC};
    assert_status(
        xfer_region_open(lent.pair.server->engine, &options, lent.device, 64, &region, NULL),
        XFER_EMEMKIND);
    options.access = XFER_READ;
    options.kind = XFER_MEM_HOST;
    assert_status(
        xfer_region_open(lent.pair.server->engine, &options, lent.device, 64, &region, NULL),
        XFER_EMEMKIND);
    assert_status(
        xfer_region_open(lent.pair.server->engine, NULL, lent.device, kLength + 1, &region, NULL),
        XFER_ERANGE);
    xfer_region_info_t info;
    xfer_ref_info_t remote;
    uint64_t kinds = 0;
    assert_status(xfer_region_info(lent.region, &info, sizeof info), XFER_OK);
    assert_status(xfer_ref_info(&lent.ref, &remote, sizeof remote), XFER_OK);
    assert_status(xfer_engine_kinds(lent.pair.server->engine, &kinds), XFER_OK);
    assert_int_equal(info.kind, XFER_MEM_CUDA);
    assert_int_equal(remote.kind, XFER_MEM_CUDA);
    assert_int_equal(kinds, 1u << XFER_MEM_HOST | 1u << XFER_MEM_CUDA);
    void *host = test_memory(64);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, kLength - 8, 64),
                  XFER_ERANGE);
    fake_cuda_free(lent.device);
}

/* ---- copies that do not end ---- */

/* Neither is told before it is applied, whatever is behind it; what another peer moves goes on. */
static void test_applied(void **state) {
    enum { kCount = 100 };
    Lent lent;
    lend(&lent, *state);
    uint8_t *from = host_memory(kHalf, 3), *to = test_memory(kChunk), *host = test_memory(kChunk);
    Host *other = host_open(*state);
    xfer_ep_t *ep = open_ep(other, lent.pair.server->uri);
    assert_status(connect_now(other, ep, kPatience), XFER_OK);
    fake_cuda_hold(1);
    get(&lent, to, kHalf, kChunk, 500);
    for (uint64_t i = 0; i < kCount; i++)
        put(&lent, from + i % 48 * kChunk, i % 48 * kChunk, kChunk, 1000 + i);
    pass_ms(150);
    for (uint64_t i = 0; i < 20; i++)
        assert_status(put_now(other, ep, host, &lent.pair.ref, 0, kChunk), XFER_OK);
    assert_int_equal(count_events(lent.pair.client, XFER_EVENT_GET, 500), 0);
    for (uint64_t i = 0; i < kCount; i++)
        assert_int_equal(count_events(lent.pair.client, XFER_EVENT_PUT, 1000 + i), 0);
    assert_device_filled(lent.device, kHalf, 1, 0);
    fake_cuda_hold(0);
    for (uint64_t i = 0; i < kCount; i++)
        assert_status(wait_of(&lent, XFER_EVENT_PUT, 1000 + i).status, XFER_OK);
    assert_status(wait_of(&lent, XFER_EVENT_GET, 500).status, XFER_OK);
    assert_device_filled(lent.device, kHalf, 3, 0);
    assert_true(filled(to, kChunk, 1, kHalf));
    fake_cuda_free(lent.device);
}

/* The memory is its owner's again when CLOSED is told, and not before; requests that come later
 * are refused. */
static void test_closed_in_a_copy(void **state) {
    for (int way = 0; way < 2; way++) {
        Lent lent;
        lend(&lent, *state);
        uint8_t *host = host_memory(kHalf, 2);
        const unsigned before = fake_cuda_calls(way ? kGet : kPut);
        fake_cuda_hold(1);
        for (uint64_t i = 0; i < 40; i++)
            way ? get(&lent, host + i * kChunk, i * kChunk, kChunk, i)
                : put(&lent, host + i * kChunk, i * kChunk, kChunk, i);
        await_copies(way ? kGet : kPut, before, 1);
        assert_status(xfer_region_close(lent.region), XFER_OK);
        pass_ms(150);
        assert_int_equal(count_events(lent.pair.server, XFER_EVENT_CLOSED, ANY_USER), 0);
        fake_cuda_hold(0);
        wait_closed(lent.pair.server, lent.region);
        fake_cuda_free(lent.device);
        for (uint64_t i = 0; i < 40; i++) {
            const xfer_status_t status =
                wait_of(&lent, way ? XFER_EVENT_GET : XFER_EVENT_PUT, i).status;
            assert_true(status == XFER_OK || status == XFER_ESTALE);
        }
        assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.pair.ref, 0, kChunk),
                      XFER_OK);
        host_end(lent.pair.client);
        host_end(lent.pair.server);
    }
}

static void test_revoked_in_a_copy(void **state) {
    Lent lent;
    lend(&lent, *state);
    const xfer_grant_options_t options = {
        .size = sizeof options, .access = XFER_WRITE, .offset = kHalf, .length = kHalf, .user = 9};
    xfer_ref_t whole = lent.ref;
    assert_status(xfer_region_grant(lent.region, &options, &lent.ref, NULL), XFER_OK);
    void *host = host_memory(kChunk, 2);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_OK);
    assert_device_filled(lent.device + kHalf, kChunk, 2, 0);
    const unsigned before = fake_cuda_calls(kPut);
    fake_cuda_hold(1);
    put(&lent, host, kChunk, kChunk, 1);
    await_copies(kPut, before, 1);
    assert_status(xfer_region_revoke(lent.region, &lent.ref), XFER_OK);
    pass_ms(100);
    assert_int_equal(count_events(lent.pair.server, XFER_EVENT_REVOKED, 9), 0);
    fake_cuda_hold(0);
    wait_event(lent.pair.server, XFER_EVENT_REVOKED, 9, kPatience);
    wait_of(&lent, XFER_EVENT_PUT, 1);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk),
                  XFER_EREVOKED);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &whole, 0, kChunk), XFER_OK);
    fake_cuda_free(lent.device);
}

/* Behind its copies; one that failed, too. */
static void test_notification(void **state) {
    Lent lent;
    xfer_batch_t *batch;
    lend(&lent, *state);
    void *host = host_memory(4 * kChunk, 2);
    assert_status(xfer_batch_open(lent.pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, host, &lent.ref, 0, 4 * kChunk), XFER_OK);
    for (uint64_t round = 1; round <= 2; round++) {
        const xfer_submit_options_t options = {
            .size = sizeof options, .flags = XFER_SUBMIT_NOTIFY, .notify_key = round};
        const unsigned before = fake_cuda_calls(kPut);
        fake_cuda_hold(1);
        assert_status(xfer_batch_submit(batch, round, &options), XFER_OK);
        await_copies(kPut, before, 1);
        pass_ms(100);
        if (round == 2) {
            assert_status(xfer_cancel(lent.pair.client->engine, lent.pair.ep, round, ANY_USER),
                          XFER_OK);
            pass_ms(100);
        }
        assert_int_equal(count_events(lent.pair.server, XFER_EVENT_NOTIFY, ANY_USER), round - 1);
        fake_cuda_hold(0);
        const xfer_event_t told =
            wait_event(lent.pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
        assert_int_equal(told.tag, round);
        if (round == 1) {
            assert_status(told.status, XFER_OK);
            assert_device_filled(lent.device, 4 * kChunk, 2, 0);
        }
        wait_of(&lent, XFER_EVENT_BATCH, round);
    }
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_free(lent.device); /* nothing of either lands any more */
    pass_ms(50);
}

/* Its end is told behind the copies of what it has asked for. */
static int push(const char *uri) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_event_t event;
    uint8_t *local = calloc(1, kHalf);
    if (local == NULL || xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, uri, NULL, &ep, NULL) != XFER_OK ||
        xfer_ep_lookup(ep, "device", 1, NULL, NULL) != XFER_OK)
        return 3;
    for (uint32_t count = 0;;) {
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        if (count == 0 || event.kind != XFER_EVENT_LOOKUP) continue;
        xfer_ref_t ref;
        if (event.status != XFER_OK) return 5;
        memcpy(&ref, event.data, sizeof ref);
        for (uint64_t at = 0; at < kHalf; at += kChunk)
            if (xfer_put(ep, local + at, &ref, at, kChunk, at, NULL) != XFER_OK) return 6;
        if (xfer_get(ep, local, &ref, kHalf, kHalf, 1, NULL) != XFER_OK) return 7;
    }
}

static void test_initiator_killed(void **state) {
    Lent lent;
    Peer peer;
    lend(&lent, *state);
    const unsigned before = fake_cuda_calls(kPut);
    fake_cuda_hold(1);
    peer_start_role(&peer, "push", lent.pair.server->uri);
    await_copies(kPut, before, 1);
    const size_t down = count_events(lent.pair.server, XFER_EVENT_PEER_DOWN, ANY_USER);
    peer_kill(&peer);
    void *host = host_memory(kChunk, 2);
    for (int i = 0; i < 10; i++)
        assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.pair.ref, 0, kChunk),
                      XFER_OK);
    assert_status(xfer_region_close(lent.region), XFER_OK);
    pass_ms(100);
    assert_int_equal(count_events(lent.pair.server, XFER_EVENT_PEER_DOWN, ANY_USER), down);
    assert_int_equal(count_events(lent.pair.server, XFER_EVENT_CLOSED, ANY_USER), 0);
    fake_cuda_hold(0);
    wait_event(lent.pair.server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    wait_closed(lent.pair.server, lent.region);
    fake_cuda_free(lent.device);
    pass_ms(50);
}

/* An engine ends behind what its peers have in copies. */
static void test_owner_closed(void **state) {
    Lent lent;
    lend(&lent, *state);
    uint8_t *host = host_memory(kHalf, 2);
    const unsigned before = fake_cuda_calls(kPut);
    fake_cuda_hold(1);
    for (uint64_t i = 0; i < 40; i++)
        put(&lent, host + i * kChunk, i * kChunk, kChunk, i);
    get(&lent, host, kHalf, kChunk, 100);
    await_copies(kPut, before, 1);
    assert_status(xfer_engine_close(lent.pair.server->engine), XFER_OK);
    pass_ms(100);
    assert_false(lent.pair.server->saw_closed);
    fake_cuda_hold(0);
    host_end(lent.pair.server);
    fake_cuda_free(lent.device);
    assert_status(xfer_ep_close(lent.pair.ep), XFER_OK);
    for (uint64_t i = 0; i < 40; i++)
        wait_of(&lent, XFER_EVENT_PUT, i);
    wait_of(&lent, XFER_EVENT_GET, 100);
}

/* Operations of both that wait for each other's answers have room for those. */
static void test_crossed(void **state) {
    enum { kCount = 2 * kSlots };
    Lent lent;
    lend(&lent, *state);
    uint8_t *theirs = device_memory(kHalf, 8), *ours = device_memory(kHalf, 9);
    open_region(lent.pair.client, "mine", XFER_READ | XFER_WRITE, theirs, kHalf);
    host_listen(lent.pair.client, preferred("tcp://127.0.0.1:0"));
    xfer_ep_t *back = open_ep(lent.pair.server, lent.pair.client->uri);
    const xfer_ref_t mine = look_up(lent.pair.server, back, "mine");
    uint8_t *into[2] = {device_memory(kHalf, 10), device_memory(kHalf, 11)};
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t at = i % (kHalf / kChunk) * kChunk;
        get(&lent, into[0] + at, at, kChunk, i);
        assert_status(xfer_get(back, into[1] + at, &mine, at, kChunk, i, NULL), XFER_OK);
        put(&lent, ours + at, kHalf + at, kChunk, 1000 + i);
    }
    for (uint64_t i = 0; i < kCount; i++) {
        assert_status(wait_of(&lent, XFER_EVENT_GET, i).status, XFER_OK);
        assert_status(wait_of(&lent, XFER_EVENT_PUT, 1000 + i).status, XFER_OK);
        assert_status(wait_event(lent.pair.server, XFER_EVENT_GET, i, kPatience).status, XFER_OK);
    }
    assert_device_filled(into[0], kHalf, 1, 0);
    assert_device_filled(into[1], kHalf, 8, 0);
    assert_device_filled(lent.device + kHalf, kHalf, 9, 0);
    for (void **memory = (void *[]){theirs, ours, into[0], into[1], lent.device, NULL}; *memory;
         memory++)
        fake_cuda_free(*memory);
}

/* ---- a driver that fails ---- */

static void test_failing_copies(void **state) {
    static const char *const calls[] = {"cuCtxPushCurrent",   "cuEventRecord",
                                        "cuEventSynchronize", "cuMemcpyDtoHAsync",
                                        "cuMemcpyHtoDAsync",  "cuStreamCreate"};
    int failures = 0;
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++)
        for (int nth = 1; nth <= 3; nth++) {
            Lent lent;
            lend(&lent, *state);
            void *host = host_memory(4 * kChunk, 2);
            fake_cuda_fail(calls[call], nth, CUDA_ERROR_ILLEGAL_ADDRESS, nth == 3);
            put(&lent, host, 0, 4 * kChunk, 1);
            get(&lent, test_memory(4 * kChunk), kHalf, 4 * kChunk, 2);
            const xfer_event_t events[] = {wait_of(&lent, XFER_EVENT_PUT, 1),
                                           wait_of(&lent, XFER_EVENT_GET, 2)};
            for (int i = 0; i < 2; i++) {
                if (events[i].status == XFER_OK) continue;
                failures++;
                assert_status(events[i].status, XFER_EIO);
                assert_int_equal(events[i].origin, XFER_ORIGIN_PEER);
            }
            assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.pair.ref, 0, 64),
                          XFER_OK);
            fake_cuda_fail(NULL, 0, 0, 0);
            assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk),
                          XFER_OK);
            assert_device_filled(lent.device, kChunk, 2, 0);
            host_end(lent.pair.client);
            host_end(lent.pair.server);
            fake_cuda_free(lent.device);
        }
    assert_in_range(failures, sizeof calls / sizeof *calls, 1000);
}

/* What is at its address by then is left alone. */
static void test_freed_while_open(void **state) {
    Lent lent;
    void *both[2];
    lend(&lent, *state);
    void *host = host_memory(kChunk, 2);
    fake_cuda_alloc_pair(kChunk, both);
    xfer_region_t *region =
        open_region(lent.pair.server, "freed", XFER_READ | XFER_WRITE, both[0], kChunk);
    lent.ref = look_up(lent.pair.client, lent.pair.ep, "freed");
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_OK);
    fake_cuda_free(both[0]);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_EIO);
    assert_status(get_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_EIO);
    void *again = fake_cuda_alloc_at(kChunk, both[0]);
    uint8_t *bytes = test_memory(kChunk);
    fill(bytes, kChunk, 5);
    fake_cuda_write(again, bytes, kChunk);
    assert_status(put_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_EIO);
    assert_status(get_now(lent.pair.client, lent.pair.ep, host, &lent.ref, 0, kChunk), XFER_EIO);
    assert_device_filled(again, kChunk, 5, 0);
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(lent.pair.server, region);
    fake_cuda_free(again);
    fake_cuda_free(both[1]);
    fake_cuda_free(lent.device);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_sizes),
    EACH_WAY(test_both_sides),
    EACH_WAY(test_many),
    EACH_WAY(test_checked),
    EACH_WAY(test_rules),
    EACH_WAY(test_applied),
    EACH_WAY(test_closed_in_a_copy),
    EACH_WAY(test_revoked_in_a_copy),
    EACH_WAY(test_notification),
    EACH_WAY(test_initiator_killed),
    EACH_WAY(test_owner_closed),
    EACH_WAY(test_crossed),
    DEVICE_TEST(test_failing_copies, 1, "thread/1"),
    EACH_WAY(test_freed_while_open),
};

TEST_MAIN_AFTER(tests, peer_role("push", push))
