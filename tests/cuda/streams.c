/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on streams and in graphs of a real GPU (xfer/cuda.h), with another process: what was in
 * the stream before is what moves, what comes behind finds its bytes, and the stream goes on
 * whatever ends. */
#include <signal.h>
#include <string.h>

#include "on_gpu.h"

enum { kBytes = 64 * 1024 };

static void set_on(CUstream stream, CUdeviceptr device, uint8_t value) {
    GPU(cuMemsetD8Async(device, value, kBytes, stream));
}

static void copy_on(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
    GPU(cuMemcpyDtoDAsync(to, from, kBytes, stream));
}

/* ---- order ---- */

/* What the stream wrote before is put, and what it writes behind is not. */
static void test_put_in_order(void **state) {
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kBytes);
    const CUdeviceptr device = take_device(kBytes, 0), source = take_device(kBytes, 0);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    for (uint8_t round = 1; round <= 3; round++) {
        memset(scene.memory, 0, kBytes);
        close_gate(stream, 0);
        set_on(stream, source, 10 + round);
        copy_on(stream, device, source);
        const xfer_cuda_result_t *const result = submit_on(batch, stream, round, 0);
        set_on(stream, device, 20 + round);
        pass_ms(30); /* nothing begins before the stream gets there */
        assert_int_equal(result->runs, 0);
        assert_int_equal(count_events(scene.client, XFER_EVENT_BATCH, round), 0);
        assert_true(all_are(scene.memory, kBytes, 0));
        open_gate(0);
        assert_passes(stream);
        assert_int_equal(result->runs, 1);
        assert_status(result->status, XFER_OK);
        assert_true(all_are(scene.memory, kBytes, 10 + round));
        assert_device_is(device, kBytes, 20 + round);
        assert_status(end_of_batch(&scene, round), XFER_OK);
    }
}

/* What comes behind uses what was got, and sees the result at its address on the device. */
static void test_get_in_order(void **state) {
    Scene scene;
    xfer_cuda_result_t told;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kBytes);
    const CUdeviceptr device = take_device(kBytes, 0), used = take_device(kBytes, 0);
    const CUdeviceptr copied = take_device(sizeof told, 0xff);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_batch(&scene);
    assert_status(xfer_batch_get(batch, (void *)device, &scene.ref, 0, kBytes), XFER_OK);
    for (uint8_t round = 1; round <= 3; round++) {
        CUdeviceptr there;
        memset(scene.memory, 30 + round, kBytes);
        close_gate(stream, 0);
        set_on(stream, device, 0);
        const xfer_cuda_result_t *const result = submit_on(batch, stream, round, 0);
        copy_on(stream, used, device);
        GPU(cuMemHostGetDevicePointer(&there, (void *)result, 0));
        GPU(cuMemcpyAsync(copied, there, sizeof told, stream));
        set_on(stream, device, 1);
        open_gate(0);
        assert_passes(stream);
        assert_device_is(used, kBytes, 30 + round);
        assert_device_is(device, kBytes, 1);
        GPU(cuMemcpyDtoH(&told, copied, sizeof told));
        assert_int_equal(told.runs, 1);
        assert_int_equal(told.failures, 0);
        assert_status(told.status, XFER_OK);
        assert_status(end_of_batch(&scene, round), XFER_OK);
    }
}

/* Behind each other on one stream, of memory that is another in each. With threads of the engine
 * alone: the stream may have no room for all. */
static void test_in_a_row(void **state) {
    enum { kRow = 64 };
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kRow * kBytes);
    const CUdeviceptr device = take_device(kBytes, 0);
    const CUstream stream = take_stream();
    for (uint64_t i = 0; i < kRow; i++) {
        set_on(stream, device, (uint8_t)(i + 1));
        submit_on(take_put(&scene, device, i * kBytes, kBytes), stream, i, 0);
    }
    assert_passes(stream);
    for (uint64_t i = 0; i < kRow; i++) {
        assert_true(all_are(scene.memory + i * kBytes, kBytes, (uint8_t)(i + 1)));
        assert_status(end_of_batch(&scene, i), XFER_OK);
    }
}

/* They arrive together, so that the copies of one are made while the others wait in the device. */
static void test_many_streams(void **state) {
    enum { kStreams = 32, kDeadline = 5000 };
    Scene scene;
    CUstream streams[kStreams];
    CUdeviceptr devices[kStreams];
    int late = 0;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kStreams * kBytes);
    for (int i = 0; i < kStreams; i++) {
        streams[i] = take_stream();
        devices[i] = take_device(kBytes, 0);
    }
    for (uint64_t i = 0; i < kStreams; i++) {
        close_gate(streams[i], 0);
        set_on(streams[i], devices[i], (uint8_t)(i + 1));
        xfer_batch_t *const batch = take_put(&scene, devices[i], i * kBytes, kBytes);
        submit_on(batch, streams[i], i, kDeadline);
        set_on(streams[i], devices[i], 0xff);
    }
    open_gate(0);
    for (int i = 0; i < kStreams; i++)
        assert_passes(streams[i]);
    for (uint64_t i = 0; i < kStreams; i++)
        late += end_of_batch(&scene, i) != XFER_OK;
    if (late > 0)
        fail_msg("%d of %d streams went on by their deadline: copies wait behind streams that wait",
                 late, (int)kStreams);
    for (uint64_t i = 0; i < kStreams; i++) {
        assert_true(all_are(scene.memory + i * kBytes, kBytes, (uint8_t)(i + 1)));
        assert_device_is(devices[i], kBytes, 0xff);
    }
}

