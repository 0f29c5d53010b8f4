/* SPDX-License-Identifier: Apache-2.0
 *
 * What the header promises for a later release answers XFER_EUNSUPPORTED, and leaves nothing
 * behind. This table is the one list of it: a row goes when its function arrives. */
#include <string.h>

#include "fixture.h"

static Pair pair;
static xfer_batch_t *batch;
static uint8_t local[64];

static xfer_status_t engine_listen_unix(void) {
    char bound[64];
    return xfer_engine_listen(pair.client->engine, "unix:///tmp/xfer-never-made", bound,
                              sizeof bound, NULL);
}

static xfer_status_t ep_unix(void) {
    xfer_ep_t *ep = NULL;
    return xfer_ep_open(pair.client->engine, "unix:///tmp/xfer-never-made", NULL, &ep, NULL);
}

static const struct {
    const char *what;
    xfer_status_t (*call)(void);
} later[] = {
    {"xfer_engine_listen at unix://", engine_listen_unix},
    {"xfer_ep_open at unix://", ep_unix},
};

static void test_later_release(void **state) {
    pair_open(&pair, *state, 4096);
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, sizeof local), XFER_OK);
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        xfer_status_t status = later[i].call();
        if (status != XFER_EUNSUPPORTED)
            fail_msg("%s: %s", later[i].what, xfer_status_name(status));
    }
    /* None of them left anything behind, the batch of the refused submits included. */
    assert_status(submit_now(pair.client, batch), XFER_OK);
    pass_ms(20);
    assert_int_equal(count_events(pair.client, XFER_EVENT_SEND, ANY_USER), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_RECV, ANY_USER), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_BATCH, 1), 0);
    assert_int_equal(host_stats(pair.server).regions, 1);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

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
    EACH_DISPATCH(test_later_release),
    TEST(test_null_close),
    ONE_MODE(test_handles_that_are_none),
};

TEST_MAIN(tests)
