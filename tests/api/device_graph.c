/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches in graphs of a device (xfer/cuda.h): each launch is a run, and nothing that the graph
 * knows changes. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "on_stream.h"
#include "peer.h"

static void device_fill(OnStream *on, uint64_t seed) {
    uint8_t *const bytes = test_memory(kBytes);
    fill(bytes, kBytes, seed);
    fake_cuda_write(on->device, bytes, kBytes);
}

static void end_graph(OnStream *on, uint64_t user, xfer_status_t status) {
    fake_cuda_free_exec(on->exec);
    assert_status(only_event(on->pair.client, user).status, status);
    assert_int_equal(batch_state(on->batch), XFER_BATCH_IDLE);
}

/* Without an event but the last; then the batch is the caller's again. */
static void test_replay(void **state) {
    enum { kRuns = 20, kQueued = 5 };
    OnStream on;
    on_stream_open(&on, *state);
    record(&on, 7, NULL);
    assert_no_event(on.pair.client, 7, 20);
    assert_int_equal(on.result->runs, 0); /* nothing begins before a launch */
    for (uint64_t i = 1; i <= kRuns; i++) {
        device_fill(&on, i);
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_true(filled(on.pair.memory, kBytes, i, 0));
        assert_int_equal(on.result->runs, i);
        assert_status(on.result->status, XFER_OK);
        assert_int_equal(batch_state(on.batch), XFER_BATCH_INFLIGHT);
    }
    for (int i = 0; i < kQueued; i++) /* behind each other */
        launch(&on);
    assert_true(passes(on.stream, kPatience));
    assert_int_equal(on.result->runs, kRuns + kQueued);
    assert_int_equal(on.result->failures, 0);
    assert_no_event(on.pair.client, 7, 20);
    end_graph(&on, 7, XFER_OK);
    assert_status(submit_now(on.pair.client, on.batch), XFER_OK);
    record(&on, 8, NULL);
    launch(&on);
    assert_true(passes(on.stream, kPatience));
    assert_int_equal(on.result->runs, 1);
    end_graph(&on, 8, XFER_OK);
}

/* Kernels of the graph write what the batch puts, and use what it got. */
static void test_kernels_around(void **state) {
    OnStream on;
    xfer_cuda_result_t told;
    on_stream_open(&on, *state);
    uint8_t *const source = device_memory(kBytes, 5), *const back = device_memory(kBytes, 6);
    void *const seen = fake_cuda_alloc(4096), *const used = device_memory(kBytes, 6);
    assert_status(xfer_batch_get(on.batch, back, &on.pair.ref, kHalf, kBytes), XFER_OK);
    fake_cuda_capture(on.stream);
    fake_cuda_copy_on(on.stream, on.device, source, kBytes);
    submit_on(&on, 1, NULL);
    fake_cuda_copy_on(on.stream, used, back, kBytes);
    fake_cuda_copy_on(on.stream, seen, on.result, sizeof told);
    void *const graph = fake_cuda_end_capture(on.stream);
    assert_non_null(graph);
    on.exec = fake_cuda_instantiate(graph);
    fake_cuda_free_graph(graph);
    for (uint64_t round = 1; round <= 5; round++) {
        memset(on.pair.memory, 0, kBytes);
        fill(on.pair.memory + kHalf, kBytes, 10 + round);
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_true(filled(on.pair.memory, kBytes, 5, 0));
        assert_device_filled(used, kBytes, 10 + round, 0);
        fake_cuda_read(&told, seen, sizeof told);
        assert_int_equal(told.runs, round);
        assert_int_equal(told.failures, 0);
    }
    end_graph(&on, 1, XFER_OK);
}

/* The event comes when the graph and all its instances have gone, and what they have under way. */
static void test_last_of_all(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    fake_cuda_capture(on.stream);
    submit_on(&on, 1, NULL);
    void *const graph = fake_cuda_end_capture(on.stream);
    void *const first = fake_cuda_instantiate(graph), *const second = fake_cuda_instantiate(graph);
    fake_cuda_free_exec(first);
    fake_cuda_free_graph(graph);
    assert_no_event(on.pair.client, 1, 20);
    fake_cuda_hold_stream(on.stream, 1);
    fake_cuda_launch(second, on.stream);
    fake_cuda_free_exec(second);
    assert_no_event(on.pair.client, 1, 20);
    fake_cuda_hold_stream(on.stream, 0);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 1).status, XFER_OK);
    assert_int_equal(on.result->runs, 1);
    assert_true(filled(on.pair.memory, kBytes, 1, 0));
}