static void test_default_streams(void **state) {
    const CUstream streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kBytes);
    const CUdeviceptr device = take_device(kBytes, 0);
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    for (uint8_t i = 0; i < 3; i++) {
        set_on(streams[i], device, 40 + i);
        submit_on(batch, streams[i], i, 0);
        set_on(streams[i], device, 50 + i);
        assert_passes(streams[i]);
        assert_true(all_are(scene.memory, kBytes, 40 + i));
        assert_device_is(device, kBytes, 50 + i);
        assert_status(end_of_batch(&scene, i), XFER_OK);
    }
}

/* A stream of the second one, while the first one is current: bytes of both. */
static void test_two_devices(void **state) {
    Scene scene;
    CUdevice number;
    CUcontext second;
    int count;
    if (!has_streams()) skip();
    GPU(cuDeviceGetCount(&count));
    if (count < 2) {
        print_message("skipped: there is one GPU\n");
        skip();
    }
    open_scene(&scene, *state, NULL, 2 * kBytes);
    GPU(cuDeviceGet(&number, 1));
    GPU(cuDevicePrimaryCtxRetain(&second, number));
    const CUdeviceptr first_memory = take_device(kBytes, 60);
    GPU(cuCtxSetCurrent(second));
    const CUdeviceptr second_memory = take_device(kBytes, 0);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, first_memory, 0, kBytes);
    void *const local = (void *)second_memory;
    assert_status(xfer_batch_put(batch, local, &scene.ref, kBytes, kBytes), XFER_OK);
    for (uint8_t round = 1; round <= 2; round++) {
        set_on(stream, second_memory, 60 + round);
        GPU(cuCtxSetCurrent(gpu.context));
        submit_on(batch, stream, round, 0);
        GPU(cuCtxSetCurrent(second));
        set_on(stream, second_memory, 0);
        assert_passes(stream);
        assert_true(all_are(scene.memory, kBytes, 60));
        assert_true(all_are(scene.memory + kBytes, kBytes, 60 + round));
        assert_status(end_of_batch(&scene, round), XFER_OK);
    }
    GPU(cuCtxSetCurrent(gpu.context));
}

/* ---- graphs ---- */

/* What the graph copies before is put, and what it copies behind was got. */
static void test_graph(void **state) {
    enum { kLaunches = 100, kLooked = 10 };
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, 2 * kBytes);
    const CUdeviceptr source = take_device(kBytes, 0), device = take_device(kBytes, 0);
    const CUdeviceptr back = take_device(kBytes, 0), used = take_device(kBytes, 0);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    assert_status(xfer_batch_get(batch, (void *)back, &scene.ref, kBytes, kBytes), XFER_OK);
    begin_capture(stream);
    copy_on(stream, device, source);
    const xfer_cuda_result_t *const result = submit_on(batch, stream, 1, 0);
    copy_on(stream, used, back);
    const CUgraphExec exec = end_capture(stream);
    assert_int_equal(result->runs, 0); /* nothing begins before a launch */
    for (uint8_t i = 1; i <= kLooked; i++) {
        set_on(stream, source, i);
        memset(scene.memory + kBytes, 100 + i, kBytes);
        GPU(cuGraphLaunch(exec, stream));
        assert_passes(stream);
        assert_int_equal(result->runs, i);
        assert_true(all_are(scene.memory, kBytes, i));
        assert_device_is(used, kBytes, 100 + i);
    }
    for (int i = kLooked; i < kLaunches; i++) {
        GPU(cuGraphLaunch(exec, stream));
        /* Who turns the loop does not wait for room in the stream. */
        if (i % kLooked == 0 && scene.client->mode->io_threads != 1) assert_passes(stream);
    }
    assert_passes(stream);
    assert_int_equal(result->runs, kLaunches);
    assert_int_equal(result->failures, 0);
    pass_ms(20);
    assert_int_equal(count_events(scene.client, XFER_EVENT_BATCH, 1), 0);
    GPU(cuGraphExecDestroy(exec));
    assert_status(end_of_batch(&scene, 1), XFER_OK);
}

static void launch_and_fail(CUgraphExec exec, CUstream stream, const xfer_cuda_result_t *result) {
    const uint64_t runs = result->runs, failures = result->failures;
    GPU(cuGraphLaunch(exec, stream));
    assert_passes(stream);
    assert_int_equal(result->runs, runs + 1);
    assert_int_equal(result->failures, failures + 1);
}

