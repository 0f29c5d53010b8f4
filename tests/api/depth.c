/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that submit batches of one, 10, 30 and 200 requests at once, over adapters whose queues
 * take 25: all of them end, some canceled, and the queue is as deep then as it was. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xfer/rdma.h>

#include "carried.h"

enum { kThreads = 8, kMost = 200, kPiece = 64, kApart = 256, kDepth = 25 };

static const uint64_t kSizes[] = {1, 10, 30, kMost};

typedef struct Submitter {
    Pair *pair;
    uint64_t me;
    bool cancels;
    uint64_t wrong; /* bytes that are not what was put, or statuses that nothing asked for */
    uint8_t *out, *in;
} Submitter;

static atomic_int ended[kThreads];
static _Atomic(xfer_status_t) last[kThreads];

static void note_end(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_BATCH) return;
    atomic_store(&last[event->user], event->status);
    atomic_fetch_add(&ended[event->user], 1);
}

/* Pieces of which no two are neighbours, on either side. */
static xfer_batch_t *open_batch(Submitter *submitter, uint32_t op, uint8_t *local, uint64_t count) {
    xfer_batch_t *batch = NULL;
    if (xfer_batch_open(submitter->pair->ep, NULL, &batch, NULL) != XFER_OK) return NULL;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = (submitter->me * kMost + i) * kApart;
        const xfer_span_t span = {(uintptr_t)(local + i * 2 * kPiece), at, kPiece};
        if (xfer_batch_add_spans(batch, op, &submitter->pair->ref, &span, sizeof span, 1, NULL) !=
            XFER_OK)
            return NULL;
    }
    return batch;
}

/* Submits, perhaps cancels, and waits. */
static xfer_status_t run(Submitter *submitter, xfer_batch_t *batch, bool cancel) {
    const int before = atomic_load(&ended[submitter->me]);
    xfer_status_t status = XFER_EAGAIN;
    const uint64_t end = now_ms() + kPatience;
    while (status == XFER_EAGAIN && now_ms() < end) {
        status = xfer_batch_submit(batch, submitter->me, NULL);
        if (status == XFER_EAGAIN) usleep(50);
    }
    if (status != XFER_OK) return status;
    if (cancel) xfer_batch_cancel(batch); /* it may have ended */
    for (; atomic_load(&ended[submitter->me]) == before; usleep(50))
        if (now_ms() >= end) return XFER_ETIMEDOUT;
    return atomic_load(&last[submitter->me]);
}

static void *submit_all(void *argument) {
    Submitter *submitter = argument;
    const int rounds = quick() ? 25 : 250;
    xfer_batch_t *puts[4], *gets[4];
    for (size_t size = 0; size < 4; size++) {
        puts[size] = open_batch(submitter, XFER_OP_PUT, submitter->out, kSizes[size]);
        gets[size] = open_batch(submitter, XFER_OP_GET, submitter->in, kSizes[size]);
        if (puts[size] == NULL || gets[size] == NULL) return (void *)1;
    }
    for (uint64_t round = 0; round < (uint64_t)rounds * 4 && !submitter->wrong; round++) {
        const size_t size = (round + submitter->me) % 4;
        const bool cancel = submitter->cancels && (round + submitter->me) % 3 == 0;
        fill(submitter->out, kMost * 2 * kPiece, round + 1);
        const xfer_status_t put = run(submitter, puts[size], cancel);
        submitter->wrong += put != XFER_OK && !(cancel && put == XFER_ECANCELED);
        if (put != XFER_OK) continue;
        submitter->wrong += run(submitter, gets[size], false) != XFER_OK;
        for (uint64_t i = 0; i < kSizes[size]; i++)
            submitter->wrong += memcmp(submitter->in + i * 2 * kPiece,
                                       submitter->out + i * 2 * kPiece, kPiece) != 0;
    }
    for (size_t size = 0; size < 4; size++) {
        xfer_batch_close(puts[size]);
        xfer_batch_close(gets[size]);
    }
    return NULL;
}

static void submit_from_threads(const Mode *mode, bool cancels) {
    const xfer_rdma_options_t rdma = {.size = sizeof rdma, .queue_depth = kDepth};
    xfer_engine_options_t client = host_options(mode), server = host_options(mode);
    if (wanted_way() != NULL) client.rdma = server.rdma = &rdma;
    Pair pair;
    pair_open_with(&pair, &server, &client, mode, (uint64_t)kThreads * kMost * kApart);
    const uint64_t before = wanted_way() ? carried_by(pair.client->engine, wanted_way()) : 0;
    atomic_store(&pair.client->hook, note_end);
    pthread_t threads[kThreads];
    Submitter submitters[kThreads];
    for (uint64_t i = 0; i < kThreads; i++) {
        submitters[i] = (Submitter){.pair = &pair,
                                    .me = i,
                                    .cancels = cancels,
                                    .out = test_memory(kMost * 2 * kPiece),
                                    .in = test_memory(kMost * 2 * kPiece)};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    bool failed = false;
    for (uint64_t i = 0; i < kThreads; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= result != NULL || submitters[i].wrong != 0;
    }
    assert_false(failed);
    atomic_store(&pair.client->hook, NULL);
    if (wanted_way() == NULL) return;
    const uint64_t carried = carried_by(pair.client->engine, wanted_way());
    assert_true(carried > before);
    /* Nothing is kept by what has ended. */
    uint8_t *byte = test_memory(kDepth);
    assert_status(put_now(pair.client, pair.ep, byte, &pair.ref, 0, kDepth), XFER_OK);
    assert_true(carried_by(pair.client->engine, wanted_way()) == carried + kDepth);
}

static void test_threads(void **state) {
    submit_from_threads(*state, false);
}

static void test_threads_that_cancel(void **state) {
    submit_from_threads(*state, true);
}

static const struct CMUnitTest tests[] = {
    ONE_MODE(test_threads),
    ONE_MODE(test_threads_that_cancel),
};

TEST_MAIN(tests)
