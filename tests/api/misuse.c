/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles that are none: NULL, and those of another thing. */
#include <xfer/text.h>

#include "fixture.h"

static Pair pair;
static xfer_batch_t *batch;
static uint8_t local[64];

static void test_null_close(void **state) {
    (void)state;
    assert_status(xfer_engine_close(NULL), XFER_OK);
    assert_status(xfer_engine_join(NULL, XFER_NONE), XFER_OK);
    assert_status(xfer_region_close(NULL), XFER_OK);
    assert_status(xfer_ep_close(NULL), XFER_OK);
    assert_status(xfer_batch_close(NULL), XFER_OK);
    assert_status(xfer_counter_close(NULL), XFER_OK);
}

#define assert_misuse(call)                                     \
    do {                                                        \
        xfer_status_t misuse = (call);                          \
        if (misuse != XFER_EINVAL && misuse != XFER_EBADHANDLE) \
            fail_msg(#call ": %s", xfer_status_name(misuse));   \
    } while (0)

enum { kEngine, kRegion, kEndpoint, kBatch, kCounter, kTypes };

/* Each function with a handle of each other type, and with none. What is given on both sides of it
 * is sound, so that nothing but the handle can be why it is refused. */
static void misuse_engine(void *wrong) {
    char text[64];
    uint64_t needed;
    xfer_id_t id;
    uint32_t number;
    int32_t fd;
    xfer_event_t event;
    xfer_engine_stats_t stats;
    void *address;
    xfer_region_t *region;
    xfer_ep_t *ep;
    xfer_counter_t *other;
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_READ, .name = "misused"};
    assert_misuse(xfer_engine_listen(wrong, "tcp://127.0.0.1:0", NULL, text, sizeof text, NULL));
    assert_misuse(xfer_engine_addresses(wrong, text, sizeof text, &needed));
    assert_misuse(xfer_engine_id(wrong, &id));
    assert_misuse(xfer_engine_fd(wrong, &fd));
    assert_misuse(xfer_engine_wake(wrong));
    assert_misuse(xfer_engine_poll(wrong, &event, sizeof event, 1, 0, &number));
    assert_misuse(xfer_engine_kinds(wrong, &needed));
    assert_misuse(xfer_engine_transports(wrong, &needed));
    assert_misuse(xfer_engine_stats(wrong, &stats, sizeof stats));
    assert_misuse(xfer_engine_describe(wrong, text, sizeof text, &needed));
    assert_misuse(xfer_engine_drain(wrong, 1, WITHIN(1)));
    assert_misuse(xfer_region_open(wrong, &lent, local, sizeof local, &region, NULL));
    assert_misuse(xfer_region_alloc(wrong, &lent, 4096, &address, &region, NULL));
    assert_misuse(xfer_ep_open(wrong, "tcp://127.0.0.1:1", NULL, &ep, NULL));
    assert_misuse(xfer_recv(wrong, NULL, local, sizeof local, 1, UINT64_MAX, 1, NULL));
    assert_misuse(xfer_recv(wrong, pair.ep, local, sizeof local, 1, UINT64_MAX, 1, NULL));
    assert_misuse(xfer_cancel(wrong, NULL, 1, UINT64_MAX));
    assert_misuse(xfer_counter_open(wrong, 99, 1, NULL, &other, NULL));
    if (!wrong) return;
    assert_misuse(xfer_engine_close(wrong));
    assert_misuse(xfer_engine_join(wrong, XFER_NONE));
}

static void misuse_region(void *wrong) {
    xfer_ref_t ref;
    xfer_region_info_t info;
    xfer_grant_options_t grant = {.size = sizeof grant, .access = XFER_READ, .length = 1};
    assert_misuse(xfer_region_ref(wrong, &ref));
    assert_misuse(xfer_region_info(wrong, &info, sizeof info));
    assert_misuse(xfer_region_grant(wrong, &grant, &ref, NULL));
    assert_misuse(xfer_region_renew(wrong, &pair.ref, 1));
    assert_misuse(xfer_region_revoke(wrong, &pair.ref));
    if (wrong) assert_misuse(xfer_region_close(wrong));
}

