/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on streams of a device (xfer/cuda.h): what was in the stream before is what moves, what
 * comes behind finds its bytes, and the stream goes on whatever fails. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "on_stream.h"

/* What a device call fails with here; no other part of the library has this number. */
enum { kFailure = 719 };

static uint64_t copies_of(void) {
    return fake_cuda_calls("cuMemcpyDtoHAsync") + fake_cuda_calls("cuMemcpyBatchAsync");
}

/* ---- order ---- */

/* What the stream wrote before is put, and what it writes behind is not. */
static void test_order(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    uint8_t *before = test_memory(kBytes), *behind = test_memory(kBytes);
    fill(before, kBytes, 2);
    fill(behind, kBytes, 3);
    for (uint64_t round = 1; round <= 3; round++) {
        const uint64_t copies = copies_of();
        memset(on.pair.memory, 0, kBytes);
        fake_cuda_hold_stream(on.stream, 1); /* nothing begins before the stream gets there */
        fake_cuda_write_on(on.stream, on.device, before, kBytes);
        submit_on(&on, round, NULL);
        fake_cuda_write_on(on.stream, on.device, behind, kBytes);
        assert_no_event(on.pair.client, round, 30);
        assert_int_equal(copies_of(), copies);
        assert_int_equal(on.result->runs, 0);
        assert_status(on.result->status, XFER_OK);
        assert_int_equal(batch_state(on.batch), XFER_BATCH_INFLIGHT);
        fake_cuda_hold_stream(on.stream, 0);
        assert_true(passes(on.stream, kPatience));
        const xfer_event_t event = only_event(on.pair.client, round);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, kBytes);
        assert_ptr_equal(event.object, on.batch);
        assert_true(filled(on.pair.memory, kBytes, 2, 0));
        assert_device_filled(on.device, kBytes, 3, 0);
        assert_int_equal(on.result->runs, 1);
        assert_int_equal(on.result->failures, 0);
        assert_int_equal(on.result->flags, XFER_FENCED);
        assert_int_equal(batch_state(on.batch), XFER_BATCH_IDLE);
    }
    assert_status(submit_now(on.pair.client, on.batch), XFER_OK);
}

/* A get, and a kernel behind it that uses what came; another one looks at the result. */
static void test_get(void **state) {
    OnStream on;
    xfer_cuda_result_t told;
    on_stream_open(&on, *state);
    uint8_t *const used = device_memory(kBytes, 8);
    void *const seen = fake_cuda_alloc(4096);
    assert_status(xfer_batch_reset(on.batch), XFER_OK);
    assert_status(xfer_batch_get(on.batch, on.device, &on.pair.ref, 0, kBytes), XFER_OK);
    for (uint64_t round = 1; round <= 3; round++) {
        fill(on.pair.memory, kBytes, 10 + round);
        submit_on(&on, round, NULL);
        fake_cuda_copy_on(on.stream, used, on.device, kBytes);
        fake_cuda_copy_on(on.stream, seen, on.result, sizeof told);
        assert_true(passes(on.stream, kPatience));
        assert_device_filled(used, kBytes, 10 + round, 0);
        fake_cuda_read(&told, seen, sizeof told);
        assert_int_equal(told.runs, 1);
        assert_status(told.status, XFER_OK);
        assert_status(only_event(on.pair.client, round).status, XFER_OK);
    }
}

/* Batches behind each other in one stream, of memory that each one changes. */
static void test_in_a_row(void **state) {
    enum { kRow = 8 };
    OnStream on;
    on_stream_open(&on, *state);
    xfer_batch_t *batches[kRow];
    uint8_t *content = test_memory(kBytes);
    for (uint64_t i = 0; i < kRow; i++) {
        assert_status(xfer_batch_open(on.pair.ep, NULL, &batches[i], NULL), XFER_OK);
        assert_status(xfer_batch_put(batches[i], on.device, &on.pair.ref, i * kBytes, kBytes),
                      XFER_OK);
        fill(content, kBytes, 20 + i);
        fake_cuda_write_on(on.stream, on.device, content, kBytes);
        assert_status(xfer_cuda_submit(batches[i], on.stream, i, NULL, NULL, NULL), XFER_OK);
    }
    assert_true(passes(on.stream, kPatience));
    for (uint64_t i = 0; i < kRow; i++) {
        assert_status(only_event(on.pair.client, i).status, XFER_OK);
        assert_true(filled(on.pair.memory + i * kBytes, kBytes, 20 + i, 0));
    }
}

