/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and graphs of the fake driver, without the library: what the tests of that rely on. A
 * driver that forgave more would hide mistakes. */
#include <cudaTypedefs.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_memory.h"

#define CALLS(X)                       \
    X(cuStreamGetCtx, 9020)            \
    X(cuStreamGetCaptureInfo, 11030)   \
    X(cuLaunchHostFunc, 10000)         \
    X(cuStreamWaitValue32, 11070)      \
    X(cuMemHostRegister, 6050)         \
    X(cuMemHostGetDevicePointer, 3020) \
    X(cuUserObjectCreate, 11030)       \
    X(cuUserObjectRelease, 11030)      \
    X(cuGraphRetainUserObject, 11030)  \
    X(cuThreadExchangeStreamCaptureMode, 10010)

static struct {
#define MEMBER(name, version) PFN_##name##_v##version name;
    CALLS(MEMBER)
} cuda;

extern CUresult get_proc_address(const char *name, void **function, int version,
                                 cuuint64_t flags) __asm__("cuGetProcAddress");

enum { kPage = 4096 };
static uint32_t *word; /* in registered memory */
static void *stream;
static CUstreamCaptureMode mode;
static _Atomic int called;

static void count(void *by) {
    atomic_fetch_add(&called, *(int *)by);
}

static void open_all(void **state) {
    CUcontext context;
    (void)state;
#define FIND(name, version) \
    assert_int_equal(get_proc_address(#name, (void **)&cuda.name, version, 0), CUDA_SUCCESS);
    CALLS(FIND)
    atomic_store(&called, 0);
    stream = fake_cuda_stream();
    assert_int_equal(cuda.cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
    word = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
                0);
    assert_int_equal(cuda.cuMemHostRegister(word, kPage, CU_MEMHOSTREGISTER_DEVICEMAP),
                     CUDA_SUCCESS);
}

/* How often the driver was called as it must not be, which is forgiven here. */
static unsigned wrong(void) {
    static unsigned before;
    const unsigned now = fake_cuda_calls("wrong"), more = now - before;
    before = now;
    return more;
}

static int close_all(void **state) {
    CUcontext popped;
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
    cuCtxPopCurrent(&popped);
    fake_cuda_end_all();
    (void)state;
    return wrong() ? -1 : 0;
}

static CUresult wait_for(uint32_t value) {
    return cuda.cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, value,
                                    CU_STREAM_WAIT_VALUE_AND);
}

static void set_word(uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void await_wait(void) {
    const uint64_t limit = now_ms() + kPatience;
    while (!fake_cuda_waits(stream) && now_ms() < limit)
        pass_ms(1);
    assert_true(fake_cuda_waits(stream));
}

static void test_order(void **state) {
    int one = 1, ten = 10;
    open_all(state);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), CUDA_SUCCESS);
    assert_int_equal(wait_for(2), CUDA_SUCCESS);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &ten), CUDA_SUCCESS);
    await_wait();
    assert_int_equal(atomic_load(&called), 1);
    set_word(5);
    assert_false(fake_cuda_idle(stream, 20));
    set_word(6);
    assert_true(fake_cuda_idle(stream, kPatience));
    assert_int_equal(atomic_load(&called), 11);
}

static void test_registered_memory(void **state) {
    CUdeviceptr address;
    open_all(state);
    uint32_t *const other = mmap(NULL, kPage, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_int_equal(cuda.cuMemHostRegister(word + 8, 64, 0),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_int_equal(cuda.cuMemHostGetDevicePointer(&address, word + 8, 0), CUDA_SUCCESS);
    assert_int_equal(address, (uintptr_t)(word + 8));
    assert_int_equal(wrong(), 0);
    assert_int_not_equal(cuda.cuMemHostGetDevicePointer(&address, other, 0), CUDA_SUCCESS);
    assert_int_not_equal(cuda.cuStreamWaitValue32(stream, (uintptr_t)other, 1, 0), CUDA_SUCCESS);
    assert_int_equal(wrong(), 2);
    munmap(other, kPage);
}

/* A graph keeps its objects until it has gone, and its instances, and what they have under way. */
static void test_objects(void **state) {
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUuserObject object;
    int one = 1, ten = 10;
    open_all(state);
    fake_cuda_capture(stream);
    assert_int_equal(cuda.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL),
                     CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuda.cuUserObjectCreate(&object, &ten, count, 1, 1), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
                     CUDA_SUCCESS);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), CUDA_SUCCESS);
    assert_int_equal(wait_for(1), CUDA_SUCCESS);
    assert_true(fake_cuda_idle(stream, 0)); /* nothing of it runs */
    assert_ptr_equal(fake_cuda_end_capture(stream), graph);
    void *const exec = fake_cuda_instantiate(graph);
    fake_cuda_free_graph(graph);
    fake_cuda_launch(exec, stream);
    fake_cuda_launch(exec, stream);
    fake_cuda_free_exec(exec);
    await_wait();
    assert_int_equal(atomic_load(&called), 1);
    set_word(1);
    assert_true(fake_cuda_idle(stream, kPatience));
    fake_cuda_end_all();
    assert_int_equal(atomic_load(&called), 12);
}

