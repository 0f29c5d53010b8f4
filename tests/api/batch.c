/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that move data: spans, strided, pages, mixed, prepared once and submitted often, very
 * many pieces, and the statuses of entries. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static xfer_batch_t *open_batch(xfer_ep_t *ep) {
    xfer_batch_t *batch = NULL;
    xfer_error_t err;
    assert_status(xfer_batch_open(ep, NULL, &batch, &err), XFER_OK);
    assert_int_equal(err.status, XFER_OK);
    return batch;
}

static void test_spans(void **state) {
    Pair pair;
    const uint64_t room = 1 << 20;
    enum { kSpans = 64, kSpan = 1000 };
    pair_open(&pair, *state, room);
    uint8_t *local = test_memory(room);
    struct {
        xfer_span_t span;
        uint64_t more; /* of a later version, and not set */
    } spans[kSpans];
    for (uint64_t i = 0; i < kSpans; i++) {
        fill(local + i * 4096, kSpan, i);
        spans[i].span =
            (xfer_span_t){(uintptr_t)(local + i * 4096), (kSpans - 1 - i) * 2048 + i, kSpan};
        spans[i].more = 0;
    }
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, &spans[0].span,
                                       sizeof spans[0], kSpans, NULL),
                  XFER_OK);
    assert_status(xfer_batch_submit(batch, 9, NULL), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 9, kPatience);
    assert_status(event.status, XFER_OK);
    assert_completion(&event);
    assert_ptr_equal(event.object, batch);
    assert_ptr_equal(event.ep, pair.ep);
    assert_int_equal(event.bytes, kSpans * kSpan);
    for (uint64_t i = 0; i < kSpans; i++)
        assert_true(filled(pair.memory + spans[i].span.offset, kSpan, i, 0));
    for (uint64_t i = 0; i < kSpans; i++)
        spans[i].span.local = (uintptr_t)(local + 512 * 1024 + i * 1024);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_GET, &pair.ref, &spans[0].span,
                                       sizeof spans[0], kSpans, NULL),
                  XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (uint64_t i = 0; i < kSpans; i++)
        assert_true(filled(local + 512 * 1024 + i * 1024, kSpan, i, 0));
}

static void test_strided(void **state) {
    Pair pair;
    pair_open(&pair, *state, 1 << 20);
    uint8_t *local = test_memory(1 << 20);
    uint8_t *back = test_memory(1 << 20);
    fill(local, 1 << 20, 1);
    xfer_batch_t *batch = open_batch(pair.ep);
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)(local + 10),
                              .local_stride = 700,
                              .remote = &pair.ref,
                              .offset = 5,
                              .remote_stride = 1300,
                              .length = 333,
                              .count = 500};
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (uint64_t i = 0; i < 500; i++) {
        assert_true(filled(pair.memory + 5 + i * 1300, 333, 1, 10 + i * 700));
        for (uint64_t k = 333; k < 1300; k++)
            assert_int_equal(pair.memory[5 + i * 1300 + k], 0);
    }
    assert_status(xfer_batch_reset(batch), XFER_OK);
    strided.local = (uintptr_t)back;
    assert_status(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, NULL), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (uint64_t i = 0; i < 500; i++)
        assert_true(filled(back + i * 700, 333, 1, 10 + i * 700));
    xfer_status_t statuses[500];
    assert_status(xfer_batch_entries(batch, 0, 500, statuses),
                  XFER_OK); /* each block is an entry */
    assert_status(xfer_batch_entries(batch, 0, 501, statuses), XFER_ERANGE);
}

/* ---- pages ---- */

static void shuffle(uint64_t *list, uint64_t count, uint64_t random) {
    for (uint64_t i = 0; i < count; i++)
        list[i] = i;
    for (uint64_t i = count - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t other = (random >> 33) % (i + 1);
        uint64_t page = list[i];
        list[i] = list[other];
        list[other] = page;
    }
}

