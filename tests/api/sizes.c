/* SPDX-License-Identifier: Apache-2.0
 *
 * The size rules of structs. Input: a longer one is taken if what the library does not know is
 * zero, a shorter one always. Output: written up to the size that is passed, zero beyond what the
 * library knows. */
#include <string.h>

#include "fixture.h"

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static xfer_engine_options_t thread_options(void) {
    return (xfer_engine_options_t){.size = sizeof(xfer_engine_options_t), .on_event = ignore_event};
}

typedef union Longer {
    struct {
        union {
            xfer_engine_options_t engine;
            xfer_region_options_t region;
            xfer_ep_options_t ep;
            xfer_op_options_t op;
            xfer_batch_options_t batch;
            xfer_submit_options_t submit;
            xfer_strided_t strided;
            xfer_pages_t pages;
        } known;
        uint8_t tail[64];
    } with;
    uint8_t bytes[sizeof(xfer_engine_options_t) + 64];
} Longer;

static void *longer(Longer *options, const void *known, uint32_t size, bool tail) {
    memset(options, 0, sizeof *options);
    memcpy(options, known, size);
    uint32_t longer_size = size + 24;
    memcpy(options, &longer_size, sizeof longer_size);
    if (tail) options->bytes[longer_size - 1] = 1;
    return options;
}

static void test_longer_engine_options(void **state) {
    (void)state;
    xfer_engine_options_t known = thread_options();
    Longer options;
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(longer(&options, &known, sizeof known, false), &engine, NULL),
                  XFER_OK);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
    void *tail = longer(&options, &known, sizeof known, true);
    assert_status(xfer_engine_open(tail, &engine, NULL), XFER_E2BIG);
}

static void test_shorter_engine_options(void **state) {
    (void)state;
    xfer_engine_options_t options = thread_options();
    memset(&options.log_user, 0xff, sizeof options - offsetof(xfer_engine_options_t, log_user));
    options.size = offsetof(xfer_engine_options_t, log_user);
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
}

static void test_longer_children(void **state) {
    (void)state;
    Pair pair;
    pair_open(&pair, THREAD_MODE, 4096);
    Longer longer_options;
    void *bad = &longer_options;
    uint8_t local[64] = {0};

    xfer_region_options_t region_options = {.size = sizeof region_options};
    xfer_region_t *region = NULL;
    longer(&longer_options, &region_options, sizeof region_options, true);
    assert_status(xfer_region_open(pair.server->engine, bad, local, 64, &region, NULL), XFER_E2BIG);
    longer(&longer_options, &region_options, sizeof region_options, false);
    assert_status(xfer_region_open(pair.server->engine, bad, local, 64, &region, NULL), XFER_OK);
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair.server, region);

    xfer_ep_options_t ep_options = {.size = sizeof ep_options};
    xfer_ep_t *ep = NULL;
    longer(&longer_options, &ep_options, sizeof ep_options, true);
    assert_status(xfer_ep_open(pair.client->engine, pair.server->uri, bad, &ep, NULL), XFER_E2BIG);
    longer(&longer_options, &ep_options, sizeof ep_options, false);
    assert_status(xfer_ep_open(pair.client->engine, pair.server->uri, bad, &ep, NULL), XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);

    xfer_op_options_t lookup = {.size = sizeof lookup};
    longer(&longer_options, &lookup, sizeof lookup, true);
    assert_status(xfer_ep_lookup(pair.ep, "memory", 1, bad, NULL), XFER_E2BIG);
    longer(&longer_options, &lookup, sizeof lookup, false);
    assert_status(xfer_ep_lookup(pair.ep, "memory", 2, bad, NULL), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, 2, kPatience).status, XFER_OK);

    xfer_op_options_t op = {.size = sizeof op};
    longer(&longer_options, &op, sizeof op, true);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 64, 3, bad), XFER_E2BIG);
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, 64, 4, bad), XFER_E2BIG);
    longer(&longer_options, &op, sizeof op, false);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 64, 5, bad), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 5, kPatience).status, XFER_OK);

    xfer_batch_options_t batch_options = {.size = sizeof batch_options};
    xfer_batch_t *batch = NULL;
    longer(&longer_options, &batch_options, sizeof batch_options, true);
    assert_status(xfer_batch_open(pair.ep, bad, &batch, NULL), XFER_E2BIG);
    longer(&longer_options, &batch_options, sizeof batch_options, false);
    assert_status(xfer_batch_open(pair.ep, bad, &batch, NULL), XFER_OK);

    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)local,
                              .local_stride = 8,
                              .remote = &pair.ref,
                              .remote_stride = 8,
                              .length = 8,
                              .count = 8};
    longer(&longer_options, &strided, sizeof strided, true);
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, bad, NULL), XFER_E2BIG);
    longer(&longer_options, &strided, sizeof strided, false);
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, bad, NULL), XFER_OK);

    const uint64_t zero = 0;
    xfer_page_base_t base = {.local = (uintptr_t)local, .remote = &pair.ref};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = 8,
                          .count = 1,
                          .local_pages = &zero,
                          .remote_pages = &zero,
                          .bases = &base,
                          .base_count = 1};
    longer(&longer_options, &pages, sizeof pages, true);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, bad, NULL), XFER_E2BIG);
    longer(&longer_options, &pages, sizeof pages, false);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, bad, NULL), XFER_OK);

    xfer_submit_options_t submit = {.size = sizeof submit};
    longer(&longer_options, &submit, sizeof submit, true);
    assert_status(xfer_batch_submit(batch, 6, bad), XFER_E2BIG);
    longer(&longer_options, &submit, sizeof submit, false);
    assert_status(xfer_batch_submit(batch, 7, bad), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_BATCH, 7, kPatience).status, XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, 3), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_GET, 4), 0);
}

