/* SPDX-License-Identifier: Apache-2.0 */
#include "on_gpu.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what a test has ---- */

enum { kMost = 128, kLine = 64, kOpen = 1, kWarm = 64 * 1024, kAlarm = 30 };

static struct {
    CUdeviceptr at;
    CUcontext context;
} taken[kMost];
static int taken_count;
static CUstream streams[kMost];
static int stream_count;
static CUstream capturing; /* NULL: none */
static uint8_t *gates;     /* a line each */
static volatile sig_atomic_t alarms;
static int shared = -1;
static uint8_t *seen;
static uint64_t seen_length;

static _Atomic uint32_t *gate_at(int gate) {
    return (_Atomic uint32_t *)(void *)(gates + gate * kLine);
}

static CUdeviceptr device_gate(int gate) {
    CUdeviceptr at;
    GPU(cuMemHostGetDevicePointer(&at, gates + gate * kLine, 0));
    return at;
}

/* What the driver loads at the first use of a call is there before anything waits. */
static void warm_up(CUstream stream) {
    CUdeviceptr one, other;
    GPU(cuMemAlloc(&one, kWarm));
    GPU(cuMemAlloc(&other, kWarm));
    GPU(cuMemsetD8Async(one, 0, kWarm, stream));
    GPU(cuMemcpyDtoDAsync(other, one, kWarm, stream));
    GPU(cuMemcpyAsync(other, device_gate(0), kLine, stream));
    GPU(cuStreamSynchronize(stream));
    GPU(cuMemFree(one));
    GPU(cuMemFree(other));
}