/* As a KV cache: `layers` arrays on each side, one page table for all of them. */
static void move_pages(const Mode *mode, uint64_t layers, uint64_t count, uint64_t page_size) {
    Pair pair;
    const uint64_t layer = count * 2 * page_size; /* twice as many pages as are moved */
    pair_open(&pair, mode, layers * layer + 100);
    uint8_t *local = test_memory(layers * layer);
    uint8_t *back = test_memory(layers * layer);
    uint64_t *local_pages = test_memory(count * 2 * sizeof *local_pages);
    uint64_t *remote_pages = test_memory(count * 2 * sizeof *remote_pages);
    xfer_page_base_t *bases = test_memory(layers * sizeof *bases);
    fill(local, layers * layer, 3);
    shuffle(local_pages, count * 2, 1);
    shuffle(remote_pages, count * 2, 2);
    for (uint64_t b = 0; b < layers; b++) {
        bases[b] = (xfer_page_base_t){(uintptr_t)(local + b * layer), &pair.ref, 100 + b * layer};
    }
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof *bases,
                          .index_size = 8,
                          .length = page_size,
                          .count = count,
                          .local_pages = local_pages,
                          .remote_pages = remote_pages,
                          .bases = bases,
                          .base_count = layers};
    xfer_batch_t *put = open_batch(pair.ep);
    xfer_batch_t *get = open_batch(pair.ep);
    assert_status(xfer_batch_add_pages(put, XFER_OP_PUT, &pages, NULL), XFER_OK);
    for (uint64_t b = 0; b < layers; b++)
        bases[b].local = (uintptr_t)(back + b * layer);
    assert_status(xfer_batch_add_pages(get, XFER_OP_GET, &pages, NULL), XFER_OK);
    /* The lists were copied. */
    uint64_t *kept_local = test_memory(count * sizeof *kept_local);
    uint64_t *kept_remote = test_memory(count * sizeof *kept_remote);
    memcpy(kept_local, local_pages, count * sizeof *kept_local);
    memcpy(kept_remote, remote_pages, count * sizeof *kept_remote);
    memset(local_pages, 0xff, count * sizeof *local_pages);
    memset(remote_pages, 0xff, count * sizeof *remote_pages);
    memset(bases, 0xff, layers * sizeof *bases);
    assert_status(submit_now(pair.client, put), XFER_OK);
    for (uint64_t b = 0; b < layers; b++) {
        for (uint64_t i = 0; i < count; i++) {
            const uint8_t *page = pair.memory + 100 + b * layer + kept_remote[i] * page_size;
            assert_true(filled(page, page_size, 3, b * layer + kept_local[i] * page_size));
        }
    }
    assert_status(submit_now(pair.client, get), XFER_OK);
    for (uint64_t b = 0; b < layers; b++) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = b * layer + kept_local[i] * page_size;
            assert_true(filled(back + at, page_size, 3, at));
        }
    }
    xfer_status_t *statuses = test_memory(layers * count * sizeof *statuses);
    assert_status(xfer_batch_entries(put, 0, layers * count, statuses), XFER_OK);
    assert_status(xfer_batch_entries(put, 1, layers * count, statuses), XFER_ERANGE);
}

static void test_pages_one_base(void **state) {
    move_pages(*state, 1, 500, 4096);
}

static void test_pages_many_bases(void **state) {
    move_pages(*state, 32, 40, 1000);
}

static void test_pages_of_one_byte(void **state) {
    move_pages(*state, 2, 3000, 1);
}

static void test_pages_larger_than_a_chunk(void **state) {
    move_pages(*state, 2, 3, (512 << 10) + 8);
}

/* As between two degrees of tensor parallelism: a page is dense here, its rows lie apart there. The
 * schedulers' tables have 32 bits. */
static void test_pages_with_rows(void **state) {
    enum { kRows = 5, kRow = 48, kApart = 200, kPages = 70, kThere = 1100, kHere = 256 };
    Pair pair;
    pair_open(&pair, *state, kPages * kThere);
    uint8_t *local = test_memory(kPages * kHere), *back = test_memory(kPages * kHere);
    uint8_t *wanted = test_memory(kPages * kThere);
    uint64_t shuffled[kPages];
    int32_t here[kPages], there[kPages];
    shuffle(shuffled, kPages, 3);
    for (int i = 0; i < kPages; i++)
        here[i] = i, there[i] = (int32_t)shuffled[i];
    fill(local, kPages * kHere, 4);
    for (int i = 0; i < kPages; i++)
        for (int row = 0; row < kRows; row++)
            memcpy(wanted + there[i] * kThere + row * kApart, local + i * kHere + row * kRow, kRow);
    xfer_page_base_t base = {(uintptr_t)local, &pair.ref, 0};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 4,
                          .length = kRow,
                          .local_stride = kHere,
                          .remote_stride = kThere,
                          .count = kPages,
                          .local_pages = here,
                          .remote_pages = there,
                          .bases = &base,
                          .base_count = 1,
                          .rows = kRows,
                          .remote_row_stride = kApart};
    xfer_batch_t *put = open_batch(pair.ep), *get = open_batch(pair.ep);
    assert_status(xfer_batch_add_pages(put, XFER_OP_PUT, &pages, NULL), XFER_OK);
    base.local = (uintptr_t)back;
    assert_status(xfer_batch_add_pages(get, XFER_OP_GET, &pages, NULL), XFER_OK);
    assert_status(submit_now(pair.client, put), XFER_OK);
    assert_memory_equal(pair.memory, wanted, kPages * kThere);
    assert_status(submit_now(pair.client, get), XFER_OK);
    for (int i = 0; i < kPages; i++) {
        assert_memory_equal(back + i * kHere, local + i * kHere, kRows * kRow);
        for (int gap = kRows * kRow; gap < kHere; gap++)
            assert_int_equal(back[i * kHere + gap], 0);
    }
    xfer_status_t status;
    assert_status(xfer_batch_entries(put, kPages - 1, 1, &status), XFER_OK);
    assert_status(xfer_batch_entries(put, kPages, 1, &status), XFER_ERANGE);
}