/* Host memory, no entries at all, and a result that nobody wants. */
static void test_other_memory(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    uint8_t *host = test_memory(kBytes);
    fill(host, kBytes, 4);
    assert_status(xfer_batch_reset(on.batch), XFER_OK);
    submit_on(&on, 1, NULL);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 1).status, XFER_OK);
    assert_int_equal(on.result->runs, 1);
    assert_status(xfer_batch_put(on.batch, host, &on.pair.ref, 0, kBytes), XFER_OK);
    assert_status(xfer_cuda_submit(on.batch, on.stream, 2, NULL, NULL, NULL), XFER_OK);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 2).status, XFER_OK);
    assert_true(filled(on.pair.memory, kBytes, 4, 0));
}

/* The legacy one is that of the current context, which is the same afterwards. */
static void test_default_stream(void **state) {
    OnStream on;
    CUcontext context, popped;
    on_stream_open(&on, *state);
    assert_true(xfer_cuda_submit(on.batch, NULL, 1, NULL, NULL, NULL) != XFER_OK);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    void *const streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    for (uint64_t i = 0; i < 3; i++) {
        on.stream = streams[i];
        submit_on(&on, i + 2, NULL);
        assert_status(only_event(on.pair.client, i + 2).status, XFER_OK);
        assert_int_equal(cuStreamSynchronize(streams[2]), CUDA_SUCCESS);
    }
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ptr_equal(popped, context);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* ---- time ---- */

/* The deadline counts from the begin, and at it the stream goes on where nobody answers. */
static void test_deadline(void **state) {
    enum { kDeadline = 300 };
    const xfer_submit_options_t brief = {.size = sizeof brief, .timeout_ms = kDeadline};
    OnStream on;
    on_stream_open(&on, *state);
    const int hole = on_stream_to_nobody(&on);
    fake_cuda_hold_stream(on.stream, 1);
    submit_on(&on, 1, &brief);
    assert_no_event(on.pair.client, 1, kDeadline + 100);
    const uint64_t start = now_ms();
    fake_cuda_hold_stream(on.stream, 0);
    assert_true(passes(on.stream, kPatience));
    assert_true(now_ms() - start + 1 >= kDeadline);
    assert_status(on.result->status, XFER_ETIMEDOUT);
    assert_int_equal(on.result->runs, 1);
    assert_int_equal(on.result->failures, 1);
    assert_status(only_event(on.pair.client, 1).status, XFER_ETIMEDOUT);
    close(hole);
}

/* The copy waits behind the stream that waits for it: a second after the cancel the stream goes on,
 * and the event comes with the end of the copy. */
static void test_shared_queue(void **state) {
    enum { kQuietMs = 1000 };
    OnStream on;
    xfer_cuda_result_t told;
    on_stream_open(&on, *state);
    void *const seen = fake_cuda_alloc(4096);
    fake_cuda_share(1);
    const unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync");
    submit_on(&on, 3, NULL);
    fake_cuda_copy_on(on.stream, seen, on.result, sizeof told); /* ahead of the library's copy */
    await_copies("cuMemcpyDtoHAsync", copies, 1);
    const uint64_t start = now_ms();
    assert_status(xfer_batch_cancel(on.batch), XFER_OK);
    assert_true(passes(on.stream, kPatience));
    assert_true(now_ms() - start + 1 >= kQuietMs);
    fake_cuda_read(&told, seen, sizeof told);
    assert_status(told.status, XFER_ECANCELED);
    assert_int_equal(told.flags, XFER_MAYBE_APPLIED);
    assert_int_equal(told.runs, 0);
    assert_status(only_event(on.pair.client, 3).status, XFER_ECANCELED);
    assert_int_equal(on.result->runs, 1);
    assert_int_equal(on.result->failures, 1);
    fake_cuda_share(0);
    submit_on(&on, 4, NULL);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 4).status, XFER_OK);
}

/* ---- what fails ---- */

static const char *const calls[] = {
    "cuStreamGetCtx",   "cuCtxPushCurrent",          "cuMemHostRegister",  "cuStreamGetCaptureInfo",
    "cuLaunchHostFunc", "cuMemHostGetDevicePointer", "cuStreamWaitValue32"};
enum { kCalls = sizeof calls / sizeof *calls };

/* Nothing begins, nothing is told, the stream goes on, and the next submit is as if nothing had
 * been. */
static void test_failing_calls(void **state) {
    for (int i = 0; i < kCalls; i++) {
        OnStream on;
        xfer_error_t err;
        fake_cuda_own_context(1); /* no memory is registered there yet */
        on_stream_open(&on, *state);
        const uint64_t copies = copies_of();
        fake_cuda_fail(calls[i], 1, kFailure, 0);
        on.result = (const xfer_cuda_result_t *)on.device;
        const xfer_status_t status =
            xfer_cuda_submit(on.batch, on.stream, 5, NULL, &on.result, &err);
        fake_cuda_fail(NULL, 0, 0, 0);
        if (status != XFER_EIO) fail_msg("%s: %s", calls[i], xfer_status_name(status));
        assert_int_equal(err.origin, XFER_ORIGIN_CUDA);
        assert_int_equal(err.native_code, kFailure);
        assert_null(on.result);
        assert_int_equal(batch_state(on.batch), XFER_BATCH_IDLE);
        assert_true(passes(on.stream, kPatience));
        assert_no_event(on.pair.client, 5, 20);
        assert_int_equal(copies_of(), copies);
        submit_on(&on, 6, NULL);
        assert_true(passes(on.stream, kPatience));
        assert_status(only_event(on.pair.client, 6).status, XFER_OK);
        host_end(on.pair.client);
        host_end(on.pair.server);
        fake_cuda_end_stream(on.stream);
    }
}

