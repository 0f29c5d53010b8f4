/* SPDX-License-Identifier: Apache-2.0
 *
 * Every system call and every allocation of open, listen, register and connect fails once, each in
 * a process of its own. What must hold then: the call gives a status, or what it began its event;
 * what was begun is undone; and the next attempt succeeds.
 *
 * A phase is run once to count its calls. With threads the count is not the same each time: a
 * number that is not reached makes a case in which nothing fails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka.h needs those above before it. */
#include <cmocka.h>

#include "inject.h"
#include "phases.h"
#include "world.h"

enum { kCaseSeconds = 30, kMaxShown = 20 };

typedef struct Row {
    Call call;
    int error;
    bool onward;
} Row;

/* What each call may say; a hard error of a descriptor that cannot have it (an eventfd) is none. */
static const Row rows[] = {
    {kSocket, EMFILE, false},        {kSocket, ENFILE, false},
    {kSocket, ENOBUFS, false},       {kSocket, EACCES, false},
    {kBind, EADDRINUSE, false},      {kBind, EACCES, false},
    {kBind, ENOMEM, false},          {kListen, EADDRINUSE, false},
    {kListen, ENOBUFS, false},       {kAccept, EMFILE, false},
    {kAccept, ENFILE, false},        {kAccept, ENOBUFS, false},
    {kAccept, ECONNABORTED, false},  {kAccept, EPERM, false},
    {kAccept, EINTR, false},         {kConnect, ECONNREFUSED, false},
    {kConnect, ENETUNREACH, false},  {kConnect, EADDRNOTAVAIL, false},
    {kConnect, EPERM, false},        {kEpollCreate, EMFILE, false},
    {kEpollCreate, ENOMEM, false},   {kEpollCtl, ENOMEM, false},
    {kEpollCtl, ENOSPC, false},      {kEventfd, EMFILE, false},
    {kEventfd, ENFILE, false},       {kTimerfdCreate, EMFILE, false},
    {kTimerfdCreate, ENOMEM, false}, {kSetsockopt, EPERM, false},
    {kSetsockopt, ENOBUFS, false},   {kGetsockopt, ENOBUFS, false},
    {kGetsockname, ENOBUFS, false},  {kGetpeername, ENOTCONN, false},
    {kGetpeername, ENOBUFS, false},  {kIoctl, EPERM, false},
    {kFcntl, EPERM, false},          {kOpen, EMFILE, false},
    {kGetrandom, ENOSYS, true},      {kThread, EAGAIN, false},
    {kThread, EPERM, false},         {kMmap, ENOMEM, false},
    {kRead, EINTR, false},           {kRead, EAGAIN, false},
    {kWrite, EINTR, false},          {kSendmsg, ECONNRESET, false},
    {kSendmsg, EPIPE, false},        {kSendmsg, ENOBUFS, false},
    {kSendmsg, EAGAIN, false},       {kSendmsg, EINTR, false},
    {kSendmsg, kShort, false},       {kSendmsg, kShort, true},
    {kRecvmsg, ECONNRESET, false},   {kRecvmsg, ETIMEDOUT, false},
    {kRecvmsg, ENOMEM, false},       {kRecvmsg, EAGAIN, false},
    {kRecvmsg, EINTR, false},        {kRecvmsg, kShort, false},
    {kRecvmsg, kShort, true},        {kDescriptors, EMFILE, true},
    {kAlloc, ENOMEM, false},         {kAlloc, ENOMEM, true},
};
/* Descriptors are not counted as they come: more than any phase takes. */
enum { kMaxDescriptors = 32 };
enum { kRowCount = sizeof rows / sizeof rows[0] };

/* What the child that counts leaves for its parent. */
static long *shared_counts;
static int cases_run, cases_hit_nothing, cases_failed;