static void test_refused_pages(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    const uint32_t small[] = {0, 3};
    const uint64_t large[] = {0, 3}, none[] = {0, UINT64_MAX};
    const int32_t minus[] = {0, -1};
    const xfer_page_base_t base = {(uintptr_t)local, &pair.ref, 0};
    const xfer_pages_t good = {.size = sizeof good,
                               .base_size = sizeof base,
                               .index_size = 4,
                               .length = 128,
                               .count = 2,
                               .local_pages = small,
                               .remote_pages = small,
                               .bases = &base,
                               .base_count = 1,
                               .rows = 8};
    const struct {
        xfer_pages_t pages;
        xfer_status_t status;
    } table[] = {
#define PAGES(status, ...) {{.size = 1, __VA_ARGS__}, status}
        PAGES(XFER_EINVAL, .index_size = 3),
        PAGES(XFER_EINVAL, .index_size = 16),
        PAGES(XFER_ERANGE, .local_pages = minus),
        PAGES(XFER_ERANGE, .remote_pages = minus),
        PAGES(XFER_ERANGE, .index_size = 8, .local_pages = none, .remote_pages = large),
        PAGES(XFER_ERANGE, .index_size = 8, .local_pages = large, .remote_pages = none),
        PAGES(XFER_ERANGE, .rows = 9),
        PAGES(XFER_ERANGE, .rows = UINT64_MAX),
        PAGES(XFER_ERANGE, .remote_row_stride = 129),
        PAGES(XFER_ERANGE, .local_row_stride = UINT64_MAX / 2),
        PAGES(XFER_ERANGE, .remote_stride = 1025),
#undef PAGES
    };
    xfer_batch_t *batch = open_batch(pair.ep);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const xfer_pages_t *row = &table[i].pages;
        xfer_pages_t pages = good;
        if (row->index_size) pages.index_size = row->index_size;
        if (row->local_pages) pages.local_pages = row->local_pages;
        if (row->remote_pages) pages.remote_pages = row->remote_pages;
        if (row->rows) pages.rows = row->rows;
        pages.local_row_stride = row->local_row_stride;
        pages.remote_row_stride = row->remote_row_stride;
        pages.remote_stride = row->remote_stride;
        xfer_error_t err;
        if (xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, &err) != table[i].status)
            fail_msg("row %zu: %s, %s", i, xfer_status_name(err.status), err.message);
    }
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &good, NULL), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
}

/* Bases of one batch may lie in different regions of the peer. */
static void test_pages_over_regions(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64 * 64);
    uint8_t *second = test_memory(64 * 64);
    open_region(pair.server, "second", XFER_READ | XFER_WRITE, second, 64 * 64);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "second");
    uint8_t *local = test_memory(2 * 64 * 64);
    fill(local, 2 * 64 * 64, 7);
    uint64_t list[64];
    shuffle(list, 64, 9);
    xfer_page_base_t bases[2] = {{(uintptr_t)local, &pair.ref, 0},
                                 {(uintptr_t)(local + 64 * 64), &ref, 0}};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof bases[0],
                          .index_size = 8,
                          .length = 64,
                          .count = 64,
                          .local_pages = list,
                          .remote_pages = list,
                          .bases = bases,
                          .base_count = 2};
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_true(filled(pair.memory, 64 * 64, 7, 0));
    assert_true(filled(second, 64 * 64, 7, 64 * 64));
}

/* ---- one batch, several things ---- */

