/* SPDX-License-Identifier: Apache-2.0
 *
 * XFER_SUBMIT_ORDERED: a batch that begins when all before it on its endpoint has ended. */
#include <string.h>

#include "fixture.h"

enum { kBig = 24 << 20, kFlag = kBig };

static xfer_batch_t *batch_of(Pair *pair, const void *local, uint64_t offset, uint64_t length) {
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair->ep, NULL, &batch, NULL), XFER_OK);
    if (length) assert_status(xfer_batch_put(batch, local, &pair->ref, offset, length), XFER_OK);
    return batch;
}

static void submit(xfer_batch_t *batch, uint32_t flags, uint32_t timeout_ms, uint64_t user) {
    xfer_submit_options_t options = {
        .size = sizeof options, .flags = flags, .timeout_ms = timeout_ms};
    assert_status(xfer_batch_submit(batch, user, &options), XFER_OK);
}

static xfer_event_t end_of(Pair *pair, uint64_t user) {
    xfer_event_t event = wait_event(pair->client, XFER_EVENT_BATCH, user, kPatience);
    assert_completion(&event);
    return event;
}

/* The word that says all is there is written by a batch behind the data, and read without a lock by
 * the owner: as soon as it is seen the data are there. */
static void test_commit_word(void **state) {
    Pair pair;
    pair_open(&pair, *state, kBig + 8);
    uint8_t *local = test_memory(kBig);
    const uint64_t rounds = quick() ? 3 : 8;
    for (uint64_t round = 1; round <= rounds; round++) {
        fill(local, kBig, round);
        xfer_batch_t *data = batch_of(&pair, local, 0, kBig);
        xfer_batch_t *commit = batch_of(&pair, &round, kFlag, sizeof round);
        submit(data, 0, 0, 1);
        submit(commit, XFER_SUBMIT_ORDERED, 0, 2);
#ifdef __SANITIZE_THREAD__
        pass_ms(1); /* the kernel writes the word, which a load of ours would race with */
        assert_status(end_of(&pair, 2).status, XFER_OK);
#else
        while (__atomic_load_n((uint64_t *)(pair.memory + kFlag), __ATOMIC_ACQUIRE) != round)
            turn(0);
#endif
        assert_true(filled(pair.memory, kBig, round, 0));
        assert_status(end_of(&pair, 1).status, XFER_OK);
#ifndef __SANITIZE_THREAD__
        assert_status(end_of(&pair, 2).status, XFER_OK);
#endif
        assert_status(xfer_batch_close(data), XFER_OK);
        assert_status(xfer_batch_close(commit), XFER_OK);
    }
}

/* Many in a row, each behind all before it, some of them empty: their events keep the order. */
static void test_chain(void **state) {
    Pair pair;
    pair_open(&pair, *state, kBig);
    uint8_t *local = test_memory(1 << 20);
    enum { kChain = 40 };
    xfer_batch_t *chain[kChain];
    for (uint64_t i = 0; i < kChain; i++)
        chain[i] = batch_of(&pair, local, 0, i % 3 == 0 ? 1 << 20 : i % 3 == 1 ? 100 : 0);
    for (uint64_t i = 0; i < kChain; i++)
        submit(chain[i], XFER_SUBMIT_ORDERED, 0, i);
    uint64_t last = 0;
    for (uint64_t i = 0; i < kChain; i++) {
        xfer_event_t event = end_of(&pair, i);
        assert_status(event.status, XFER_OK);
        assert_true(event.sequence > last);
        last = event.sequence;
    }
}

/* What others do is not waited for: other endpoints, and what was submitted later. */
static void test_only_its_own(void **state) {
    Pair pair;
    pair_open(&pair, *state, kBig);
    xfer_ep_t *nowhere = open_ep(pair.client, "tcp://127.0.0.1:1");
    static uint64_t word;
    assert_status(xfer_put(nowhere, &word, &pair.ref, 0, 8, 1, NULL), XFER_OK);
    xfer_batch_t *batch = batch_of(&pair, &word, 0, 8);
    submit(batch, XFER_SUBMIT_ORDERED, 0, 1);
    assert_status(end_of(&pair, 1).status, XFER_OK);
    assert_status(xfer_cancel(pair.client->engine, nowhere, 1, UINT64_MAX), XFER_OK);
    wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience);
}

/* It waits for an end, not for a success; and its own end need not wait. */
static void test_ends(void **state) {
    char uri[64];
    Pair pair;
    pair_open(&pair, *state, 4096);
    assert_true(black_hole(uri, sizeof uri) >= 0);
    pair.ep = open_ep(pair.client, uri); /* nobody ever answers there */
    static uint64_t word;
    xfer_batch_t *batches[4];
    for (int i = 0; i < 4; i++)
        batches[i] = batch_of(&pair, &word, 0, i == 3 ? 0 : 8);
    submit(batches[0], 0, 0, 0);
    submit(batches[1], XFER_SUBMIT_ORDERED, 30, 1);
    submit(batches[2], XFER_SUBMIT_ORDERED, 0, 2);
    submit(batches[3], XFER_SUBMIT_ORDERED, 0, 3);
    assert_status(end_of(&pair, 1).status, XFER_ETIMEDOUT);
    assert_status(xfer_batch_cancel(batches[2]), XFER_OK);
    assert_status(end_of(&pair, 2).status, XFER_ECANCELED);
    pass_ms(20);
    assert_int_equal(count_events(pair.client, XFER_EVENT_BATCH, 3), 0);
    assert_status(xfer_batch_cancel(batches[0]), XFER_OK);
    assert_status(end_of(&pair, 0).status, XFER_ECANCELED);
    assert_status(end_of(&pair, 3).status, XFER_OK); /* nothing to do, and it is its turn */
    submit(batches[0], 0, 0, 0);
    submit(batches[1], XFER_SUBMIT_ORDERED, 0, 1);
    assert_status(xfer_ep_close(pair.ep), XFER_OK);
    assert_status(end_of(&pair, 0).status, XFER_ECANCELED);
    assert_status(end_of(&pair, 1).status, XFER_ECANCELED);
    wait_closed(pair.client, pair.ep);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_commit_word),
    EACH_MODE(test_chain),
    EACH_DISPATCH(test_only_its_own),
    EACH_MODE(test_ends),
};

TEST_MAIN(tests)
