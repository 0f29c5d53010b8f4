/* SPDX-License-Identifier: Apache-2.0
 *
 * What a batch on a stream costs, beside what can be had without, in the same run. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "on_gpu.h"

enum { kMost = 1000, kSmall = 4096, kWaits = 2 /* the bit of a word */ };

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int order(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *took, int count) {
    qsort(took, (size_t)count, sizeof *took, order);
    return took[count / 2];
}

/* ---- an empty batch ---- */

/* The least that lets a stream wait for a thread. */
typedef struct Bare {
    pthread_t thread;
    _Atomic uint32_t *word;
    CUdeviceptr at;
    _Atomic int arrivals;
    atomic_bool stop;
} Bare;

static void CUDA_CB arrive(void *argument) {
    Bare *const bare = argument;
    atomic_store(bare->word, 0);
    atomic_fetch_add(&bare->arrivals, 1);
}

static void *answer(void *argument) {
    Bare *const bare = argument;
    for (int seen = 0; !atomic_load(&bare->stop);) {
        const int arrivals = atomic_load(&bare->arrivals);
        if (arrivals == seen) continue;
        seen = arrivals;
        atomic_store(bare->word, kWaits);
    }
    return NULL;
}

static void open_bare(Bare *bare) {
    void *memory;
    *bare = (Bare){.at = 0};
    GPU(cuMemHostAlloc(&memory, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    GPU(cuMemHostGetDevicePointer(&bare->at, memory, 0));
    bare->word = memory;
    atomic_store(bare->word, kWaits);
    assert_int_equal(pthread_create(&bare->thread, NULL, answer, bare), 0);
}

static void close_bare(Bare *bare) {
    atomic_store(&bare->stop, true);
    pthread_join(bare->thread, NULL);
    GPU(cuMemFreeHost((void *)bare->word));
}

static double of_bare(Bare *bare, CUstream stream) {
    const double start = now_us();
    GPU(cuLaunchHostFunc(stream, arrive, bare));
    GPU(cuStreamWaitValue32(stream, bare->at, kWaits, CU_STREAM_WAIT_VALUE_AND));
    spin(stream);
    return now_us() - start;
}

static double of_batch(const Scene *scene, xfer_batch_t *batch, CUstream stream, uint64_t user) {
    const double start = now_us();
    submit_on(batch, stream, user, 0);
    spin(stream);
    const double took = now_us() - start;
    assert_status(end_of_batch(scene, user), XFER_OK);
    return took;
}

/* From before it is put into an idle stream until that is idle again. */
void test_figure_of_an_empty_batch(void **state) {
    static double bare_took[kMost], batch_took[kMost];
    static Bare bare; /* its thread goes on if this fails */
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kSmall);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_batch(&scene);
    const int rounds = quick() ? 100 : kMost;
    open_bare(&bare);
    for (int i = -10; i < rounds; i++) { /* the first ones are not looked at */
        const double alone = of_bare(&bare, stream);
        const double took = of_batch(&scene, batch, stream, (uint64_t)(i + 10));
        if (i < 0) continue;
        bare_took[i] = alone;
        batch_took[i] = took;
    }
    close_bare(&bare);
    const double one = median(batch_took, rounds), other = median(bare_took, rounds);
    print_message(
        "figure: an empty batch on a stream: %.1f us, a host function and a wait %.1f, "
        "ratio %.2f\n",
        one, other, one / other);
}

/* ---- a large put ---- */

enum { kLarge = 64 << 20, kPuts = 15 };

static void put_on_stream(const Scene *scene, xfer_batch_t *batch, CUstream stream) {
    submit_on(batch, stream, 1, 0);
    spin(stream);
    assert_status(wait_event(scene->client, XFER_EVENT_BATCH, 1, kPatience).status, XFER_OK);
}

static void put_by_host(const Scene *scene, xfer_batch_t *batch, CUstream stream) {
    spin(stream);
    assert_status(submit_now(scene->client, batch), XFER_OK);
}

/* Behind work of the stream, in both ways; until the event was taken. */
void test_figure_of_a_put(void **state) {
    double took[2][kPuts];
    Scene scene;
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kLarge);
    const CUdeviceptr device = take_device(kLarge, 0);
    const CUstream stream = take_stream();
    xfer_batch_t *const batch = take_put(&scene, device, 0, kLarge);
    const int rounds = quick() ? 3 : kPuts;
    for (int i = -1; i < rounds; i++)
        for (int way = 0; way < 2; way++) {
            const uint8_t value = (uint8_t)(2 * i + way + 10);
            const double start = now_us();
            GPU(cuMemsetD8Async(device, value, kLarge, stream));
            (way == 0 ? put_on_stream : put_by_host)(&scene, batch, stream);
            if (i >= 0) took[way][i] = now_us() - start;
            assert_true(all_are(scene.memory, kLarge, value));
        }
    const double one = median(took[0], rounds) / 1e3, other = median(took[1], rounds) / 1e3;
    print_message(
        "figure: 64 MiB put on a stream: %.2f ms, by synchronize, submit and event %.2f, "
        "ratio %.2f\n",
        one, other, one / other);
}

/* ---- a graph ---- */

static double of_launches(CUgraphExec exec, CUstream stream, int count) {
    const double start = now_us();
    for (int i = 0; i < count; i++)
        GPU(cuGraphLaunch(exec, stream));
    spin(stream);
    return (now_us() - start) / count;
}

static void record(CUstream stream, CUdeviceptr device, xfer_batch_t *batch, CUgraphExec *exec) {
    begin_capture(stream);
    GPU(cuMemsetD8Async(device, 1, kSmall, stream));
    if (batch != NULL) submit_on(batch, stream, 1, 0);
    GPU(cuMemsetD8Async(device, 2, kSmall, stream));
    *exec = end_capture(stream);
}

/* Of the same two nodes, with a batch between them that moves nothing, and without. */
void test_figure_of_a_graph(void **state) {
    enum { kRow = 50 };
    static double took[2][kMost], in_a_row[2][kMost];
    Scene scene;
    CUgraphExec execs[2];
    if (!has_streams()) skip();
    open_scene(&scene, *state, NULL, kSmall);
    const CUdeviceptr device = take_device(kSmall, 0);
    const CUstream stream = take_stream();
    record(stream, device, take_batch(&scene), &execs[0]);
    record(stream, device, NULL, &execs[1]);
    const int rounds = quick() ? 20 : 200;
    for (int i = -5; i < rounds; i++)
        for (int way = 0; way < 2; way++) {
            const double alone = of_launches(execs[way], stream, 1);
            const double row = i % 10 == 0 ? of_launches(execs[way], stream, kRow) : 0;
            if (i < 0) continue;
            took[way][i] = alone;
            if (i % 10 == 0) in_a_row[way][i / 10] = row;
        }
    double one = median(took[0], rounds), other = median(took[1], rounds);
    print_message("figure: a launch with an empty batch: %.1f us, without %.1f, ratio %.2f\n", one,
                  other, one / other);
    one = median(in_a_row[0], rounds / 10), other = median(in_a_row[1], rounds / 10);
    print_message("figure: each of %d in a row: %.1f us, without %.1f, ratio %.2f\n", (int)kRow,
                  one, other, one / other);
    for (int way = 0; way < 2; way++)
        GPU(cuGraphExecDestroy(execs[way]));
    assert_status(end_of_batch(&scene, 1), XFER_OK);
}