static void test_output_sizes(void **state) {
    (void)state;
    Pair pair;
    pair_open(&pair, THREAD_MODE, 4096);
    union {
        xfer_region_info_t region;
        xfer_ref_info_t ref;
        xfer_engine_stats_t stats;
        xfer_ep_stats_t ep_stats;
        uint8_t bytes[sizeof(xfer_engine_stats_t) + 64];
    } out;
    memset(&out, 0xee, sizeof out);
    assert_status(xfer_region_info(pair.region, &out.region, offsetof(xfer_region_info_t, id)),
                  XFER_OK);
    assert_int_equal(out.region.length, 4096);
    assert_int_equal(out.bytes[offsetof(xfer_region_info_t, id)], 0xee);
    memset(&out, 0xee, sizeof out);
    assert_status(xfer_region_info(pair.region, &out.region, sizeof out.region + 16), XFER_OK);
    assert_int_equal(out.bytes[sizeof out.region + 15], 0);
    assert_int_equal(out.bytes[sizeof out.region + 16], 0xee);
    memset(&out, 0xee, sizeof out);
    assert_status(xfer_ref_info(&pair.ref, &out.ref, sizeof out.ref + 16), XFER_OK);
    assert_int_equal(out.ref.length, 4096);
    assert_int_equal(out.bytes[sizeof out.ref + 15], 0);
    assert_int_equal(out.bytes[sizeof out.ref + 16], 0xee);
    memset(&out, 0xee, sizeof out);
    assert_status(xfer_engine_stats(pair.server->engine, &out.stats, sizeof out.stats + 16),
                  XFER_OK);
    assert_int_equal(out.stats.regions, 1);
    assert_int_equal(out.bytes[sizeof out.stats + 15], 0);
    assert_int_equal(out.bytes[sizeof out.stats + 16], 0xee);
    memset(&out, 0xee, sizeof out);
    assert_status(xfer_ep_stats(pair.ep, &out.ep_stats, offsetof(xfer_ep_stats_t, queued)),
                  XFER_OK);
    assert_int_equal(out.bytes[offsetof(xfer_ep_stats_t, queued)], 0xee);
}

static const struct CMUnitTest tests[] = {
    TEST(test_longer_engine_options),
    TEST(test_shorter_engine_options),
    TEST(test_longer_children),
    TEST(test_output_sizes),
};

TEST_MAIN(tests)
