/* SPDX-License-Identifier: Apache-2.0
 *
 * A prepared batch whose entries are led from one ref to another: what may be, what moves then, and
 * where. */
#include <string.h>

#include "fixture.h"

enum { kPage = 512, kPages = 8, kLength = kPages * kPage, kPart = 2 * kPage };

typedef struct Two {
    Pair pair;
    uint8_t *other_memory;
    xfer_ref_t other;
    uint8_t *local;
    xfer_batch_t *batch;
} Two;

static void open_two(Two *two, const Mode *mode, uint64_t other_length, uint32_t other_access) {
    pair_open(&two->pair, mode, kLength);
    two->other_memory = test_memory(other_length);
    two->local = test_memory(3 * kLength);
    open_region(two->pair.server, "other", other_access, two->other_memory, other_length);
    two->other = look_up(two->pair.client, two->pair.ep, "other");
    assert_status(xfer_batch_open(two->pair.ep, NULL, &two->batch, NULL), XFER_OK);
}

/* One of each kind of entry: a piece, a strided one, a page table. Together they cover the first
 * six pages. */
static void fill_batch(Two *two, const xfer_ref_t *ref, uint8_t *local) {
    const uint64_t pages[] = {5, 4};
    xfer_page_base_t base = {(uint64_t)(uintptr_t)local, ref, 0};
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uint64_t)(uintptr_t)local + 2 * kPage,
                              .local_stride = kPage,
                              .remote = ref,
                              .offset = 2 * kPage,
                              .remote_stride = kPage,
                              .length = kPage,
                              .count = 2};
    xfer_pages_t table = {.size = sizeof table,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = kPage,
                          .count = 2,
                          .local_pages = pages,
                          .remote_pages = pages,
                          .bases = &base,
                          .base_count = 1};
    assert_status(xfer_batch_put(two->batch, local, ref, 0, 2 * kPage), XFER_OK);
    assert_status(xfer_batch_add_strided(two->batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(two->batch, XFER_OP_PUT, &table, NULL), XFER_OK);
}

static void test_all_entries_move(void **state) {
    Two two;
    open_two(&two, *state, kLength, XFER_READ | XFER_WRITE);
    fill_batch(&two, &two.pair.ref, two.local);
    fill(two.local, 6 * kPage, 1);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.pair.memory, 6 * kPage, 1, 0));
    assert_status(xfer_batch_rebind(two.batch, &two.pair.ref, &two.other, NULL), XFER_OK);
    fill(two.local, 6 * kPage, 2);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.other_memory, 6 * kPage, 2, 0));
    assert_true(filled(two.pair.memory, 6 * kPage, 1, 0));
    /* And back, with more added meanwhile. */
    assert_status(xfer_batch_put(two.batch, two.local + 6 * kPage, &two.other, 6 * kPage, kPage),
                  XFER_OK);
    assert_status(xfer_batch_rebind(two.batch, &two.other, &two.pair.ref, NULL), XFER_OK);
    fill(two.local, 7 * kPage, 3);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.pair.memory, 7 * kPage, 3, 0));
    assert_true(filled(two.other_memory, 6 * kPage, 2, 0));
}

/* Only what names `from`. */
static void test_others_stay(void **state) {
    Two two;
    open_two(&two, *state, kLength, XFER_READ | XFER_WRITE);
    uint8_t *third = test_memory(kLength);
    open_region(two.pair.server, "third", XFER_READ | XFER_WRITE, third, kLength);
    xfer_ref_t ref = look_up(two.pair.client, two.pair.ep, "third");
    fill(two.local, kPage, 4);
    assert_status(xfer_batch_put(two.batch, two.local, &ref, 0, kPage), XFER_OK);
    assert_status(xfer_batch_put(two.batch, two.local, &two.other, 0, kPage), XFER_OK);
    assert_status(xfer_batch_rebind(two.batch, &two.pair.ref, &ref, NULL), XFER_ENOTFOUND);
    assert_status(xfer_batch_rebind(two.batch, &two.other, &two.pair.ref, NULL), XFER_OK);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(third, kPage, 4, 0));
    assert_true(filled(two.pair.memory, kPage, 4, 0));
    assert_int_equal(two.other_memory[0], 0);
}

