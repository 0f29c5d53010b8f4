/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of batches and what they tell the owner. */
#include <string.h>

#include "contract.h"

enum { kOfBatch = 16384, kSpans = 4, kBlocks = 8, kPages = 3, kPage = 512 };

static const uint64_t local_pages[kPages] = {3, 0, 2}, remote_pages[kPages] = {1, 4, 0};

/* Spans in reverse order, blocks that lie wider apart there, and pages, each in a quarter of its
 * own. */
static void add_each_kind(xfer_batch_t *batch, const xfer_ref_t *ref, uint8_t *local) {
    xfer_span_t spans[kSpans];
    for (uint64_t i = 0; i < kSpans; i++)
        spans[i] = (xfer_span_t){(uintptr_t)(local + i * 100), (kSpans - 1 - i) * 200, 100};
    const xfer_strided_t strided = {.size = sizeof strided,
                                    .local = (uintptr_t)(local + 4096),
                                    .local_stride = 64,
                                    .remote = ref,
                                    .offset = 4096,
                                    .remote_stride = 128,
                                    .length = 64,
                                    .count = kBlocks};
    const xfer_page_base_t base = {(uintptr_t)(local + 8192), ref, 8192};
    const xfer_pages_t pages = {.size = sizeof pages,
                                .base_size = sizeof base,
                                .index_size = sizeof local_pages[0],
                                .length = kPage,
                                .count = kPages,
                                .local_pages = local_pages,
                                .remote_pages = remote_pages,
                                .bases = &base,
                                .base_count = 1};
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, ref, spans, sizeof *spans, kSpans, NULL),
                  XFER_OK);
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL), XFER_OK);
}

/* The same by plain copies. */
static void copy_each_kind(uint8_t *wanted, const uint8_t *local) {
    for (int i = 0; i < kSpans; i++)
        memcpy(wanted + (kSpans - 1 - i) * 200, local + i * 100, 100);
    for (int i = 0; i < kBlocks; i++)
        memcpy(wanted + 4096 + i * 128, local + 4096 + i * 64, 64);
    for (int i = 0; i < kPages; i++)
        memcpy(wanted + 8192 + remote_pages[i] * kPage, local + 8192 + local_pages[i] * kPage,
               kPage);
}

static void batch_resubmitted(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, kOfBatch);
        uint8_t *local = test_memory(kOfBatch), *wanted = test_memory(kOfBatch);
        xfer_batch_t *batch = open_batch(pair.ep);
        add_each_kind(batch, &pair.ref, local);
        for (uint64_t round = 1; round <= 3; round++) {
            fill(local, kOfBatch, round);
            copy_each_kind(wanted, local);
            assert_status(submit_now(pair.client, batch), XFER_OK);
            assert_memory_equal(pair.memory, wanted, kOfBatch);
        }
        assert_status(xfer_batch_close(batch), XFER_OK);
    }
}

static void batch_entry_statuses(void **state) {
    (void)state;
    enum { kEntries = 10, kBad = 6, kSize = 100 };
    Pair pair;
    open_two(&pair, kEntries * kSize);
    const xfer_ref_t stale = stale_ref(&pair);
    uint8_t *local = test_memory(kEntries * kSize);
    fill(local, kEntries * kSize, 4);
    xfer_batch_t *batch = open_batch(pair.ep);
    for (uint64_t i = 0; i < kEntries; i++)
        assert_status(xfer_batch_put(batch, local + i * kSize, i == kBad ? &stale : &pair.ref,
                                     i * kSize, kSize),
                      XFER_OK);
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
    const xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(event.status, XFER_ESTALE);
    assert_int_equal(event.index, kBad);
    xfer_status_t statuses[kEntries];
    assert_status(xfer_batch_entries(batch, 0, kEntries, statuses), XFER_OK);
    for (uint64_t i = 0; i < kEntries; i++) {
        assert_status(statuses[i], i == kBad ? XFER_ESTALE : XFER_OK);
        if (i != kBad) assert_true(filled(pair.memory + i * kSize, kSize, 4, i * kSize));
    }
    assert_true(all_are(pair.memory + kBad * kSize, kSize, 0));
    assert_status(xfer_batch_close(batch), XFER_OK);
}

static void submit(xfer_batch_t *batch, uint32_t flags, uint64_t key, uint64_t user) {
    const xfer_submit_options_t options = {
        .size = sizeof options, .flags = flags, .notify_key = key};
    assert_status(xfer_batch_submit(batch, user, &options), XFER_OK);
}

static void batch_ordered(void **state) {
    (void)state;
    enum { kLength = 8 << 20 };
    Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength);
    static const uint64_t written = 0x1122334455667788;
    static uint64_t read;
    xfer_batch_t *writes = open_batch(pair.ep), *reads = open_batch(pair.ep);
    assert_status(xfer_batch_put(writes, &written, &pair.ref, kLength - 8, 8), XFER_OK);
    assert_status(xfer_batch_get(reads, &read, &pair.ref, kLength - 8, 8), XFER_OK);
    for (uint64_t round = 1; round <= 3; round++) {
        fill(local, kLength, round);
        read = 0;
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, kLength, round, NULL), XFER_OK);
        submit(writes, XFER_SUBMIT_ORDERED, 0, 10 + round);
        submit(reads, XFER_SUBMIT_ORDERED, 0, 20 + round);
        const xfer_event_t put = wait_event(pair.client, XFER_EVENT_PUT, round, kPatience);
        const xfer_event_t wrote = wait_event(pair.client, XFER_EVENT_BATCH, 10 + round, kPatience);
        const xfer_event_t got = wait_event(pair.client, XFER_EVENT_BATCH, 20 + round, kPatience);
        assert_status(put.status, XFER_OK);
        assert_status(wrote.status, XFER_OK);
        assert_status(got.status, XFER_OK);
        assert_true(put.sequence < wrote.sequence && wrote.sequence < got.sequence);
        assert_true(read == written);
        /* The word was written over what the put wrote, not under it. */
        assert_memory_equal(pair.memory, local, kLength - 8);
        assert_memory_equal(pair.memory + kLength - 8, &written, 8);
    }
}