/* The peer is killed and comes back: runs fail, the stream goes on, and after a rebind it is as
 * before. */
static void test_graph_over_a_restart(void **state) {
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kBytes);
    const CUdeviceptr device = take_device(kBytes, 0);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    begin_capture(stream);
    const xfer_cuda_result_t *const result = submit_on(batch, stream, 1, 0);
    const CUgraphExec exec = end_capture(stream);
    for (uint8_t round = 1; round <= 3; round++) {
        set_on(stream, device, 70 + round);
        GPU(cuGraphLaunch(exec, stream));
        assert_passes(stream);
        assert_status(result->status, XFER_OK);
        assert_true(all_are(scene.memory, kBytes, 70 + round));
        if (round == 3) break;
        restart_peer(&scene);
        launch_and_fail(exec, stream, result); /* by the lost connection, or the ref */
        const xfer_ref_t before = scene.ref;
        scene.ref = look_up(scene.client, scene.ep, "memory");
        launch_and_fail(exec, stream, result);
        assert_status(result->status, XFER_ESTALE);
        assert_status(xfer_batch_rebind(batch, &before, &scene.ref, NULL), XFER_OK);
    }
    GPU(cuGraphExecDestroy(exec));
    assert_status(end_of_batch(&scene, 1), XFER_OK);
}

/* ---- ends ---- */

/* Before the stream gets there: it passes, nothing was moved, and the batch is as new. */
static void test_cancel(void **state) {
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kBytes);
    const CUdeviceptr device = take_device(kBytes, 80);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    close_gate(stream, 0);
    const xfer_cuda_result_t *const result = submit_on(batch, stream, 1, 0);
    assert_status(xfer_batch_cancel(batch), XFER_OK);
    assert_status(end_of_batch(&scene, 1), XFER_ECANCELED);
    assert_false(passes(stream, 10));
    open_gate(0);
    assert_passes(stream);
    assert_status(result->status, XFER_ECANCELED);
    assert_true(all_are(scene.memory, kBytes, 0));
    submit_on(batch, stream, 2, 0);
    assert_passes(stream);
    assert_status(end_of_batch(&scene, 2), XFER_OK);
    assert_true(all_are(scene.memory, kBytes, 80));
}

/* The peer is stopped: the stream passes at the deadline, which counts from the begin. */
static void test_deadline(void **state) {
    enum { kDeadline = 500, kQuiet = 1000 };
    const xfer_engine_options_t options = socket_options(*state);
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, &options, kBytes);
    const CUdeviceptr device = take_device(kBytes, 90);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kBytes);
    submit_on(batch, stream, 1, kDeadline);
    assert_passes(stream);
    assert_status(end_of_batch(&scene, 1), XFER_OK);
    peer_signal(&scene.peer, SIGSTOP);
    close_gate(stream, 0);
    const xfer_cuda_result_t *const result = submit_on(batch, stream, 2, kDeadline);
    pass_ms(kDeadline + 100);
    assert_int_equal(count_events(scene.client, XFER_EVENT_BATCH, 2), 0);
    const uint64_t start = now_ms();
    open_gate(0);
    assert_passes(stream);
    const uint64_t took = now_ms() - start;
    assert_true(took + 1 >= kDeadline);
    if (took > kDeadline + kQuiet + 1000) fail_msg("the stream passed after %d ms", (int)took);
    assert_status(result->status, XFER_ETIMEDOUT);
    assert_int_equal(result->failures, 1);
    assert_status(end_of_batch(&scene, 2), XFER_ETIMEDOUT);
    peer_signal(&scene.peer, SIGCONT);
    submit_on(batch, stream, 3, 0);
    assert_passes(stream);
    assert_status(end_of_batch(&scene, 3), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    EACH_STREAM_WAY(test_put_in_order),
    EACH_STREAM_WAY(test_get_in_order),
    ONE_STREAM_WAY(test_beside_alloc),
    ONE_STREAM_WAY(test_beside_synchronize),
    ONE_STREAM_WAY(test_beside_free),
    ONE_STREAM_WAY(test_in_a_row),
    EACH_STREAM_WAY(test_many_streams),
    EACH_STREAM_WAY(test_default_streams),
    EACH_STREAM_WAY(test_two_devices),
    EACH_STREAM_WAY(test_graph),
    EACH_STREAM_WAY(test_graph_over_a_restart),
    EACH_STREAM_WAY(test_cancel),
    EACH_STREAM_WAY(test_deadline),
    ONE_STREAM_WAY(test_figure_of_an_empty_batch),
    ONE_STREAM_WAY(test_figure_of_a_put),
    ONE_STREAM_WAY(test_figure_of_a_graph),
};

TEST_MAIN_AFTER(tests, peer_role("beside", beside_role))