/* A driver without one of the calls serves all else. */
static void test_lacking_calls(void **state) {
    const char *const lacks[] = {"cuStreamGetCtx",      "cuStreamGetCaptureInfo",
                                 "cuLaunchHostFunc",    "cuMemHostGetDevicePointer",
                                 "cuStreamWaitValue32", "cuUserObjectCreate",
                                 "cuUserObjectRelease", "cuGraphRetainUserObject"};
    for (uint64_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        OnStream on;
        fake_cuda_lack(lacks[i]);
        on_stream_open(&on, *state);
        assert_status(xfer_cuda_submit(on.batch, on.stream, 1, NULL, &on.result, NULL),
                      XFER_EUNSUPPORTED);
        assert_null(on.result);
        assert_status(submit_now(on.pair.client, on.batch), XFER_OK);
        assert_true(filled(on.pair.memory, kBytes, 1, 0));
    }
}

/* Its context goes while a batch waits for its stream: that never comes, and a cancel ends the
 * batch. */
static void test_context_goes_first(void **state) {
    for (int own = 0; own < 2; own++) {
        OnStream on;
        fake_cuda_own_context(own);
        on_stream_open(&on, *state);
        fake_cuda_hold_stream(on.stream, 1);
        submit_on(&on, 1, NULL);
        own ? fake_cuda_own_context(0) : fake_cuda_reset();
        fake_cuda_hold_stream(on.stream, 0);
        assert_true(passes(on.stream, kPatience));
        assert_no_event(on.pair.client, 1, 30);
        assert_status(xfer_batch_cancel(on.batch), XFER_OK);
        assert_status(only_event(on.pair.client, 1).status, XFER_ECANCELED);
        assert_status(xfer_batch_close(on.batch), XFER_OK);
        on.stream = fake_cuda_stream();
        on.device = device_memory(kBytes, 7);
        on_stream_use(&on, on.pair.ep);
        submit_on(&on, 2, NULL);
        assert_true(passes(on.stream, kPatience));
        assert_status(only_event(on.pair.client, 2).status, XFER_OK);
        assert_true(filled(on.pair.memory, kBytes, 7, 0));
    }
}

/* The same while it runs, and a copy is under way. */
static void test_context_goes_in_a_run(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    const unsigned waits = fake_cuda_calls("cuEventSynchronize");
    fake_cuda_hold_copies(1);
    submit_on(&on, 1, NULL);
    await_copies("cuEventSynchronize", waits, 1); /* the driver is not called just now */
    fake_cuda_reset();
    fake_cuda_hold_copies(0);
    assert_status(only_event(on.pair.client, 1).status, XFER_EIO);
    assert_status(on.result->status, XFER_EIO);
    assert_int_equal(on.result->failures, 1);
}

/* What one context has registered goes with it: streams of another one do not wait there. */
static void test_two_contexts(void **state) {
    OnStream on, other;
    on_stream_open(&on, *state);
    submit_on(&on, 1, NULL);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 1).status, XFER_OK);
    fake_cuda_own_context(1);
    other = on;
    other.stream = fake_cuda_stream();
    other.device = device_memory(kBytes, 6);
    on_stream_use(&other, on.pair.ep);
    fake_cuda_hold_stream(other.stream, 1);
    submit_on(&other, 2, NULL);
    fake_cuda_reset();
    fake_cuda_hold_stream(other.stream, 0);
    assert_true(passes(other.stream, kPatience));
    assert_status(only_event(on.pair.client, 2).status, XFER_OK);
    assert_true(filled(on.pair.memory, kBytes, 6, 0));
}

/* ---- rules ---- */