/* Refs of parts: an entry keeps its place in the part, wherever that begins. */
static void test_parts(void **state) {
    Two two;
    xfer_ref_t parts[2];
    open_two(&two, *state, kLength, XFER_READ | XFER_WRITE);
    for (uint64_t i = 0; i < 2; i++) {
        xfer_grant_options_t options = {.size = sizeof options,
                                        .access = XFER_WRITE,
                                        .offset = (3 - 2 * i) * kPage,
                                        .length = kPart};
        assert_status(xfer_region_grant(two.pair.region, &options, &parts[i], NULL), XFER_OK);
    }
    fill(two.local, kPart, 5);
    assert_status(xfer_batch_put(two.batch, two.local, &parts[0], 0, kPart), XFER_OK);
    assert_status(xfer_batch_rebind(two.batch, &parts[0], &parts[1], NULL), XFER_OK);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.pair.memory + kPage, kPart, 5, 0));
    for (uint64_t i = 3 * kPage; i < kLength; i++)
        assert_int_equal(two.pair.memory[i], 0);
}

static void test_refusals(void **state) {
    Two two;
    xfer_ref_t no_ref = {{0}};
    open_two(&two, *state, kLength - 1, XFER_READ | XFER_WRITE);
    uint8_t *memory = test_memory(kLength);
    open_region(two.pair.server, "read only", XFER_READ, memory, kLength);
    xfer_ref_t read_only = look_up(two.pair.client, two.pair.ep, "read only");
    fill_batch(&two, &two.pair.ref, two.local);
    const xfer_ref_t *ref = &two.pair.ref;
    assert_status(xfer_batch_rebind(two.batch, ref, &two.other, NULL), XFER_ERANGE);
    assert_status(xfer_batch_rebind(two.batch, ref, &read_only, NULL), XFER_EACCESS);
    assert_status(xfer_batch_rebind(two.batch, ref, &no_ref, NULL), XFER_EINVAL);
    assert_status(xfer_batch_rebind(two.batch, &no_ref, ref, NULL), XFER_EINVAL);
    assert_status(xfer_batch_rebind(two.batch, ref, NULL, NULL), XFER_EINVAL);
    assert_status(xfer_batch_rebind(two.batch, NULL, ref, NULL), XFER_EINVAL);
    assert_status(xfer_batch_rebind(NULL, ref, ref, NULL), XFER_EBADHANDLE);
    /* What was refused has changed nothing. */
    fill(two.local, 6 * kPage, 6);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.pair.memory, 6 * kPage, 6, 0));
    assert_status(xfer_batch_submit(two.batch, 1, NULL), XFER_OK);
    xfer_status_t status = xfer_batch_rebind(two.batch, ref, ref, NULL);
    wait_event(two.pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_true(status == XFER_EBUSY || status == XFER_OK);
    assert_status(xfer_batch_close(two.batch), XFER_OK);
}

/* What a batch has no use for need not be there. */
static void test_without_atomics(void **state) {
    Two two;
    open_two(&two, *state, kLength, XFER_READ | XFER_WRITE | XFER_ATOMIC);
    fill_batch(&two, &two.other, two.local);
    fill(two.local, 6 * kPage, 1);
    assert_status(xfer_batch_rebind(two.batch, &two.other, &two.pair.ref, NULL), XFER_OK);
    assert_status(submit_now(two.pair.client, two.batch), XFER_OK);
    assert_true(filled(two.pair.memory, 4 * kPage, 1, 0));
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_all_entries_move), EACH_DISPATCH(test_others_stay), EACH_DISPATCH(test_parts),
    ONE_MODE(test_without_atomics),   EACH_DISPATCH(test_refusals),
};

TEST_MAIN(tests)