/* In the child: the exit status is the verdict. */
static void child(const Phase *phase, const Mode *mode, const Fault *fault, bool warm) {
    alarm(kCaseSeconds);
    phase_run(phase, mode, fault, warm);
    for (int i = 0; i < kCallCount; i++)
        shared_counts[i] = phase_counts[i];
    shared_counts[kCallCount] = phase_hits;
    exit(0); /* by the front door: a sanitizer looks for leaks there */
}

static void show(const Phase *phase, const Mode *mode, const Fault *fault, bool warm, int status) {
    if (cases_failed++ >= kMaxShown) return;
    print_message("  replay: faults %s %s %s %s %ld %d %s -> %s %d\n", phase->name, mode->name,
                  warm ? "warm" : "first", call_names[fault->call], fault->nth, fault->error,
                  fault->onward ? "onward" : "once", WIFSIGNALED(status) ? "signal" : "exit",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void run_case(const Phase *phase, const Mode *mode, const Fault *fault, bool warm) {
    fflush(NULL);
    shared_counts[kCallCount] = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) child(phase, mode, fault, warm);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    cases_run++;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        show(phase, mode, fault, warm, status);
    } else if (fault->nth != 0 && fault->call != kDescriptors && shared_counts[kCallCount] == 0) {
        cases_hit_nothing++;
    }
}

/* Whether only what the caller's thread does can fail. */
static bool here_only(const Phase *phase, Call call, bool onward) {
    return call == kAlloc && (onward || !phase->loops);
}

static void run_phase(const Phase *phase, const Mode *mode, bool warm) {
    long counts[kCallCount];
    for (int scope = 0; scope < 2; scope++) {
        bool here = scope == 1;
        Fault none = {.here = here};
        int failed = cases_failed;
        run_case(phase, mode, &none, warm);
        if (cases_failed != failed) return; /* not even without a fault */
        memcpy(counts, shared_counts, sizeof counts);
        for (int i = 0; i < kRowCount; i++) {
            const Row *row = &rows[i];
            if (phase->memory && (row->call != kAlloc || row->onward)) continue;
            if (here_only(phase, row->call, row->onward) != here) continue;
            long count = row->call == kDescriptors ? kMaxDescriptors : counts[row->call];
            for (long nth = 1; nth <= count; nth++) {
                Fault fault = {row->call, row->error, nth, row->onward, here};
                if (!phase_allows(warm, &fault)) continue;
                run_case(phase, mode, &fault, warm);
                if (row->call == kGetrandom) break;
            }
        }
    }
}

static void run(const Phase *phase, const Mode *phase_modes, int count) {
    cases_run = cases_hit_nothing = cases_failed = 0;
    uint64_t start = now_ms();
    for (int i = 0; i < count; i++) {
        if (phase->first) run_phase(phase, &phase_modes[i], false);
        run_phase(phase, &phase_modes[i], true);
    }
    print_message("  %d cases in %llu ms, %d without a hit\n", cases_run,
                  (unsigned long long)(now_ms() - start), cases_hit_nothing);
    if (cases_failed != 0) fail_msg("%d of %d cases failed", cases_failed, cases_run);
}

static const Mode modes[] = {
    {"thread/1", XFER_DISPATCH_THREAD, 1},        {"loop/1", XFER_DISPATCH_LOOP, 1},
    {"poll/none", XFER_DISPATCH_POLL, XFER_NONE}, {"poll/2", XFER_DISPATCH_POLL, 2},
    {"loop/none", XFER_DISPATCH_LOOP, XFER_NONE}, {"thread/none", XFER_DISPATCH_THREAD, XFER_NONE},
};
enum { kModeCount = sizeof modes / sizeof modes[0] };

static void test_open(void **state) {
    (void)state;
    run(&phase_open, modes, kModeCount);
}

static void test_listen(void **state) {
    (void)state;
    run(&phase_listen, modes, kModeCount);
}

static void test_region(void **state) {
    (void)state;
    run(&phase_region, modes, kModeCount);
}

static void test_connect_thread(void **state) {
    (void)state;
    run(&phase_connect, &modes[0], 1);
}