static void test_mixed(void **state) {
    Pair pair;
    pair_open(&pair, *state, 1 << 20);
    uint8_t *local = test_memory(1 << 20);
    fill(local, 1 << 19, 1);
    fill(pair.memory + (1 << 19), 1 << 19, 2);
    xfer_batch_t *batch = open_batch(pair.ep);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t at = i * 5000;
        assert_status(xfer_batch_put(batch, local + at, &pair.ref, at, 4999), XFER_OK);
        assert_status(
            xfer_batch_get(batch, local + (1 << 19) + at, &pair.ref, (1 << 19) + at, 4999),
            XFER_OK);
        assert_status(xfer_batch_put(batch, local, &pair.ref, at, 0), XFER_OK);
    }
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(event.bytes, 200 * 4999);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t at = i * 5000;
        assert_true(filled(pair.memory + at, 4999, 1, at));
        assert_true(filled(local + (1 << 19) + at, 4999, 2, at));
        assert_int_equal(pair.memory[at + 4999], 0);
    }
}

static void test_empty(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, NULL, sizeof(xfer_span_t), 0, NULL),
        XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_entries(batch, 0, 0, NULL), XFER_OK);
    xfer_status_t status;
    assert_status(xfer_batch_entries(batch, 0, 1, &status), XFER_ERANGE);
}

static void test_prepared(void **state) {
    Pair pair;
    const uint64_t size = 64 << 10;
    pair_open(&pair, *state, size * 2);
    uint8_t *local = test_memory(size * 2);
    xfer_batch_t *batch = open_batch(pair.ep);
    for (uint64_t at = 0; at < size; at += 1024) {
        assert_status(xfer_batch_put(batch, local + at, &pair.ref, at, 1024), XFER_OK);
    }
    for (uint64_t i = 0; i < 100; i++) {
        fill(local, size, i);
        assert_status(submit_now(pair.client, batch), XFER_OK);
        assert_true(filled(pair.memory, size, i, 0));
    }
    /* More is added to what was submitted. */
    fill(local, size * 2, 1000);
    assert_status(xfer_batch_put(batch, local + size, &pair.ref, size, size), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_true(filled(pair.memory, size * 2, 1000, 0));
    xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.batch.submitted, 101);
    assert_int_equal(stats.batch.completed, 101);
}

static void test_many_pieces(void **state) {
    Pair pair;
    const uint64_t count = quick() ? 20000 : 100000;
    const uint64_t piece = 64;
    pair_open(&pair, *state, count * piece);
    uint8_t *local = test_memory(count * piece);
    uint64_t *order = test_memory(count * sizeof *order);
    xfer_span_t *spans = test_memory(count * sizeof *spans);
    shuffle(order, count, 5);
    fill(local, count * piece, 11);
    for (uint64_t i = 0; i < count; i++) {
        spans[i] = (xfer_span_t){(uintptr_t)(local + order[i] * piece), order[i] * piece, piece};
    }
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof *spans, count, NULL),
        XFER_OK);
    for (int round = 0; round < 2; round++) {
        memset(pair.memory, 0, count * piece);
        assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, 3 * kPatience);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, count * piece);
        assert_true(filled(pair.memory, count * piece, 11, 0));
    }
    memset(local, 0, count * piece);
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_GET, &pair.ref, spans, sizeof *spans, count, NULL),
        XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_true(filled(local, count * piece, 11, 0));
    xfer_status_t *statuses = test_memory(count * sizeof *statuses);
    memset(statuses, 0xff, count * sizeof *statuses);
    assert_status(xfer_batch_entries(batch, 0, count, statuses), XFER_OK);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(statuses[i], XFER_OK);
}

/* ---- entries ---- */

