/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches wait on streams while a thread of the application is in a call that may itself wait for
 * those streams: nothing hangs, and the copies go on. In a process of its own, which is killed
 * where it does hang, so that this one can tell at what. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "on_gpu.h"

/* kLimit: of a process; a deadline, its streams and the call itself have passed long before. */
enum { kStreams = 4, kPart = 8 << 20, kDeadline = 4000, kLimit = 25000 };

/* ---- the calls ---- */

static CUdeviceptr to_free;
static atomic_bool enough;

static CUresult go_free(void) {
    return gpu.cuMemFree(to_free);
}

static CUresult go_synchronize(void) {
    return gpu.cuCtxSynchronize();
}

/* Again and again, while the batches wait. */
static CUresult go_alloc(void) {
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr made;
    for (int i = 0; i < 256 && result == CUDA_SUCCESS && !atomic_load(&enough); i++) {
        result = gpu.cuMemAlloc(&made, 4 << 20);
        usleep(5000);
    }
    return result;
}

static const struct {
    const char *name;
    CUresult (*go)(void);
} calls[] = {
    {"cuMemFree", go_free}, {"cuCtxSynchronize", go_synchronize}, {"cuMemAlloc", go_alloc}};
enum { kCalls = sizeof calls / sizeof *calls };

typedef struct Caller {
    pthread_t thread;
    CUresult (*go)(void);
    CUresult result;
    _Atomic int over;
} Caller;

static void *make_call(void *argument) {
    Caller *const caller = argument;
    caller->result = gpu.cuCtxSetCurrent(gpu.context);
    if (caller->result == CUDA_SUCCESS) caller->result = caller->go();
    atomic_store(&caller->over, 1);
    return NULL;
}

/* ---- the process: what fails ends it, and the last thing said is where ---- */

static void now_it(const char *what) {
    printf("it %s\n", what);
    fflush(stdout);
}

typedef struct Work {
    Scene scene;
    CUstream streams[kStreams + 1]; /* one more for who comes late */
    xfer_batch_t *batches[kStreams + 1];
    const xfer_cuda_result_t *results[kStreams + 1];
} Work;

/* Copies in both directions, more than what is staged at once. */
static void take_work(Work *work) {
    const xfer_engine_options_t options = socket_options(THREAD_MODE);
    open_scene(&work->scene, THREAD_MODE, &options, 2 * kStreams * kPart);
    for (uint64_t i = 0; i <= kStreams; i++) {
        work->streams[i] = take_stream();
        work->batches[i] = take_batch(&work->scene);
        if (i == kStreams) break;
        void *const from = (void *)take_device(kPart, (uint8_t)(i + 1));
        void *const to = (void *)take_device(kPart, 0);
        const xfer_ref_t *const ref = &work->scene.ref;
        const uint64_t at = 2 * i * kPart;
        assert_status(xfer_batch_put(work->batches[i], from, ref, at, kPart), XFER_OK);
        assert_status(xfer_batch_get(work->batches[i], to, ref, at + kPart, kPart), XFER_OK);
    }
}

static void submit_work(Work *work, uint64_t user) {
    for (uint64_t i = 0; i < kStreams; i++)
        work->results[i] = submit_on(work->batches[i], work->streams[i], user + i, kDeadline);
}

static int end_work(Work *work, uint64_t user) {
    int late = 0;
    for (uint64_t i = 0; i < kStreams; i++)
        late += end_of_batch(&work->scene, user + i) != XFER_OK;
    return late;
}

/* The peer is stopped, so the batches wait with copies to be made, when the call begins. */
static int wait_beside(Work *work, Caller *caller, const char *name) {
    peer_signal(&work->scene.peer, SIGSTOP);
    now_it("submits batches that wait for their peer");
    submit_work(work, 10);
    pass_ms(100);
    assert_int_equal(pthread_create(&caller->thread, NULL, make_call, caller), 0);
    pass_ms(300);
    printf("note %s %s\n", name, atomic_load(&caller->over) ? "has returned" : "is under way");
    peer_signal(&work->scene.peer, SIGCONT);
    now_it("submits one more batch");
    const uint64_t start = now_ms();
    submit_on(work->batches[kStreams], work->streams[kStreams], 20, kDeadline);
    printf("note a submit took %d ms\n", (int)(now_ms() - start));
    now_it("waits for the events of the batches");
    const int late = end_work(work, 10) + (end_of_batch(&work->scene, 20) != XFER_OK);
    printf("note %d ms after the peer went on all batches had ended\n", (int)(now_ms() - start));
    atomic_store(&enough, true);
    now_it("waits for the streams to go on"); /* the call may have the driver for itself */
    for (int i = 0; i <= kStreams; i++)
        assert_passes(work->streams[i]);
    now_it("waits for the call to return");
    wait_atomic(&caller->over, 1, kStreamPatience);
    pthread_join(caller->thread, NULL);
    gpu_check(caller->result, name, __FILE__, __LINE__);
    return late;
}

int beside_role(const char *name) {
    static Work work;
    static Caller caller;
    fixture_setup(NULL);
    now_it("opens the device");
    if (!has_streams()) return 1;
    for (int i = 0; i < kCalls; i++)
        if (strcmp(calls[i].name, name) == 0) caller.go = calls[i].go;
    GPU(cuMemAlloc(&to_free, 32 << 20)); /* a piece of none that stays */
    take_work(&work);
    now_it("waits for batches that nothing is beside");
    submit_work(&work, 0);
    for (int i = 0; i < kStreams; i++)
        assert_passes(work.streams[i]);
    assert_int_equal(end_work(&work, 0), 0);
    const int late = wait_beside(&work, &caller, name);
    now_it("closes the engine");
    host_end(work.scene.client);
    peer_kill(&work.scene.peer);
    if (late == 0) return 0;
    printf("it has %d of %d batches whose copies did not go on before their deadline\n", late,
           kStreams + 1);
    return 1;
}

/* ---- who looks at it ---- */

/* The next line, or what there is of it at the end. False: there is none in time. */
static bool read_line(const Peer *process, char *line, size_t cap, uint64_t limit) {
    size_t length = 0;
    line[0] = '\0';
    while (length + 1 < cap) {
        struct pollfd readable = {.fd = process->out, .events = POLLIN};
        const uint64_t now = now_ms();
        if (now >= limit || poll(&readable, 1, (int)(limit - now)) != 1) return false;
        if (read(process->out, line + length, 1) != 1 || line[length] == '\n') break;
        length++;
    }
    line[length] = '\0';
    return true;
}

static void look_at(const char *name) {
    Peer process;
    char line[200], last[200] = "it begins";
    if (!has_streams()) skip();
    peer_start_role(&process, "beside", name);
    const uint64_t limit = now_ms() + kLimit;
    for (;;) {
        if (!read_line(&process, line, sizeof line, limit))
            fail_msg("beside %s, a process hangs: %s", name, last);
        if (line[0] == '\0') break;
        if (strncmp(line, "it ", 3) == 0) memcpy(last, line, sizeof last);
        if (strncmp(line, "note ", 5) == 0)
            print_message("figure: beside %s: %s\n", name, line + 5);
    }
    if (peer_wait(&process) != 0) fail_msg("beside %s, a process got no further: %s", name, last);
}

void test_beside_free(void **state) {
    (void)state;
    look_at("cuMemFree");
}

void test_beside_synchronize(void **state) {
    (void)state;
    look_at("cuCtxSynchronize");
}

void test_beside_alloc(void **state) {
    (void)state;
    look_at("cuMemAlloc");
}
