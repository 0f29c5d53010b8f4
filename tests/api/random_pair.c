/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs in two processes, over each path: sockets of both kinds, and shared memory, which
 * is found out or asked for. What one process writes to, the other one verifies. In some scripts
 * one of the two is killed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "random.h"

typedef struct Way {
    const char *transport;  /* of the listener */
    const char *transports; /* NULL: all */
} Way;

static int child(const Way *way, uint32_t side) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("XFER_TEST_TRANSPORT", way->transport, 1);
    if (way->transports != NULL)
        setenv("XFER_TRANSPORTS", way->transports, 1);
    else
        unsetenv("XFER_TRANSPORTS");
    run_script(side);
    return board->is_broken ? 1 : 0;
}

static pid_t start(const Way *way, uint32_t side) {
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) exit(child(way, side));
    return pid;
}

/* At any time of the script, in one of eight. */
static pid_t kill_one(const pid_t *pids, uint64_t *state) {
    if (next_random(state) % 8 != 0) return 0;
    const uint32_t side = (uint32_t)(next_random(state) % kEngines);
    usleep((useconds_t)(next_random(state) % 30000));
    board->sides[side].killed = 1;
    kill(pids[side], SIGKILL);
    return pids[side];
}

static void end_child(pid_t pid, bool was_killed) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && !(was_killed && WTERMSIG(status) == SIGKILL))
        broken("a process ended by signal %d", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        broken("a process ended with %d", WEXITSTATUS(status));
}

static void run_pair(const Way *way) {
    uint64_t state = seed;
    pid_t pids[kEngines];
    for (uint32_t side = 0; side < kEngines; side++)
        pids[side] = start(way, side);
    const pid_t killed = kill_one(pids, &state);
    for (uint32_t side = 0; side < kEngines; side++)
        end_child(pids[side], pids[side] == killed);
    for (uint32_t side = 0; side < kEngines; side++) { /* what a killed one leaves */
        const char *uri = board->sides[side].uri;
        if (strncmp(uri, "unix://", 7) == 0) unlink(uri + 7);
    }
}

static void run_way(const Way *way) {
    const uint64_t first = first_seed(), count = scripts(50, 250);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    for (seed = first; seed < first + count; seed++) {
        memset(board, 0, sizeof *board);
        run_pair(way);
        if (board->is_broken) {
            fail_msg("seed %llu: %s; XFER_TEST_SEED=%llu runs it alone", (unsigned long long)seed,
                     board->first_broken, (unsigned long long)seed);
        }
    }
    munmap(board, sizeof *board);
}

static void test_tcp(void **state) {
    (void)state;
    run_way(&(Way){"tcp", "loopback,tcp"});
}

static void test_unix(void **state) {
    (void)state;
    run_way(&(Way){"unix", "loopback,unix"});
}

/* They meet over TCP. */
static void test_near(void **state) {
    (void)state;
    run_way(&(Way){"tcp", NULL});
}

static void test_shm(void **state) {
    (void)state;
    run_way(&(Way){"shm", NULL});
}

static const struct CMUnitTest tests[] = {TEST(test_tcp), TEST(test_unix), TEST(test_near),
                                          TEST(test_shm)};

TEST_MAIN(tests)
