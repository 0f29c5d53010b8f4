/* SPDX-License-Identifier: Apache-2.0
 *
 * What every program of this folder stands on: engines that record all they are told, in any
 * dispatch mode.
 *
 * A Host is one engine and the log of its events. Callbacks only record, since cmocka's asserts
 * longjmp; the test waits with a limit and then asserts. Waiting drives every open host whose
 * events arrive in the test's thread (LOOP and POLL), so that two engines can talk to each other in
 * one thread.
 *
 * Rules that hold for every event of every test are checked while recording and asserted when a
 * host ends: callbacks never overlap, never come from inside a call, `sequence` counts up by one,
 * CLOSED of the engine is last. */
#ifndef XFER_TESTS_API_FIXTURE_H
#define XFER_TESTS_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka.h needs those above before it. */
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <uv.h>
#include <xfer/xfer.h>

#include "within.h"

#include "peer.h"

typedef struct Mode {
    const char *name;
    uint32_t dispatch;
    uint32_t io_threads;
} Mode;

enum { kModeCount = 9 };
extern const Mode modes[kModeCount];
/* Where the mode is not what is tested: threads of the engine's own. */
#define THREAD_MODE (&modes[1])

/* One entry of a cmocka table for each mode; the test gets its Mode as *state. */
#define MODE_TEST(test, at, name) \
    { #test " [" name "]", test, fixture_setup, fixture_teardown, (void *)&modes[at] }
#define EACH_MODE(test)                                                  \
    MODE_TEST(test, 0, "thread/none"), MODE_TEST(test, 1, "thread/1"),   \
        MODE_TEST(test, 2, "thread/2"), MODE_TEST(test, 3, "loop/none"), \
        MODE_TEST(test, 4, "loop/1"), MODE_TEST(test, 5, "loop/2"),      \
        MODE_TEST(test, 6, "poll/none"), MODE_TEST(test, 7, "poll/1"),   \
        MODE_TEST(test, 8, "poll/2")
/* One mode of each dispatch, for tests that take long or that io_threads cannot matter to. */
#define EACH_DISPATCH(test) \
    MODE_TEST(test, 1, "thread/1"), MODE_TEST(test, 3, "loop/none"), MODE_TEST(test, 6, "poll/none")
#define ONE_MODE(test) MODE_TEST(test, 1, "thread/1")

/* For tests that open their engines by themselves; *state is NULL. */
#define TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

/* What every main does but for the roles of its own; an argument names the tests to run, "test_x*".
 */
#define TEST_MAIN(tests) TEST_MAIN_AFTER(tests, (void)0)
/* The same, after `first`, such as peer_role(). */
#define TEST_MAIN_AFTER(tests, first)                             \
    int main(int argc, char **argv) {                             \
        int code;                                                 \
        first;                                                    \
        if (peer_main(argc, argv, &code)) return code;            \
        test_arguments(argc, argv);                               \
        return run_modes(tests, sizeof(tests) / sizeof *(tests)); \
    }
void test_arguments(int argc, char **argv);
/* XFER_TEST_MODES=few leaves out all modes but those of EACH_DISPATCH. */
int run_modes(const struct CMUnitTest *tests, size_t count);

typedef struct Seen {
    xfer_event_t event;
    uint8_t *data; /* a copy of what event.data pointed to */
    bool taken;
} Seen;

typedef struct Host Host;
/* Runs where the callback runs, after the event was recorded. Must not assert. */
typedef void (*HostHook)(Host *host, const xfer_event_t *event);

struct Host {
    Host *next;
    const Mode *mode;
    xfer_engine_t *engine; /* NULL after host_end */
    char uri[256];         /* where it listens */
    uv_loop_t loop;        /* LOOP only */
    int32_t fd;            /* POLL only */
    _Atomic(HostHook) hook;
    void *hook_data;
    bool joined; /* the test joined by itself */
    bool ending;
    bool paused; /* its events are not taken (POLL with I/O threads) */
    bool lost;   /* it never ended; its threads may still touch this */

    pthread_mutex_t mutex;
    Seen *seen;
    size_t seen_count;
    size_t seen_room;
    size_t first_untaken;
    uint64_t last_sequence;
    int active; /* callbacks running now */
    bool saw_closed;
    char broken[160]; /* the first rule that was broken */
};

/* ---- the life of a test ---- */

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Zeroed memory that lives until the teardown of this test, after all hosts ended. The bytes around
 * it are looked at then: one that was written to fails the test. */
void *test_memory(uint64_t length);
/* True when the environment asks for fewer rounds. */
bool quick(void);
uint64_t now_ms(void);
/* Lets `ms` pass while hosts go on. */
void pass_ms(uint32_t ms);
/* One turn of all hosts, waiting at most `ms` for something to happen. */
void turn(uint32_t ms);
/* Turns until *value, written by another thread, reaches `wanted`; fails the test after `ms`. */
void wait_atomic(_Atomic int *value, int wanted, uint32_t ms);

/* Closes the handles that a test left open; their engines have ended. */
void close_shells(void);
/* Leaves them as they are: an engine didn't end, so closing them would prove nothing. */
void forget_shells(void);

/* ---- hosts ---- */

/* Options as the mode has them; on_event, user and loop are filled in by host_open. */
xfer_engine_options_t host_options(const Mode *mode);
Host *host_open(const Mode *mode);
Host *host_open_with(const Mode *mode, const xfer_engine_options_t *options);
/* Where a test does not mind, `uri` being a TCP address with any port: XFER_TEST_TRANSPORT=unix
 * lets it run over UNIX sockets, =shm by shared memory. Valid until the next call. */
const char *preferred(const char *uri);
void host_listen(Host *host, const char *uri);
/* Engines of one host are kept from being neighbours. */
bool over_sockets(void);
/* Closes, waits for CLOSED, joins, and asserts the rules of events. */
void host_end(Host *host);
xfer_engine_stats_t host_stats(Host *host);

/* ---- events ---- */

#define ANY_USER UINT64_MAX
enum { kPatience = 20000 }; /* ms; far beyond what anything here needs */

/* The first event of that kind that no one has taken; fails the test if it does not come in time.
 */
xfer_event_t wait_event(Host *host, uint32_t type, uint64_t user, uint32_t ms);
/* The same, for the CLOSED event of `object`. */
void wait_closed(Host *host, const void *object);
/* Until release_events no event callback of the host returns, so a handle that was closed is not
 * freed yet. No assertion in between: a failed one would leave the events held. */
void hold_events(Host *host);
void release_events(Host *host);
/* Takes such an event if it is there already. */
bool take_event(Host *host, uint32_t type, uint64_t user, xfer_event_t *event);
/* How many came so far, taken or not. */
size_t count_events(Host *host, uint32_t type, uint64_t user);

/* ---- two engines and a region ---- */

typedef struct Pair {
    Host *server;
    Host *client;
    uint8_t *memory; /* of the server */
    uint64_t length;
    xfer_region_t *region; /* "memory", may be read and written */
    xfer_ref_t ref;        /* as the client looked it up */
    xfer_ep_t *ep;         /* the client's */
} Pair;

void pair_open(Pair *pair, const Mode *mode, uint64_t length);
/* The same, with the server at `uri`. */
void pair_open_at(Pair *pair, const Mode *mode, const char *uri, uint64_t length);
void pair_open_with(Pair *pair, const xfer_engine_options_t *server,
                    const xfer_engine_options_t *client, const Mode *mode, uint64_t length);

xfer_region_t *open_region(Host *host, const char *name, uint32_t access, void *address,
                           uint64_t length);
xfer_ep_t *open_ep(Host *host, const char *uri);
xfer_ref_t look_up(Host *host, xfer_ep_t *ep, const char *name);

/* Each moves bytes and waits: the status, from the call or from its event. Asserts the flags of the
 * event. */
xfer_status_t put_now(Host *host, xfer_ep_t *ep, const void *local, const xfer_ref_t *ref,
                      uint64_t offset, uint64_t length);
xfer_status_t get_now(Host *host, xfer_ep_t *ep, void *local, const xfer_ref_t *ref,
                      uint64_t offset, uint64_t length);
xfer_status_t submit_now(Host *host, xfer_batch_t *batch);
xfer_status_t connect_now(Host *host, xfer_ep_t *ep, uint32_t timeout_ms);
/* What holds for every completion: FENCED with OK, one of the two otherwise. */
void assert_completion(const xfer_event_t *event);
#define assert_status(is, wanted) assert_status_at((is), (wanted), __FILE__, __LINE__)
void assert_status_at(xfer_status_t is, xfer_status_t wanted, const char *file, int line);

/* A plain socket that listens on loopback, or -1 if *port is taken; 0 means any, and *port is set.
 */
int raw_listener(uint16_t *port);
/* The same, with its URI: the kernel takes connections and bytes, and nobody ever answers. */
int black_hole(char *uri, size_t cap);

/* Bytes that tell their own place: byte i of a buffer filled with `seed` differs from its
 * neighbours. */
void fill(void *memory, uint64_t length, uint64_t seed);
/* True if `memory` holds bytes `skip` and on of what fill would have written. */
bool filled(const void *memory, uint64_t length, uint64_t seed, uint64_t skip);

#endif