static void test_connect_loop(void **state) {
    (void)state;
    run(&phase_connect, &modes[1], 1);
}

static void test_connect_poll(void **state) {
    (void)state;
    run(&phase_connect, &modes[2], 1);
}

/* Between two that are connected; the modes are those of the server, and each other does without
 * where time is short. */
static void run_traffic(const Phase *phase, int first, int second) {
    run(phase, &modes[first], 1);
    if (second >= 0 && getenv("XFER_TEST_QUICK") == NULL) run(phase, &modes[second], 1);
}

static void test_message(void **state) {
    (void)state;
    run_traffic(&phase_message, 3, 1);
}

static void test_withdraw(void **state) {
    (void)state;
    run_traffic(&phase_withdraw, 3, -1);
}

static void test_named(void **state) {
    (void)state;
    run_traffic(&phase_named, 3, 0);
}

static void test_notify(void **state) {
    (void)state;
    run_traffic(&phase_notify, 3, 1);
}

static void test_retire(void **state) {
    (void)state;
    run_traffic(&phase_retire, 3, -1);
}

static void test_pulled(void **state) {
    (void)state;
    run_traffic(&phase_pulled, 3, -1);
}

static void test_local(void **state) {
    (void)state;
    run_traffic(&phase_local, 3, -1);
}

static void test_lane(void **state) {
    (void)state;
    run_traffic(&phase_lane, 3, -1);
}

static void run_alone(void (*run_one)(const Mode *mode)) {
    for (int i = 0; i < kModeCount; i++) {
        int status = 0;
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(kCaseSeconds);
            run_one(&modes[i]);
            exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0) fail_msg("%s: wait status %d", modes[i].name, status);
    }
}

static void test_full(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("skip: UBSan needs descriptors to look at an object\n");
    skip();
#endif
    run_alone(run_full);
}

static void test_cancel(void **state) {
    (void)state;
    run_alone(run_cancel);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_open),           cmocka_unit_test(test_listen),
    cmocka_unit_test(test_region),         cmocka_unit_test(test_full),
    cmocka_unit_test(test_connect_thread), cmocka_unit_test(test_connect_loop),
    cmocka_unit_test(test_connect_poll),   cmocka_unit_test(test_message),
    cmocka_unit_test(test_withdraw),       cmocka_unit_test(test_named),
    cmocka_unit_test(test_notify),         cmocka_unit_test(test_retire),
    cmocka_unit_test(test_pulled),         cmocka_unit_test(test_cancel),
    cmocka_unit_test(test_local),          cmocka_unit_test(test_lane),
};

/* One case, in this process, so that a debugger sees it: the words are those of show(). */
static int replay(char **words) {
    static const Phase *const phases[] = {
        &phase_open,  &phase_listen, &phase_region, &phase_connect, &phase_message, &phase_withdraw,
        &phase_named, &phase_notify, &phase_retire, &phase_pulled,  &phase_local,   &phase_lane};
    const Phase *phase = NULL;
    const Mode *mode = NULL;
    Fault fault = {.call = kCallCount};
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        if (strcmp(phases[i]->name, words[0]) == 0) phase = phases[i];
    for (int i = 0; i < kModeCount; i++)
        if (strcmp(modes[i].name, words[1]) == 0) mode = &modes[i];
    for (int i = 0; i < kCallCount; i++)
        if (strcmp(call_names[i], words[3]) == 0) fault.call = (Call)i;
    if (phase == NULL || mode == NULL || fault.call == kCallCount) return 2;
    fault.nth = atol(words[4]);
    fault.error = atoi(words[5]);
    fault.onward = strcmp(words[6], "onward") == 0;
    fault.here = here_only(phase, fault.call, fault.onward);
    phase_run(phase, mode, &fault, strcmp(words[2], "warm") == 0);
    printf("holds; %ld failed\n", phase_hits);
    return 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 8) return replay(argv + 1);
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    shared_counts = mmap(NULL, (kCallCount + 1) * sizeof *shared_counts, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
