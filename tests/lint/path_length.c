/* SPDX-License-Identifier: Apache-2.0
 *
 * The two paths that path_length.py measures, for it to look at: an 8 B put and an open, of an
 * engine that is polled, to one in another process on the same host, by shared memory. While one
 * runs, the processor traps behind each instruction of this thread, and its clocks stand still: a
 * single step takes a thousand times as long, and no timer ends for that. For each run a line
 * "NAME N", then N lines, the addresses in this file that were executed, as addr2line wants them.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "xfer/xfer.h"

enum { kSkipped = 77, kOpens = 3, kPuts = 5, kWarm = 100, kPatienceMs = 20000 };

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <x86intrin.h>

#define TRAP_FLAG 0x100ULL

#define EXPECT(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: %s: failed\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)
#define MUST(call) EXPECT((call) == XFER_OK)

/* What the linker calls the begin of this file in memory, and the end of its code. */
extern const char __executable_start[], etext[];

static char *executed; /* by offset from __executable_start */

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    const ucontext_t *at = context;
    const size_t offset = (size_t)at->uc_mcontext.gregs[REG_RIP] - (size_t)__executable_start;
    if (offset < (size_t)(etext - __executable_start)) executed[offset] = 1;
}

enum { kClocks = CLOCK_MONOTONIC_COARSE + 1 };
static bool standing;
static struct timespec stood[kClocks];

/* Stands before the C library's, which the library and the C++ runtime would call. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!standing || clock < 0 || clock >= kClocks)
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time = stood[clock];
    return 0;
}

static void go_on(void) {
    __writeeflags(__readeflags() | TRAP_FLAG);
}

static void pause_trace(void) {
    __writeeflags(__readeflags() & ~TRAP_FLAG);
}

static void begin(void) {
    memset(executed, 0, (size_t)(etext - __executable_start));
    for (clockid_t clock = 0; clock < kClocks; clock++)
        EXPECT(clock_gettime(clock, &stood[clock]) == 0);
    standing = true;
    go_on();
}

static void end(const char *name) {
    pause_trace();
    standing = false;
    size_t count = 0, size = (size_t)(etext - __executable_start);
    for (size_t i = 0; i < size; i++)
        count += executed[i] != 0;
    printf("%s %zu\n", name, count);
    for (size_t i = 0; i < size; i++)
        if (executed[i]) printf("%#zx\n", i);
}

/* ---- the owner of the memory, in a process of its own until `done` ends */

typedef struct Offer {
    char uri[256];
    xfer_ref_t ref;
} Offer;

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static void own(int offer, int done) {
    xfer_engine_options_t options = {.size = sizeof options, .on_event = on_event};
    xfer_engine_t *engine = NULL;
    MUST(xfer_engine_open(&options, &engine, NULL));
    char uri[64];
    snprintf(uri, sizeof uri, "shm://xfer-path-%d", (int)getpid());
    Offer made;
    memset(&made, 0, sizeof made);
    MUST(xfer_engine_listen(engine, uri, NULL, made.uri, sizeof made.uri, NULL));
    xfer_region_options_t shared = {.size = sizeof shared, .access = XFER_READ | XFER_WRITE};
    xfer_region_t *region = NULL;
    void *memory = NULL;
    MUST(xfer_region_alloc(engine, &shared, 4096, &memory, &region, NULL));
    MUST(xfer_region_ref(region, &made.ref));
    EXPECT(write(offer, &made, sizeof made) == (ssize_t)sizeof made);
    char none;
    EXPECT(read(done, &none, 1) == 0);
    MUST(xfer_engine_join(engine, XFER_NONE));
}

/* ---- who is traced */

static void take(xfer_engine_t *engine, uint32_t kind) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, kPatienceMs, &count));
        EXPECT(count == 1);
        if (event.kind != kind) continue;
        MUST(event.status);
        return;
    }
}

static void begin_put(xfer_ep_t *ep, const xfer_ref_t *ref) {
    static uint64_t word = 1;
    MUST(xfer_put(ep, &word, ref, 0, sizeof word, 0, NULL));
}

static void put(xfer_engine_t *engine, xfer_ep_t *ep, const xfer_ref_t *ref) {
    begin_put(ep, ref);
    take(engine, XFER_EVENT_PUT);
}

/* A poll that finds an event makes a turn of the loop if it is the first one in some milliseconds:
 * one that is not traced comes between the put and its own. */
static void trace_put(xfer_engine_t *engine, xfer_ep_t *ep, const xfer_ref_t *ref) {
    begin();
    begin_put(ep, ref);
    pause_trace();
    put(engine, ep, ref);
    go_on();
    take(engine, XFER_EVENT_PUT);
    end("put");
}

static void measure(const Offer *offer) {
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = XFER_NONE};
    for (int i = 0; i < kOpens; i++) {
        xfer_engine_t *engine = NULL;
        MUST(xfer_engine_open(&options, &engine, NULL));
        xfer_ep_t *ep = NULL;
        begin();
        xfer_status_t opened = xfer_ep_open(engine, offer->uri, NULL, &ep, NULL);
        if (opened == XFER_OK) opened = xfer_ep_connect(ep, 0, NULL);
        if (opened == XFER_OK) take(engine, XFER_EVENT_PEER_UP);
        end("open");
        MUST(opened);
        for (int j = 0; j < kWarm; j++)
            put(engine, ep, &offer->ref);
        for (int j = 0; i == 0 && j < kPuts; j++)
            trace_put(engine, ep, &offer->ref);
        MUST(xfer_engine_join(engine, XFER_NONE));
    }
}

static bool traps(void) {
    begin();
    pause_trace();
    standing = false;
    return memchr(executed, 1, (size_t)(etext - __executable_start)) != NULL;
}

int main(void) {
    executed = malloc((size_t)(etext - __executable_start));
    EXPECT(executed);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGTRAP, &action, NULL) == 0);
    if (!traps()) {
        printf("skipped: no trap behind each instruction on this machine\n");
        return kSkipped;
    }
    int offer[2], done[2];
    EXPECT(pipe(offer) == 0 && pipe(done) == 0);
    const pid_t owner = fork();
    EXPECT(owner >= 0);
    if (owner == 0) {
        close(done[1]);
        own(offer[1], done[0]);
        _exit(0);
    }
    close(done[0]);
    close(offer[1]);
    Offer made;
    EXPECT(read(offer[0], &made, sizeof made) == (ssize_t)sizeof made);
    measure(&made);
    close(done[1]);
    return 0;
}

#else

int main(void) {
    printf("skipped: only on x86-64, and without a sanitizer\n");
    return kSkipped;
}

#endif