/* A graph that nobody launches, and one that is not even instantiated. */
static void test_never_launched(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    record(&on, 1, NULL);
    end_graph(&on, 1, XFER_OK);
    fake_cuda_capture(on.stream);
    submit_on(&on, 2, NULL);
    fake_cuda_free_graph(fake_cuda_end_capture(on.stream));
    assert_status(only_event(on.pair.client, 2).status, XFER_OK);
}

/* Two instances at once are a mistake, by which bytes may be wrong: no stream waits for ever. */
static void test_two_instances(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    fake_cuda_capture(on.stream);
    submit_on(&on, 1, NULL);
    void *const graph = fake_cuda_end_capture(on.stream), *const other = fake_cuda_stream();
    void *const first = fake_cuda_instantiate(graph), *const second = fake_cuda_instantiate(graph);
    for (int i = 0; i < 20; i++) {
        fake_cuda_launch(first, on.stream);
        fake_cuda_launch(second, other);
    }
    assert_true(passes(on.stream, kPatience));
    assert_true(passes(other, kPatience));
    assert_no_event(on.pair.client, 1, 0);
    fake_cuda_free_exec(first);
    fake_cuda_free_exec(second);
    fake_cuda_free_graph(graph);
    assert_status(only_event(on.pair.client, 1).status, XFER_OK);
}

/* ---- the peer ---- */

static void restart(OnStream *on, const Mode *mode) {
    char uri[sizeof on->pair.server->uri];
    snprintf(uri, sizeof uri, "%s", on->pair.server->uri);
    host_end(on->pair.server);
    wait_event(on->pair.client, XFER_EVENT_PEER_DOWN, 0,
               kPatience); /* else a run is lost with it */
    on->pair.server = host_open(mode);
    host_listen(on->pair.server, uri);
    memset(on->pair.memory, 0, kBytes);
    on->pair.region = open_region(on->pair.server, "memory", XFER_READ | XFER_WRITE,
                                  on->pair.memory, on->pair.length);
}

/* The owner ends and comes back: runs fail, and streams go on; after a rebind it is as before. The
 * address of the result, the graph and its instance stay. */
static void test_restart(void **state) {
    OnStream on = {.stream = NULL};
    pair_open_at(&on.pair, *state, own_address(), kLength);
    on.stream = fake_cuda_stream();
    on.device = device_memory(kBytes, 1);
    on_stream_use(&on, on.pair.ep);
    record(&on, 7, NULL);
    const xfer_cuda_result_t *const result = on.result;
    uint64_t runs = 0, failures = 0;
    for (int round = 0; round < 2; round++) {
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_int_equal(result->runs, ++runs);
        assert_status(result->status, XFER_OK);
        assert_true(filled(on.pair.memory, kBytes, 1, 0));
        restart(&on, *state);
        for (int i = 0; i < 2; i++) {
            launch(&on);
            assert_true(passes(on.stream, kPatience));
            assert_int_equal(result->runs, ++runs);
            assert_int_equal(result->failures, ++failures);
            assert_status(result->status, XFER_ESTALE);
        }
        const xfer_ref_t ref = look_up(on.pair.client, on.pair.ep, "memory");
        assert_status(xfer_batch_rebind(on.batch, &on.pair.ref, &ref, NULL), XFER_OK);
        on.pair.ref = ref;
    }
    launch(&on);
    assert_true(passes(on.stream, kPatience));
    assert_status(result->status, XFER_OK);
    assert_true(filled(on.pair.memory, kBytes, 1, 0));
    assert_no_event(on.pair.client, 7, 20);
    end_graph(&on, 7, XFER_OK);
}

typedef struct Rebinds {
    xfer_batch_t *batch;
    xfer_ref_t refs[2];
    int done;
    xfer_status_t failed; /* the first that was neither done nor refused while it runs */
    atomic_bool stop;
} Rebinds;

