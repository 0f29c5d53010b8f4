/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles that are none: NULL, and those of another thing. */
#include "fixture.h"

static Pair pair;
static xfer_batch_t *batch;
static uint8_t local[64];

static void test_null_close(void **state) {
    (void)state;
    assert_status(xfer_engine_close(NULL), XFER_OK);
    assert_status(xfer_engine_join(NULL), XFER_OK);
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

/* Misuse is answered, never executed: NULL, and the handle of another thing. */
static void test_handles_that_are_none(void **state) {
    pair_open(&pair, *state, 4096);
    char text[64];
    size_t needed;
    xfer_id_t id;
    xfer_ref_t ref;
    uint32_t number;
    int32_t fd;
    xfer_event_t event;
    xfer_engine_stats_t stats;
    xfer_ep_stats_t ep_stats;
    xfer_region_info_t region_info;
    xfer_ref_info_t ref_info;
    xfer_peer_info_t peer;
    void *wrong[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            wrong[0] = pair.region;         /* for an engine */
            wrong[1] = pair.client->engine; /* for an endpoint or region */
            wrong[2] = pair.ep;             /* for a batch */
        }
        assert_misuse(xfer_engine_listen(wrong[0], "tcp://127.0.0.1:0", text, sizeof text, NULL));
        assert_misuse(xfer_engine_id(wrong[0], &id));
        assert_misuse(xfer_engine_fd(wrong[0], &fd));
        assert_misuse(xfer_engine_poll(wrong[0], &event, sizeof event, 1, 0, &number));
        assert_misuse(xfer_engine_stats(wrong[0], &stats, sizeof stats));
        assert_misuse(xfer_engine_describe(wrong[0], text, sizeof text, &needed));
        assert_misuse(xfer_region_ref(wrong[1], &ref));
        assert_misuse(xfer_region_info(wrong[1], &region_info, sizeof region_info));
        assert_misuse(xfer_ep_keep(wrong[1]));
        assert_misuse(xfer_ep_connect(wrong[1], 0, 1));
        assert_misuse(xfer_ep_lookup(wrong[1], "memory", NULL, 1));
        assert_misuse(xfer_ep_probe(wrong[1], 0, 1));
        assert_misuse(xfer_ep_state(wrong[1], &number));
        assert_misuse(xfer_ep_peer(wrong[1], &peer, sizeof peer));
        assert_misuse(xfer_ep_stats(wrong[1], &ep_stats, sizeof ep_stats));
        assert_misuse(xfer_put(wrong[1], local, &pair.ref, 0, 1, 1, NULL));
        assert_misuse(xfer_get(wrong[1], local, &pair.ref, 0, 1, 1, NULL));
        assert_misuse(xfer_cancel(wrong[1], 1));
        assert_misuse(xfer_batch_open(wrong[1], NULL, &batch, NULL));
        assert_misuse(xfer_batch_put(wrong[2], local, &pair.ref, 0, 1));
        assert_misuse(xfer_batch_get(wrong[2], local, &pair.ref, 0, 1));
        assert_misuse(xfer_batch_submit(wrong[2], 1, NULL));
        assert_misuse(xfer_batch_cancel(wrong[2]));
        assert_misuse(xfer_batch_entries(wrong[2], 0, 0, NULL));
        assert_misuse(xfer_batch_reset(wrong[2]));
    }
    assert_misuse(xfer_region_close((xfer_region_t *)pair.ep));
    assert_misuse(xfer_ep_close((xfer_ep_t *)pair.region));
    assert_misuse(xfer_batch_close((xfer_batch_t *)pair.ep));
    assert_misuse(xfer_engine_close((xfer_engine_t *)pair.ep));
    assert_misuse(xfer_put(pair.ep, NULL, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_put(pair.ep, local, NULL, 0, 1, 1, NULL));
    assert_misuse(xfer_get(pair.ep, NULL, &pair.ref, 0, 1, 1, NULL));
    assert_misuse(xfer_get(pair.ep, local, NULL, 0, 1, 1, NULL));
    assert_misuse(xfer_ep_lookup(pair.ep, NULL, NULL, 1));
    assert_misuse(xfer_ep_state(pair.ep, NULL));
    assert_misuse(xfer_region_ref(pair.region, NULL));
    assert_misuse(xfer_ref_info(NULL, &ref_info, sizeof ref_info));
    assert_misuse(xfer_batch_open(pair.ep, NULL, NULL, NULL));
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    TEST(test_null_close),
    ONE_MODE(test_handles_that_are_none),
};

TEST_MAIN(tests)