/* What it needs beyond a GPU is found by a wait for a gate that is open. */
static const char *look(void) {
    const char *const why = gpu_open_streams();
    CUstream stream;
    if (why != NULL || gates != NULL) return why;
    void *memory;
    GPU(cuMemHostAlloc(&memory, kGates * kLine,
                       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    gates = memory;
    for (int i = 0; i < kGates; i++)
        open_gate(i);
    GPU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUresult result =
        gpu.cuStreamWaitValue32(stream, device_gate(0), kOpen, CU_STREAM_WAIT_VALUE_AND);
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        gpu_check(result, "cuStreamWaitValue32", __FILE__, __LINE__);
    warm_up(stream);
    GPU(cuStreamDestroy(stream));
    return result == CUDA_SUCCESS ? NULL : "it has no operations on memory for streams";
}

bool has_streams(void) {
    static const char *why;
    static bool looked;
    if (!looked) why = look();
    looked = true;
    if (why != NULL) print_message("skipped: no GPU: %s\n", why);
    return why == NULL;
}

/* One that a test has left, or that was broken: nothing else can be done in this thread before its
 * end. */
static void capture_ends(void) {
    CUgraph graph = NULL;
    if (capturing == NULL) return;
    if (gpu.cuStreamEndCapture(capturing, &graph) == CUDA_SUCCESS && graph != NULL)
        GPU(cuGraphDestroy(graph));
    capturing = NULL;
}

static bool streams_end(void) {
    const uint64_t limit = now_ms() + kStreamPatience;
    bool all = true;
    while (stream_count > 0) {
        const CUstream stream = streams[--stream_count];
        CUresult result;
        while ((result = gpu.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY && now_ms() < limit)
            usleep(1000);
        if (result == CUDA_SUCCESS)
            GPU(cuStreamDestroy(stream));
        else
            all = false;
    }
    return all;
}

static void memory_ends(void) {
    while (taken_count > 0) {
        taken_count--;
        GPU(cuCtxSetCurrent(taken[taken_count].context));
        GPU(cuMemFree(taken[taken_count].at));
    }
    GPU(cuCtxSetCurrent(gpu.context));
}

static void open_gates(void) {
    for (int i = 0; gates != NULL && i < kGates; i++)
        open_gate(i);
}

static void on_alarm(int number) {
    static const char word[] = "ERROR: a call hangs, in the driver or the library\n";
    (void)number;
    open_gates();
    if (alarms++ == 0) {
        alarm(kAlarm);
        return;
    }
    (void)!write(STDERR_FILENO, word, sizeof word - 1);
    _exit(1);
}

int begin_stream_test(void **state) {
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    if (sigaction(SIGALRM, &action, NULL) != 0) return -1;
    alarms = 0;
    alarm(kAlarm);
    return fixture_setup(state);
}

/* Memory that a stream may still use stays. */
int end_stream_test(void **state) {
    open_gates();
    capture_ends();
    int failed = fixture_teardown(state);
    if (!streams_end()) {
        print_error("ERROR: a stream waits, though all engines have ended\n");
        failed = -1;
        taken_count = 0;
    }
    if (gpu.context != NULL) memory_ends();
    if (seen != NULL) munmap(seen, seen_length);
    if (shared >= 0) close(shared);
    seen = NULL;
    shared = -1;
    alarm(0);
    if (alarms == 0) return failed;
    print_error("ERROR: it took more than %d s: a call may have waited for a gate\n", (int)kAlarm);
    return -1;
}

/* ---- the device ---- */

CUdeviceptr take_device(uint64_t length, uint8_t value) {
    assert_true(taken_count < kMost);
    GPU(cuMemAlloc(&taken[taken_count].at, length));
    GPU(cuCtxGetCurrent(&taken[taken_count].context));
    GPU(cuMemsetD8(taken[taken_count].at, value, length));
    GPU(cuCtxSynchronize());
    return taken[taken_count++].at;
}

bool all_are(const uint8_t *memory, uint64_t length, uint8_t value) {
    return length == 0 || (memory[0] == value && memcmp(memory, memory + 1, length - 1) == 0);
}

void assert_device_is(CUdeviceptr memory, uint64_t length, uint8_t value) {
    uint8_t *const bytes = test_memory(length);
    GPU(cuMemcpyDtoH(bytes, memory, length));
    assert_true(all_are(bytes, length, value));
}

CUstream take_stream(void) {
    assert_true(stream_count < kMost);
    GPU(cuStreamCreate(&streams[stream_count], CU_STREAM_NON_BLOCKING));
    return streams[stream_count++];
}

void close_gate(CUstream stream, int gate) {
    atomic_store(gate_at(gate), 0);
    GPU(cuStreamWaitValue32(stream, device_gate(gate), kOpen, CU_STREAM_WAIT_VALUE_AND));
}

void open_gate(int gate) {
    atomic_store(gate_at(gate), kOpen);
}

static bool is_idle(CUstream stream) {
    const CUresult result = gpu.cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) gpu_check(result, "cuStreamQuery", __FILE__, __LINE__);
    return result == CUDA_SUCCESS;
}

bool passes(CUstream stream, uint32_t ms) {
    const uint64_t limit = now_ms() + ms;
    while (!is_idle(stream)) {
        if (now_ms() >= limit) return false;
        turn(1);
    }
    return true;
}

void assert_passes(CUstream stream) {
    if (!passes(stream, kStreamPatience))
        fail_msg("a stream waits after %d ms", (int)kStreamPatience);
}

void spin(CUstream stream) {
    const uint64_t limit = now_ms() + kStreamPatience;
    while (!is_idle(stream))
        if (now_ms() >= limit) fail_msg("a stream waits after %d ms", (int)kStreamPatience);
}

void begin_capture(CUstream stream) {
    GPU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    capturing = stream;
}

CUgraphExec end_capture(CUstream stream) {
    CUgraph graph;
    CUgraphExec exec;
    capturing = NULL;
    if (gpu.cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS) fail_msg("the capture was broken");
    GPU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    GPU(cuGraphDestroy(graph));
    return exec;
}

/* ---- the peer ---- */

enum { kId = 7 }; /* the same after a restart */

static void use_peer(Scene *scene) {
    scene->ref = look_up(scene->client, scene->ep, "memory");
}

void open_scene(Scene *scene, const Mode *mode, const xfer_engine_options_t *options,
                uint64_t length) {
    char uri[256];
    *scene = (Scene){.length = length};
    shared = memfd_create("memory", 0);
    assert_int_equal(ftruncate(shared, (off_t)length), 0);
    seen = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    assert_true(seen != MAP_FAILED);
    seen_length = length;
    scene->memory = seen;
    snprintf(uri, sizeof uri, "%s", own_address());
    peer_start_shared(&scene->peer, uri, length, kId, shared);
    scene->client = options ? host_open_with(mode, options) : host_open(mode);
    scene->ep = open_ep(scene->client, scene->peer.uri);
    use_peer(scene);
}

void restart_peer(Scene *scene) {
    char uri[sizeof scene->peer.uri];
    memcpy(uri, scene->peer.uri, sizeof uri);
    peer_kill(&scene->peer);
    peer_start_shared(&scene->peer, uri, scene->length, kId, shared);
}

xfer_engine_options_t socket_options(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    options.transports = "loopback,tcp,unix";
    options.heartbeat_ms = 60000;
    return options;
}

xfer_batch_t *take_batch(const Scene *scene) {
    xfer_batch_t *batch;
    assert_status(xfer_batch_open(scene->ep, NULL, &batch, NULL), XFER_OK);
    return batch;
}

xfer_batch_t *take_put(const Scene *scene, CUdeviceptr device, uint64_t offset, uint64_t length) {
    xfer_batch_t *const batch = take_batch(scene);
    assert_status(xfer_batch_put(batch, (void *)device, &scene->ref, offset, length), XFER_OK);
    return batch;
}

const xfer_cuda_result_t *submit_on(xfer_batch_t *batch, CUstream stream, uint64_t user,
                                    uint32_t timeout_ms) {
    const xfer_submit_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms};
    const xfer_cuda_result_t *result = NULL;
    xfer_error_t err;
    const xfer_status_t status = xfer_cuda_submit(batch, stream, user, &options, &result, &err);
    if (status != XFER_OK) fail_msg("%s: %s", xfer_status_name(status), err.message);
    assert_non_null(result);
    return result;
}

xfer_status_t end_of_batch(const Scene *scene, uint64_t user) {
    const xfer_event_t event = wait_event(scene->client, XFER_EVENT_BATCH, user, kPatience);
    assert_completion(&event);
    assert_int_equal(count_events(scene->client, XFER_EVENT_BATCH, user), 1);
    return event.status;
}
