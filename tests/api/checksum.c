/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of payloads: what is changed on its way is noticed, and only with them. A proxy between
 * the two engines flips one bit. */
#include <string.h>

#include "fixture.h"
#include "proxy.h"

/* However the lanes share the load, one of them carries so much; and far inside a long stream
 * nothing but payload is. */
enum { kLength = 8 << 20, kFlipAt = (1 << 20) + 100000 };

static void pair_with(Pair *pair, const Mode *mode, uint32_t flags) {
    xfer_engine_options_t server = host_options(mode);
    xfer_engine_options_t client = server;
    client.flags = flags;
    proxy_pair_open(pair, &server, &client, mode, kLength);
}

/* ---- tests ---- */

static uint64_t wrong_bytes(const uint8_t *a, const uint8_t *b) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kLength; i++)
        wrong += a[i] != b[i];
    return wrong;
}

static void test_flipped_put(void **state) {
    Pair pair;
    pair_with(&pair, *state, XFER_ENGINE_CHECKSUM);
    uint8_t *local = test_memory(kLength);
    fill(local, kLength, 3);
    proxy_flip(kToServer, kFlipAt);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_ECHECKSUM);
    assert_true(proxy_has_flipped());
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
    proxy_pair_end(&pair);
}

static void test_flipped_get(void **state) {
    Pair pair;
    pair_with(&pair, *state, XFER_ENGINE_CHECKSUM);
    uint8_t *local = test_memory(kLength);
    fill(pair.memory, kLength, 4);
    proxy_flip(kToClient, kFlipAt);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_ECHECKSUM);
    assert_true(proxy_has_flipped());
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    proxy_pair_end(&pair);
}

/* The proxy does flip: without checksums nobody notices. And a batch may ask for them alone. */
static void test_unnoticed(void **state) {
    Pair pair;
    pair_with(&pair, *state, 0);
    uint8_t *local = test_memory(kLength);
    fill(local, kLength, 5);
    proxy_flip(kToServer, kFlipAt);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_int_equal(wrong_bytes(pair.memory, local), 1);

    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kLength), XFER_OK);
    const xfer_submit_options_t options = {.size = sizeof options, .flags = XFER_SUBMIT_CHECKSUM};
    proxy_flip(kToServer, kFlipAt);
    assert_status(xfer_batch_submit(batch, 1, &options), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
    assert_status(event.status, XFER_ECHECKSUM);
    assert_completion(&event);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    proxy_pair_end(&pair);
}

/* Every size and shape still arrives, in both directions. */
static void test_shapes(void **state) {
    Pair pair;
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_CHECKSUM;
    pair_open_with(&pair, &options, &options, *state, kLength);
    uint8_t *local = test_memory(kLength);
    uint8_t *back = test_memory(kLength);
    fill(local, kLength, 6);
    const uint64_t lengths[] = {0, 1, 7, 4096, 65537, 262144, 262145, 1 << 20, kLength};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint64_t length = lengths[i], offset = kLength - length;
        assert_status(put_now(pair.client, pair.ep, local + offset, &pair.ref, offset, length),
                      XFER_OK);
        assert_status(get_now(pair.client, pair.ep, back + offset, &pair.ref, offset, length),
                      XFER_OK);
        assert_memory_equal(back + offset, local + offset, length);
        assert_memory_equal(pair.memory + offset, local + offset, length);
    }
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    const uint64_t block = 800, count = kLength / block;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t there = (i * 7919 % count) * block;
        assert_status(xfer_batch_put(batch, local + i * block, &pair.ref, there, block), XFER_OK);
    }
    assert_status(submit_now(pair.client, batch), XFER_OK);
    for (uint64_t i = 0; i < count; i++)
        assert_memory_equal(pair.memory + (i * 7919 % count) * block, local + i * block, block);
}

/* What is filled up from zeros after a cancel has another sum: that is no fault of the wire. */
static void test_canceled(void **state) {
    Pair pair;
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_CHECKSUM;
    pair_open_with(&pair, &options, &options, *state, kLength);
    uint8_t *local = test_memory(kLength);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, kLength), XFER_OK);
    for (int round = 0; round < (quick() ? 10 : 40); round++) {
        fill(local, kLength, (uint64_t)round);
        assert_status(xfer_batch_submit(batch, 1, NULL), XFER_OK);
        for (int i = 0; i < round % 8; i++)
            turn(0);
        xfer_batch_cancel(batch);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_BATCH, 1, kPatience);
        assert_true(event.status == XFER_OK || event.status == XFER_ECANCELED);
        memset(local, 0xee, kLength);
        xfer_status_t entry = XFER_EINTERNAL;
        assert_status(xfer_batch_entries(batch, 0, 1, &entry), XFER_OK);
        assert_status(entry, event.status);
    }
    fill(local, kLength, 1000);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_flipped_put), EACH_DISPATCH(test_flipped_get), EACH_DISPATCH(test_unnoticed),
    EACH_MODE(test_shapes),          EACH_MODE(test_canceled),
};

TEST_MAIN(tests)