static void test_rules(void **state) {
    const xfer_submit_options_t ordered = {.size = sizeof ordered, .flags = XFER_SUBMIT_ORDERED};
    OnStream on;
    xfer_status_t entry;
    on_stream_open(&on, *state);
    assert_status(xfer_cuda_submit(on.batch, on.stream, 1, &ordered, &on.result, NULL),
                  XFER_EUNSUPPORTED);
    assert_int_equal(batch_state(on.batch), XFER_BATCH_IDLE);
    fake_cuda_hold_stream(on.stream, 1);
    submit_on(&on, 2, NULL);
    assert_status(xfer_cuda_submit(on.batch, on.stream, 3, NULL, NULL, NULL), XFER_EBUSY);
    assert_status(xfer_batch_submit(on.batch, 3, NULL), XFER_EBUSY);
    assert_status(xfer_batch_put(on.batch, on.device, &on.pair.ref, 0, 1), XFER_EBUSY);
    assert_status(xfer_batch_rebind(on.batch, &on.pair.ref, &on.pair.ref, NULL), XFER_EBUSY);
    assert_status(xfer_batch_entries(on.batch, 0, 1, &entry), XFER_EBUSY);
    assert_status(xfer_batch_reset(on.batch), XFER_EBUSY);
    fake_cuda_hold_stream(on.stream, 0);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 2).status, XFER_OK);
    assert_status(xfer_batch_entries(on.batch, 0, 1, &entry), XFER_OK);
    assert_status(entry, XFER_OK);
    assert_status(xfer_batch_cancel(on.batch), XFER_EINVAL);
    assert_status(xfer_ep_close(on.pair.ep), XFER_OK);
    wait_closed(on.pair.client, on.pair.ep);
    assert_status(xfer_cuda_submit(on.batch, on.stream, 4, NULL, &on.result, NULL), XFER_ECLOSED);
    assert_true(passes(on.stream, kPatience));
}

/* ---- many ---- */

enum { kThreads = 8, kEach = 13, kSmall = 8192 };

typedef struct Crowd {
    pthread_t thread;
    Pair *pair;
    uint64_t first;
    void *streams[kEach];
    uint8_t *device[kEach];
    xfer_batch_t *batches[kEach];
    uint8_t content[kSmall];
    xfer_status_t failed; /* the first call that did */
} Crowd;

static void *submit_all(void *argument) {
    Crowd *crowd = argument;
    for (uint64_t i = 0; i < kEach; i++) {
        const uint64_t at = crowd->first + i;
        fill(crowd->content, kSmall, at);
        fake_cuda_write_on(crowd->streams[i], crowd->device[i], crowd->content, kSmall);
        const xfer_status_t status =
            xfer_cuda_submit(crowd->batches[i], crowd->streams[i], at, NULL, NULL, NULL);
        if (status != XFER_OK && crowd->failed == XFER_OK) crowd->failed = status;
        fill(crowd->content, kSmall, 999);
        fake_cuda_write_on(crowd->streams[i], crowd->device[i], crowd->content, kSmall);
    }
    return NULL;
}

/* Of a hundred streams, by eight threads. */
static void test_many(void **state) {
    static Crowd crowds[kThreads];
    Pair pair;
    pair_open(&pair, *state, kLength);
    for (uint64_t i = 0; i < kThreads; i++) {
        crowds[i] = (Crowd){.pair = &pair, .first = i * kEach};
        for (uint64_t j = 0; j < kEach; j++) {
            const uint64_t at = (i * kEach + j) * kSmall;
            xfer_batch_t **batch = &crowds[i].batches[j];
            crowds[i].streams[j] = fake_cuda_stream();
            crowds[i].device[j] = device_memory(kSmall, 1000);
            assert_status(xfer_batch_open(pair.ep, NULL, batch, NULL), XFER_OK);
            assert_status(xfer_batch_put(*batch, crowds[i].device[j], &pair.ref, at, kSmall),
                          XFER_OK);
        }
    }
    for (int round = 0; round < 2; round++) {
        memset(pair.memory, 0, kLength);
        for (int i = 0; i < kThreads; i++)
            assert_int_equal(pthread_create(&crowds[i].thread, NULL, submit_all, &crowds[i]), 0);
        for (int i = 0; i < kThreads; i++)
            pthread_join(crowds[i].thread, NULL);
        for (uint64_t at = 0; at < kThreads * kEach; at++) {
            const Crowd *crowd = &crowds[at / kEach];
            assert_status(crowd->failed, XFER_OK);
            assert_status(wait_event(pair.client, XFER_EVENT_BATCH, at, kPatience).status, XFER_OK);
            assert_true(passes(crowd->streams[at % kEach], kPatience));
            assert_true(filled(pair.memory + at * kSmall, kSmall, at, 0));
        }
    }
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_order),
    EACH_WAY(test_get),
    EACH_WAY(test_in_a_row),
    EACH_WAY(test_other_memory),
    EACH_WAY(test_default_stream),
    EACH_WAY(test_deadline),
    EACH_WAY(test_shared_queue),
    EACH_WAY(test_failing_calls),
    EACH_WAY(test_lacking_calls),
    EACH_WAY(test_context_goes_first),
    EACH_WAY(test_context_goes_in_a_run),
    EACH_WAY(test_two_contexts),
    EACH_WAY(test_rules),
    EACH_WAY(test_many),
};

TEST_MAIN(tests)