/* As between two degrees of tensor parallelism: page n lies at n * kHere at home, at n * kThere at
 * the peer. */
static void pages_strides(void **state) {
    (void)state;
    enum { kCount = 40, kLength = 96, kHere = 128, kThere = 200 };
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, kCount * kThere);
        uint8_t *local = test_memory(kCount * kHere), *back = test_memory(kCount * kHere);
        uint8_t *there = test_memory(kCount * kThere), *here = test_memory(kCount * kHere);
        int32_t local_table[kCount], remote_table[kCount];
        fill(local, kCount * kHere, 6);
        for (int i = 0; i < kCount; i++) {
            local_table[i] = i * 7 % kCount; /* 7 and 11 share no factor with 40 */
            remote_table[i] = i * 11 % kCount;
            const uint8_t *page = local + local_table[i] * kHere;
            memcpy(there + remote_table[i] * kThere, page, kLength);
            memcpy(here + local_table[i] * kHere, page, kLength);
        }
        xfer_page_base_t base = {(uintptr_t)local, &pair.ref, 0};
        const xfer_pages_t pages = {.size = sizeof pages,
                                    .base_size = sizeof base,
                                    .index_size = sizeof local_table[0],
                                    .length = kLength,
                                    .local_stride = kHere,
                                    .remote_stride = kThere,
                                    .count = kCount,
                                    .local_pages = local_table,
                                    .remote_pages = remote_table,
                                    .bases = &base,
                                    .base_count = 1};
        xfer_batch_t *put = open_batch(pair.ep), *get = open_batch(pair.ep);
        assert_status(xfer_batch_add_pages(put, XFER_OP_PUT, &pages, NULL), XFER_OK);
        base.local = (uintptr_t)back;
        assert_status(xfer_batch_add_pages(get, XFER_OP_GET, &pages, NULL), XFER_OK);
        assert_status(submit_now(pair.client, put), XFER_OK);
        assert_memory_equal(pair.memory, there, kCount * kThere);
        assert_status(submit_now(pair.client, get), XFER_OK);
        assert_memory_equal(back, here, kCount * kHere);
    }
}

/* Looks in the place where the owner's application is told. */
static int right_when_told;

static void look_at_memory(Host *host, const xfer_event_t *event) {
    const Pair *pair = host->hook_data;
    if (event->kind == XFER_EVENT_NOTIFY)
        right_when_told += filled(pair->memory, pair->length, event->tag, 0);
}

static void notify_on_batch(void **state) {
    (void)state;
    enum { kLength = 4 << 20, kEntries = 16, kRounds = 5 };
    static Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength);
    xfer_batch_t *batch = open_batch(pair.ep);
    for (uint64_t i = 0; i < kEntries; i++)
        assert_status(xfer_batch_put(batch, local + i * (kLength / kEntries), &pair.ref,
                                     i * (kLength / kEntries), kLength / kEntries),
                      XFER_OK);
    right_when_told = 0;
    pair.server->hook_data = &pair;
    pair.server->hook = look_at_memory;
    for (uint64_t round = 1; round <= kRounds; round++) {
        fill(local, kLength, round);
        submit(batch, XFER_SUBMIT_NOTIFY, round, round);
        const xfer_event_t told = wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
        assert_status(told.status, XFER_OK);
        assert_int_equal(told.tag, round);
        assert_int_equal(right_when_told, round);
        assert_status(wait_event(pair.client, XFER_EVENT_BATCH, round, kPatience).status, XFER_OK);
    }
    assert_int_equal(count_events(pair.server, XFER_EVENT_NOTIFY, ANY_USER), kRounds);
}

static void notify_on_failure(void **state) {
    (void)state;
    Pair pair;
    open_two(&pair, 64);
    const xfer_ref_t stale = stale_ref(&pair);
    uint8_t *local = test_memory(64);
    xfer_batch_t *batch = open_batch(pair.ep);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 64), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &stale, 0, 64), XFER_OK);
    submit(batch, XFER_SUBMIT_NOTIFY, 42, 1);
    assert_status(wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience).status, XFER_ESTALE);
    const xfer_event_t told = wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
    assert_status(told.status, XFER_ESTALE);
    assert_int_equal(told.tag, 42);
    assert_int_equal(told.data_length, 0);
}

static const struct CMUnitTest tests[] = {
    TEST(batch_resubmitted), TEST(batch_entry_statuses), TEST(batch_ordered),
    TEST(pages_strides),     TEST(notify_on_batch),      TEST(notify_on_failure),
};

TEST_MAIN(tests)
