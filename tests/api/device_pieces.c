/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of many pieces of a device's memory: what the driver is asked for, and that the bytes
 * are those of one copy behind the other, whatever it can. */
#include <string.h>

#include "device_memory.h"

enum {
    kPage = 4096,
    kPages = 192,
    /* whole chunks */ kAll = 2 * kPages * kPage,
    kChunks = kPages * kPage / kChunk
};

static const char kEach[2][20] = {"cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"};
#define kBatch "cuMemcpyBatchAsync"

static uint32_t op_of(int way) {
    return way == 0 ? XFER_OP_PUT : XFER_OP_GET;
}

/* Pages of the device, the last one first and with a gap behind each, to or from as many that
 * touch. */
static void move_pages(Pair *pair, int way, uint8_t *device) {
    uint32_t pages[kPages];
    xfer_batch_t *batch;
    for (uint32_t i = 0; i < kPages; i++)
        pages[i] = kPages - 1 - i;
    const xfer_page_base_t base = {.local = (uintptr_t)device, .remote = &pair->ref};
    const xfer_pages_t table = {.size = sizeof table,
                                .base_size = sizeof base,
                                .index_size = 4,
                                .length = kPage,
                                .count = kPages,
                                .base_count = 1,
                                .local_pages = pages,
                                .remote_pages = pages,
                                .local_stride = 2 * kPage,
                                .bases = &base};
    assert_status(xfer_batch_open(pair->ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(batch, op_of(way), &table, NULL), XFER_OK);
    assert_status(submit_now(pair->client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

static void assert_moved(Pair *pair, int way, const uint8_t *device, uint64_t seed) {
    uint8_t *page = test_memory(kPage);
    for (uint64_t i = 0; i < kPages; i++) {
        const uint64_t near = 2 * i * kPage, far = i * kPage, from = way == 0 ? near : far;
        const uint8_t *moved = pair->memory + far;
        if (way == 1) fake_cuda_read(page, device + near, kPage);
        assert_true(filled(way == 0 ? moved : page, kPage, seed, from));
    }
}

#if CUDA_VERSION >= 12080
enum { kFirst = 0 };
#else
enum { kFirst = 4 }; /* nothing of this build asks for it */
#endif

/* What a driver says to the call for many, and what it is asked instead. */
static const struct {
    const char *name, *lacking, *refused;
    int fails_in, error;
    unsigned batches[2], each; /* by way */
} drivers[] = {
    {"takes them all", NULL, NULL, 0, 0, {kChunks, kChunks}, 0},
    {"refuses one", NULL, NULL, 2, CUDA_ERROR_INVALID_VALUE, {kChunks, kChunks}, kChunk / kPage},
    {"refuses all", NULL, NULL, 1, CUDA_ERROR_NOT_SUPPORTED, {1, 0}, kPages},
    {"refuses one after the other", NULL, kBatch, 0, 0, {3, 0}, kPages},
    {"is too old", kBatch, NULL, 0, 0, {0, 0}, kPages},
};

static void test_scattered_pages(void **state) {
    for (size_t i = kFirst; i < sizeof drivers / sizeof *drivers; i++) {
        Pair pair;
        print_message("a driver that %s\n", drivers[i].name);
        fake_cuda_lack(drivers[i].lacking);
        fake_cuda_refuse(drivers[i].refused);
        pair_open(&pair, *state, kAll);
        uint8_t *device = device_memory(kAll, 3);
        assert_status(put_now(pair.client, pair.ep, device, &pair.ref, 0, 64), XFER_OK);
        for (int way = 0; way < 2; way++) {
            const unsigned batches = fake_cuda_calls(kBatch), each = fake_cuda_calls(kEach[way]);
            if (way == 1) fill(pair.memory, kAll, 4);
            fake_cuda_fail(drivers[i].error ? kBatch : NULL, drivers[i].fails_in, drivers[i].error,
                           0);
            move_pages(&pair, way, device);
            assert_moved(&pair, way, device, way == 0 ? 3 : 4);
            assert_int_equal(fake_cuda_calls(kBatch) - batches, drivers[i].batches[way]);
            assert_int_equal(fake_cuda_calls(kEach[way]) - each, drivers[i].each);
        }
        fake_cuda_fail(NULL, 0, 0, 0);
        host_end(pair.client);
        host_end(pair.server);
        fake_cuda_free(device);
    }
    fake_cuda_lack(NULL);
    fake_cuda_refuse(NULL);
}

/* Pages that touch on the device are one copy of it, wherever the peer has them. */
static void test_pages_that_touch(void **state) {
    Pair pair;
    pair_open(&pair, *state, kAll);
    uint8_t *device = device_memory(kAll, 5);
    xfer_batch_t *batch;
    const xfer_strided_t strided = {.size = sizeof strided,
                                    .local = (uintptr_t)device,
                                    .local_stride = kPage,
                                    .remote = &pair.ref,
                                    .remote_stride = 2 * kPage,
                                    .length = kPage,
                                    .count = kChunk / kPage};
    for (int way = 0; way < 2; way++) {
        const unsigned batches = fake_cuda_calls(kBatch), each = fake_cuda_calls(kEach[way]);
        if (way == 1) fill(pair.memory, kAll, 6);
        assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
        assert_status(xfer_batch_add_strided(batch, op_of(way), &strided, NULL), XFER_OK);
        assert_status(submit_now(pair.client, batch), XFER_OK);
        assert_status(xfer_batch_close(batch), XFER_OK);
        assert_int_equal(fake_cuda_calls(kBatch) - batches, 0);
        assert_int_equal(fake_cuda_calls(kEach[way]) - each, 1);
        for (uint64_t i = 0; i < kChunk / kPage; i++) {
            if (way == 0)
                assert_true(filled(pair.memory + 2 * i * kPage, kPage, 5, i * kPage));
            else
                assert_device_filled(device + i * kPage, kPage, 6, 2 * i * kPage);
        }
    }
    fake_cuda_free(device);
}

/* Pieces that land on each other: the last one stays, though the driver keeps no order. */
static void test_pieces_that_overlap(void **state) {
    Pair pair;
    xfer_batch_t *batch;
    uint8_t landed[96];
    pair_open(&pair, *state, kAll);
    uint8_t *device = device_memory(kAll, 7);
    fill(pair.memory, kAll, 8);
    const unsigned batches = fake_cuda_calls(kBatch);
    const xfer_span_t spans[] = {{(uintptr_t)device + 32, 1000, 64},
                                 {(uintptr_t)device + 4096, 8192, 10},
                                 {(uintptr_t)device, 2000, 64}};
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_GET, &pair.ref, spans, sizeof *spans, 3, NULL),
        XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
    fake_cuda_read(landed, device, sizeof landed);
    assert_memory_equal(landed, pair.memory + 2000, 64);
    assert_memory_equal(landed + 64, pair.memory + 1032, 32);
    assert_int_equal(fake_cuda_calls(kBatch), batches);
    fake_cuda_free(device);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_scattered_pages),
    EACH_WAY(test_pages_that_touch),
    EACH_WAY(test_pieces_that_overlap),
};

TEST_MAIN(tests)