static void *rebind_all_the_time(void *argument) {
    Rebinds *const rebinds = argument;
    for (int at = 0; !atomic_load(&rebinds->stop);) {
        const xfer_status_t status =
            xfer_batch_rebind(rebinds->batch, &rebinds->refs[at], &rebinds->refs[1 - at], NULL);
        if (status == XFER_OK)
            at = 1 - at, rebinds->done++;
        else if (status != XFER_EBUSY && rebinds->failed == XFER_OK)
            rebinds->failed = status;
    }
    return NULL;
}

/* A launch that comes while entries are led elsewhere waits for the end of that. */
static void test_rebind_beside_launches(void **state) {
    OnStream on;
    pthread_t thread;
    Rebinds rebinds = {.done = 0};
    on_stream_open(&on, *state);
    uint8_t *const memory = test_memory(kBytes);
    open_region(on.pair.server, "other", XFER_READ | XFER_WRITE, memory, kBytes);
    const xfer_grant_options_t grant = {
        .size = sizeof grant, .access = XFER_READ | XFER_WRITE, .length = kBytes};
    assert_status(xfer_region_grant(on.pair.region, &grant, &rebinds.refs[0], NULL), XFER_OK);
    rebinds.refs[1] = look_up(on.pair.client, on.pair.ep, "other");
    assert_status(xfer_batch_reset(on.batch), XFER_OK);
    assert_status(xfer_batch_put(on.batch, on.device, &rebinds.refs[0], 0, kBytes), XFER_OK);
    record(&on, 1, NULL);
    rebinds.batch = on.batch;
    assert_int_equal(pthread_create(&thread, NULL, rebind_all_the_time, &rebinds), 0);
    const int rounds = quick() ? 50 : 300;
    int passed = 0;
    for (; passed < rounds; passed++) {
        launch(&on);
        if (!passes(on.stream, kPatience)) break;
    }
    atomic_store(&rebinds.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(passed, rounds);
    assert_int_equal(on.result->runs, rounds);
    assert_int_equal(on.result->failures, 0);
    assert_status(rebinds.failed, XFER_OK);
    assert_true(rebinds.done > 0);
    end_graph(&on, 1, XFER_OK);
}

/* Each run has the deadline of the submit; after one that failed, the next may go well. */
static void test_deadline_of_each_run(void **state) {
    enum { kDeadline = 200 };
    const xfer_submit_options_t brief = {.size = sizeof brief, .timeout_ms = kDeadline};
    OnStream on;
    on_stream_open(&on, *state);
    const int hole = on_stream_to_nobody(&on);
    record(&on, 1, &brief);
    pass_ms(kDeadline);
    for (uint64_t i = 1; i <= 3; i++) {
        const uint64_t start = now_ms();
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_true(now_ms() - start + 1 >= kDeadline);
        assert_status(on.result->status, XFER_ETIMEDOUT);
        assert_int_equal(on.result->runs, i);
        assert_int_equal(on.result->failures, i);
    }
    assert_no_event(on.pair.client, 1, 20);
    end_graph(&on, 1, XFER_OK);
    close(hole);
}

/* ---- rules ---- */

/* It is in flight, and between two runs it may be mended. */
static void test_recorded_is_busy(void **state) {
    OnStream on;
    xfer_status_t entry;
    on_stream_open(&on, *state);
    record(&on, 1, NULL);
    void *const other = fake_cuda_stream();
    for (int round = 0; round < 2; round++) { /* never launched, and after a run */
        assert_int_equal(batch_state(on.batch), XFER_BATCH_INFLIGHT);
        assert_status(xfer_cuda_submit(on.batch, other, 2, NULL, NULL, NULL), XFER_EBUSY);
        assert_status(xfer_batch_submit(on.batch, 2, NULL), XFER_EBUSY);
        assert_status(xfer_batch_put(on.batch, on.device, &on.pair.ref, 0, 1), XFER_EBUSY);
        assert_status(xfer_batch_reset(on.batch), XFER_EBUSY);
        assert_status(xfer_batch_rebind(on.batch, &on.pair.ref, &on.pair.ref, NULL), XFER_OK);
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_status(xfer_batch_entries(on.batch, 0, 1, &entry), XFER_OK);
        assert_status(entry, XFER_OK);
    }
    fake_cuda_capture(other); /* at a second place */
    assert_status(xfer_cuda_submit(on.batch, other, 2, NULL, NULL, NULL), XFER_EBUSY);
    void *const graph = fake_cuda_end_capture(other);
    assert_non_null(graph);
    fake_cuda_free_graph(graph);
    end_graph(&on, 1, XFER_OK);
}

/* A call of the driver fails while the stream captures: nothing is recorded. Those into the stream
 * break its capture, else the graph is as it would be without. */
static void test_failing_calls(void **state) {
    enum { kFailure = 719 };
    const struct {
        const char *call;
        bool breaks;
    } failing[] = {{"cuStreamGetCtx", false},         {"cuCtxPushCurrent", false},
                   {"cuMemHostRegister", false},      {"cuStreamGetCaptureInfo", false},
                   {"cuLaunchHostFunc", true},        {"cuMemHostGetDevicePointer", false},
                   {"cuStreamWaitValue32", true},     {"cuUserObjectCreate", false},
                   {"cuGraphRetainUserObject", false}};
    for (uint64_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        OnStream on;
        xfer_error_t err;
        fake_cuda_own_context(1); /* no memory is registered there yet */
        on_stream_open(&on, *state);
        fake_cuda_capture(on.stream);
        fake_cuda_fail(failing[i].call, 1, kFailure, 0);
        const xfer_status_t status =
            xfer_cuda_submit(on.batch, on.stream, 1, NULL, &on.result, &err);
        fake_cuda_fail(NULL, 0, 0, 0);
        if (status != XFER_EIO) fail_msg("%s: %s", failing[i].call, xfer_status_name(status));
        assert_int_equal(err.native_code, kFailure);
        assert_null(on.result);
        void *const graph = fake_cuda_end_capture(on.stream);
        assert_int_equal(graph == NULL, failing[i].breaks);
        if (graph) {
            void *const exec = fake_cuda_instantiate(graph);
            fake_cuda_launch(exec, on.stream);
            assert_true(passes(on.stream, kPatience));
            fake_cuda_free_exec(exec);
            fake_cuda_free_graph(graph);
        }
        assert_no_event(on.pair.client, 1, 20);
        assert_int_equal(batch_state(on.batch), XFER_BATCH_IDLE);
        record(&on, 2, NULL);
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        assert_int_equal(on.result->runs, 1);
        end_graph(&on, 2, XFER_OK);
        host_end(on.pair.client);
        host_end(on.pair.server);
        fake_cuda_end_stream(on.stream);
    }
}

/* A capture that something else has broken takes no batch. */
static void test_broken_capture(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    fake_cuda_capture(on.stream);
    fake_cuda_fail("cuLaunchHostFunc", 1, 719, 0);
    assert_true(xfer_cuda_submit(on.batch, on.stream, 1, NULL, NULL, NULL) != XFER_OK);
    fake_cuda_fail(NULL, 0, 0, 0);
    assert_status(xfer_cuda_submit(on.batch, on.stream, 2, NULL, NULL, NULL), XFER_EIO);
    assert_null(fake_cuda_end_capture(on.stream));
    assert_no_event(on.pair.client, ANY_USER, 20);
    submit_on(&on, 3, NULL);
    assert_true(passes(on.stream, kPatience));
    assert_status(only_event(on.pair.client, 3).status, XFER_OK);
}

/* The engine has gone, and the graph is launched all the same. */
static void test_outlives_the_engine(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    record(&on, 1, NULL);
    launch(&on);
    assert_true(passes(on.stream, kPatience));
    host_end(on.pair.client);
    assert_int_equal(count_events(on.pair.client, XFER_EVENT_BATCH, 1), 1);
    memset(on.pair.memory, 0, kBytes);
    for (int i = 0; i < 3; i++)
        launch(&on);
    assert_true(passes(on.stream, kPatience));
    assert_int_equal(on.pair.memory[1], 0);
    host_end(on.pair.server);
    fake_cuda_free_exec(on.exec);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_replay),
    EACH_WAY(test_kernels_around),
    EACH_WAY(test_last_of_all),
    EACH_WAY(test_never_launched),
    EACH_WAY(test_two_instances),
    EACH_WAY(test_restart),
    EACH_WAY(test_rebind_beside_launches),
    EACH_WAY(test_deadline_of_each_run),
    EACH_WAY(test_recorded_is_busy),
    EACH_WAY(test_failing_calls),
    EACH_WAY(test_broken_capture),
    EACH_WAY(test_outlives_the_engine),
};

TEST_MAIN(tests)