static void test_broken_captures(void **state) {
    CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUdeviceptr address;
    int one = 1;
    open_all(state);
    fake_cuda_capture(stream); /* by a call that could wait */
    cuda.cuThreadExchangeStreamCaptureMode(&global);
    assert_int_not_equal(cuda.cuMemHostGetDevicePointer(&address, word, 0), CUDA_SUCCESS);
    cuda.cuThreadExchangeStreamCaptureMode(&global);
    assert_int_equal(wrong(), 1);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(fake_cuda_end_capture(stream));
    fake_cuda_capture(stream); /* by one that it refuses */
    fake_cuda_fail("cuLaunchHostFunc", 1, 1, 0);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), 1);
    fake_cuda_fail(NULL, 0, 0, 0);
    assert_null(fake_cuda_end_capture(stream));
    fake_cuda_capture(stream); /* by none */
    assert_int_equal(cuda.cuMemHostGetDevicePointer(&address, word, 0), CUDA_SUCCESS);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), CUDA_SUCCESS);
    assert_non_null(fake_cuda_end_capture(stream));
    assert_int_equal(atomic_load(&called), 0);
}

static void call_the_driver(void *unused) {
    CUcontext context;
    (void)unused;
    cuda.cuStreamGetCtx(stream, &context);
}

static void test_calls_by_the_called(void **state) {
    open_all(state);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, call_the_driver, NULL), CUDA_SUCCESS);
    assert_true(fake_cuda_idle(stream, kPatience));
    assert_int_equal(wrong(), 1);
}

/* What is behind it in the stream is not done, and its host functions are never called. */
static void test_context_that_goes(void **state) {
    int one = 1;
    open_all(state);
    fake_cuda_hold_stream(stream, 1);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), CUDA_SUCCESS);
    assert_int_equal(wait_for(1), CUDA_SUCCESS);
    fake_cuda_reset();
    fake_cuda_hold_stream(stream, 0);
    assert_true(fake_cuda_idle(stream, kPatience));
    assert_int_equal(atomic_load(&called), 0);
    assert_non_null(fake_cuda_alloc(kPage)); /* there is a context again */
}

/* One that has failed for good does not go on either. */
static void test_context_that_fails(void **state) {
    CUcontext context;
    int one = 1;
    open_all(state);
    assert_int_equal(wait_for(1), CUDA_SUCCESS);
    assert_int_equal(cuda.cuLaunchHostFunc(stream, count, &one), CUDA_SUCCESS);
    fake_cuda_fail("cuStreamGetCtx", 1, CUDA_ERROR_ILLEGAL_ADDRESS, 1);
    assert_int_equal(cuda.cuStreamGetCtx(stream, &context), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(fake_cuda_idle(stream, kPatience));
    assert_int_equal(atomic_load(&called), 0);
    fake_cuda_fail(NULL, 0, 0, 0);
}

#define STREAM_TEST(test) cmocka_unit_test_setup_teardown(test, NULL, close_all)
static const struct CMUnitTest tests[] = {
    STREAM_TEST(test_order),
    STREAM_TEST(test_registered_memory),
    STREAM_TEST(test_objects),
    STREAM_TEST(test_broken_captures),
    STREAM_TEST(test_calls_by_the_called),
    STREAM_TEST(test_context_that_goes),
    STREAM_TEST(test_context_that_fails),
};

TEST_MAIN(tests)