static void misuse_endpoint(void *wrong) {
    uint32_t number;
    xfer_peer_info_t peer;
    xfer_ep_stats_t stats;
    assert_misuse(xfer_ep_add_address(wrong, "tcp://127.0.0.1:1", NULL));
    assert_misuse(xfer_ep_keep(wrong, 1));
    assert_misuse(xfer_ep_admit(wrong, XFER_OK));
    assert_misuse(xfer_ep_connect(wrong, 1, NULL));
    assert_misuse(xfer_ep_lookup(wrong, "memory", 1, NULL, NULL));
    assert_misuse(xfer_ep_probe(wrong, 1, NULL));
    assert_misuse(xfer_ep_state(wrong, &number));
    assert_misuse(xfer_ep_peer(wrong, &peer, sizeof peer));
    assert_misuse(xfer_ep_stats(wrong, &stats, sizeof stats));
    assert_misuse(xfer_put(wrong, local, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_get(wrong, local, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_atomic(wrong, XFER_ATOMIC_ADD, NULL, &pair.ref, 0, 1, 0, 1, NULL));
    xfer_message_info_t message;
    if (wrong) assert_misuse(xfer_peek(pair.client->engine, wrong, 1, 0, &message, sizeof message));
    assert_misuse(xfer_ep_flush(wrong, &number, 1, NULL));
    assert_misuse(xfer_send(wrong, local, 1, 1, 1, NULL));
    assert_misuse(xfer_notify(wrong, NULL, 0, 1, 1, NULL));
    if (wrong) assert_misuse(xfer_cancel(pair.client->engine, wrong, 1, UINT64_MAX));
    assert_misuse(xfer_batch_open(wrong, NULL, &batch, NULL));
    if (!wrong) return;
    assert_misuse(
        xfer_recv(pair.client->engine, wrong, local, sizeof local, 1, UINT64_MAX, 1, NULL));
    assert_misuse(xfer_ep_close(wrong));
}

static void misuse_batch(void *wrong) {
    const uint64_t at = (uint64_t)(uintptr_t)local;
    xfer_span_t span = {.local = at, .length = 1};
    xfer_strided_t strided = {
        .size = sizeof strided, .local = at, .remote = &pair.ref, .length = 1, .count = 1};
    xfer_page_base_t base = {.local = at, .remote = &pair.ref};
    const uint64_t page = 0;
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = 1,
                          .count = 1,
                          .local_pages = &page,
                          .remote_pages = &page,
                          .bases = &base,
                          .base_count = 1};
    assert_misuse(xfer_batch_put(wrong, local, &pair.ref, 0, 1));
    assert_misuse(xfer_batch_get(wrong, local, &pair.ref, 0, 1));
    assert_misuse(xfer_batch_add_spans(wrong, XFER_OP_PUT, &pair.ref, &span, sizeof span, 1, NULL));
    assert_misuse(xfer_batch_add_strided(wrong, XFER_OP_PUT, &strided, NULL));
    assert_misuse(xfer_batch_add_pages(wrong, XFER_OP_PUT, &pages, NULL));
    assert_misuse(xfer_batch_rebind(wrong, &pair.ref, &pair.ref, NULL));
    assert_misuse(xfer_batch_submit(wrong, 1, NULL));
    assert_misuse(xfer_batch_cancel(wrong));
    assert_misuse(xfer_batch_entries(wrong, 0, 0, NULL));
    assert_misuse(xfer_batch_reset(wrong));
    if (wrong) assert_misuse(xfer_batch_close(wrong));
}

static void misuse_counter(void *wrong) {
    if (wrong) assert_misuse(xfer_counter_close(wrong));
}

static void test_handles_that_are_none(void **state) {
    pair_open(&pair, *state, 4096);
    xfer_counter_t *counter;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_counter_open(pair.client->engine, 5, 1, NULL, &counter, NULL), XFER_OK);
    void *handles[kTypes + 1] = {pair.client->engine, pair.region, pair.ep, batch, counter, NULL};
    void (*const misuses[kTypes])(void *) = {misuse_engine, misuse_region, misuse_endpoint,
                                             misuse_batch, misuse_counter};
    for (int type = 0; type < kTypes; type++)
        for (int other = 0; other <= kTypes; other++)
            if (other != type) misuses[type](handles[other]);
    assert_status(xfer_batch_close(handles[kBatch]), XFER_OK);
    assert_status(xfer_counter_close(counter), XFER_OK);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_OK);
}

static void test_results_that_are_nowhere(void **state) {
    pair_open(&pair, *state, 4096);
    xfer_ref_info_t info;
    assert_misuse(xfer_put(pair.ep, NULL, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_put(pair.ep, local, NULL, 0, 1, 1, NULL));
    assert_misuse(xfer_get(pair.ep, NULL, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_get(pair.ep, local, NULL, 0, 1, 1, NULL));
    assert_misuse(xfer_ep_lookup(pair.ep, NULL, 1, NULL, NULL));
    assert_misuse(xfer_ep_state(pair.ep, NULL));
    assert_misuse(xfer_engine_kinds(pair.client->engine, NULL));
    assert_misuse(xfer_engine_transports(pair.client->engine, NULL));
    assert_misuse(xfer_region_ref(pair.region, NULL));
    assert_misuse(xfer_ref_info(NULL, &info, sizeof info));
    assert_misuse(xfer_batch_open(pair.ep, NULL, NULL, NULL));
}

static const struct CMUnitTest tests[] = {
    TEST(test_null_close),
    ONE_MODE(test_handles_that_are_none),
    ONE_MODE(test_results_that_are_nowhere),
};

TEST_MAIN(tests)