/* One region goes; what concerns the others is done all the same. */
static void test_one_region_fails(void **state) {
    Pair pair;
    enum { kEntries = 200 };
    pair_open(&pair, *state, kEntries * 1024);
    uint8_t *doomed = test_memory(kEntries * 1024);
    xfer_region_t *region =
        open_region(pair.server, "doomed", XFER_READ | XFER_WRITE, doomed, kEntries * 1024);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "doomed");
    uint8_t *local = test_memory(kEntries * 1024);
    xfer_status_t statuses[kEntries];
    xfer_batch_t *batch = open_batch(pair.ep);
    for (uint64_t i = 0; i < kEntries; i++) {
        const xfer_ref_t *to = i % 10 == 7 ? &ref : &pair.ref;
        assert_status(xfer_batch_put(batch, local + i * 1024, to, i * 1024, 1024), XFER_OK);
    }
    fill(local, kEntries * 1024, 1);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair.server, region);
    fill(local, kEntries * 1024, 2);
    assert_status(xfer_batch_submit(batch, 5, NULL), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 5, kPatience);
    assert_status(event.status, XFER_ESTALE);
    assert_completion(&event);
    assert_int_equal(event.index, 7);
    assert_int_equal(event.bytes, kEntries / 10 * 9 * 1024);
    assert_status(xfer_batch_entries(batch, 0, kEntries, statuses), XFER_OK);
    for (uint64_t i = 0; i < kEntries; i++) {
        assert_status(statuses[i], i % 10 == 7 ? XFER_ESTALE : XFER_OK);
        const uint8_t *at = (i % 10 == 7 ? doomed : pair.memory) + i * 1024;
        assert_true(filled(at, 1024, i % 10 == 7 ? 1 : 2, i * 1024));
    }
    assert_status(xfer_batch_entries(batch, 7, 2, statuses), XFER_OK);
    assert_status(statuses[0], XFER_ESTALE);
    assert_status(statuses[1], XFER_OK);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

/* After an error nothing was added. */
static void test_refused_additions(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(8192);
    memset(local, 5, 8192);
    xfer_batch_t *batch = open_batch(pair.ep);
    xfer_span_t spans[3] = {
        {(uintptr_t)local, 0, 64}, {(uintptr_t)local, 64, 64}, {(uintptr_t)local, 4090, 64}};
    const uint64_t list[3] = {0, 1, 64};
    xfer_page_base_t base = {(uintptr_t)local, &pair.ref, 0};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = 64,
                          .count = 3,
                          .local_pages = list,
                          .remote_pages = list,
                          .bases = &base,
                          .base_count = 1};
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)local,
                              .local_stride = 64,
                              .remote = &pair.ref,
                              .remote_stride = 1024,
                              .length = 64,
                              .count = 5};
    assert_status(xfer_batch_put(batch, local, &pair.ref, 4000, 100), XFER_ERANGE);
    assert_status(xfer_batch_get(batch, local, &pair.ref, UINT64_MAX, 2), XFER_ERANGE);
    assert_status(xfer_batch_put(batch, NULL, &pair.ref, 0, 1), XFER_EINVAL);
    assert_status(xfer_batch_put(batch, local, NULL, 0, 1), XFER_EINVAL);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, sizeof spans[0], 3, NULL),
        XFER_ERANGE);
    assert_status(xfer_batch_add_spans(batch, 3, &pair.ref, spans, sizeof spans[0], 1, NULL),
                  XFER_EINVAL);
    assert_status(
        xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, NULL, sizeof spans[0], 1, NULL),
        XFER_EINVAL);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, spans, 8, 1, NULL),
                  XFER_EINVAL);
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_ERANGE);
    strided.remote_stride = UINT64_MAX / 2;
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_ERANGE);
    strided.count = UINT64_MAX;
    strided.remote_stride = 64;
    xfer_status_t status = xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL);
    assert_status(status, XFER_ETOOBIG);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL), XFER_ERANGE);
    pages.length = UINT64_MAX / 4;
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL), XFER_ERANGE);
    pages.length = 0;
    status = xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL);
    assert_true(status == XFER_EINVAL || status == XFER_OK); /* nothing to move is not forbidden */
    assert_status(xfer_batch_reset(batch), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 4095, 1), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (int i = 0; i < 4095; i++)
        assert_int_equal(pair.memory[i], 0);
    assert_status(xfer_batch_entries(batch, 0, 2, &status), XFER_ERANGE);
    /* What was added since has no status. */
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 1), XFER_OK);
    xfer_status_t both[2];
    assert_status(xfer_batch_entries(batch, 0, 2, both), XFER_ERANGE);
    assert_status(xfer_batch_entries(batch, 0, 1, both), XFER_OK);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_entries(batch, 0, 2, both), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_spans),
    EACH_MODE(test_strided),
    EACH_MODE(test_pages_one_base),
    EACH_MODE(test_pages_many_bases),
    EACH_MODE(test_pages_of_one_byte),
    EACH_MODE(test_pages_larger_than_a_chunk),
    EACH_MODE(test_pages_with_rows),
    ONE_MODE(test_refused_pages),
    EACH_DISPATCH(test_pages_over_regions),
    EACH_MODE(test_mixed),
    EACH_MODE(test_empty),
    EACH_MODE(test_prepared),
    EACH_MODE(test_many_pieces),
    EACH_MODE(test_one_region_fails),
    EACH_DISPATCH(test_refused_additions),
};

TEST_MAIN(tests)
