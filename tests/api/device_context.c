/* SPDX-License-Identifier: Apache-2.0
 *
 * The application resets or destroys the context that copies go by. The driver (fake_driver.h) ends
 * the test where a handle of a context that has gone is used or destroyed. */
#include <string.h>

#include "device_memory.h"

/* Both ways, in memory of now. */
static void copy_both_ways(Pair *pair) {
    uint8_t *device = device_memory(kChunk, 4);
    memset(pair->memory, 0, kChunk);
    assert_status(put_now(pair->client, pair->ep, device, &pair->ref, 0, kChunk), XFER_OK);
    assert_true(filled(pair->memory, kChunk, 4, 0));
    fill(pair->memory, kChunk, 6);
    assert_status(get_now(pair->client, pair->ep, device, &pair->ref, 0, kChunk), XFER_OK);
    assert_device_filled(device, kChunk, 6, 0);
}

static void end_both(Pair *pair) {
    host_end(pair->client);
    host_end(pair->server);
}

/* Copies go on by new streams, and bounce memory is pinned again. */
static void test_reset(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    copy_both_ways(&pair);
    for (int i = 0; i < 2; i++) {
        const unsigned streams = fake_cuda_calls("cuStreamCreate");
        const unsigned pinned = fake_cuda_calls("cuMemHostRegister");
        fake_cuda_reset();
        copy_both_ways(&pair);
        assert_int_equal(fake_cuda_calls("cuStreamCreate"), streams + 2);
        assert_int_equal(fake_cuda_calls("cuMemHostRegister"), pinned + 1);
    }
}

/* Whether the application has its context again, or not. */
static void test_end_behind_a_reset(void **state) {
    for (int again = 0; again < 2; again++) {
        Pair pair;
        pair_open(&pair, *state, kLength);
        copy_both_ways(&pair);
        fake_cuda_reset();
        if (again) fake_cuda_alloc(kChunk);
        end_both(&pair);
        assert_int_equal(fake_cuda_retained(), 0);
    }
}

/* What had begun fails: the first is waited for already, the others are not. */
static void test_reset_in_copies(void **state) {
    enum { kCopies = 4 };
    Pair pair;
    pair_open(&pair, *state, kLength);
    copy_both_ways(&pair);
    for (int again = 0; again < 2; again++) {
        void *device = device_memory(kChunk, 4);
        const unsigned waits = fake_cuda_calls("cuEventSynchronize");
        const unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync");
        const xfer_op_options_t none = {.size = sizeof none};
        uint64_t put = 0;
        fake_cuda_hold(1);
        for (; put < kCopies; put++)
            assert_status(xfer_put(pair.ep, device, &pair.ref, put * kChunk, kChunk, put, &none),
                          XFER_OK);
        await_copies("cuMemcpyDtoHAsync", copies, 1);
        await_copies("cuEventSynchronize", waits, 1);
        fake_cuda_reset();
        if (again) fake_cuda_alloc(kChunk);
        while (put-- > 0) {
            const xfer_event_t end = wait_event(pair.client, XFER_EVENT_PUT, put, kPatience);
            assert_status(end.status, XFER_EIO);
        }
        fake_cuda_hold(0);
        copy_both_ways(&pair);
    }
}

/* One of cuCtxCreate, whose address the next one has; then there is the primary one, or none. */
static void test_context_of_its_own(void **state) {
    for (int round = 0; round < 4; round++) {
        Pair pair;
        fake_cuda_lack(round < 2 ? NULL : "cuCtxGetId");
        fake_cuda_own_context(1);
        pair_open(&pair, *state, kLength);
        copy_both_ways(&pair);
        if (round < 2) {
            fake_cuda_own_context(1);
            copy_both_ways(&pair);
        }
        fake_cuda_own_context(0);
        if (round % 2) copy_both_ways(&pair);
        end_both(&pair);
    }
}

/* Its streams stay, although the allocation that they were opened for has gone. */
static void test_context_outlives_an_allocation(void **state) {
    Pair pair;
    fake_cuda_own_context(1);
    pair_open(&pair, *state, kLength);
    void *first = device_memory(kChunk, 1), *second = device_memory(kChunk, 2);
    assert_status(put_now(pair.client, pair.ep, first, &pair.ref, 0, kChunk), XFER_OK);
    const unsigned streams = fake_cuda_calls("cuStreamCreate");
    assert_status(put_now(pair.client, pair.ep, second, &pair.ref, 0, kChunk), XFER_OK);
    fake_cuda_free(first);
    copy_both_ways(&pair);
    assert_int_equal(fake_cuda_calls("cuStreamCreate"), streams);
    end_both(&pair);
    fake_cuda_own_context(0);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_reset),
    EACH_WAY(test_end_behind_a_reset),
    EACH_WAY(test_reset_in_copies),
    EACH_WAY(test_context_of_its_own),
    EACH_WAY(test_context_outlives_an_allocation),
};

TEST_MAIN(tests)
