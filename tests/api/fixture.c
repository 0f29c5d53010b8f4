/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "event_table.h"
#include "log_line.h"
#include "peer.h"

const Mode modes[kModeCount] = {
    {"thread/none", XFER_DISPATCH_THREAD, XFER_NONE},
    {"thread/1", XFER_DISPATCH_THREAD, 1},
    {"thread/2", XFER_DISPATCH_THREAD, 2},
    {"loop/none", XFER_DISPATCH_LOOP, XFER_NONE},
    {"loop/1", XFER_DISPATCH_LOOP, 1},
    {"loop/2", XFER_DISPATCH_LOOP, 2},
    {"poll/none", XFER_DISPATCH_POLL, XFER_NONE},
    {"poll/1", XFER_DISPATCH_POLL, 1},
    {"poll/2", XFER_DISPATCH_POLL, 2},
};

enum { kMaxHosts = 32, kPollBatch = 64 };

static Host *hosts;
static int wake_fd = -1;
static pthread_t test_thread;
static _Atomic uint64_t recorded;    /* events, of all hosts */
static _Thread_local bool in_uv_run; /* the one place where a LOOP callback may come from */

/* Memory of a test, between guard bytes that nothing may write to. */
enum { kGuard = 64, kGuardByte = 0xa5 };
typedef struct Block {
    struct Block *next;
    uint8_t *memory;
    uint64_t length;
} Block;
static Block *blocks;

bool quick(void) {
    const char *value = getenv("XFER_TEST_QUICK");
    return value != NULL && strcmp(value, "0") != 0;
}

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void *test_memory(uint64_t length) {
    Block *block = malloc(sizeof *block);
    assert_non_null(block);
    block->memory = calloc(1, length + 2 * kGuard);
    assert_non_null(block->memory);
    block->length = length;
    memset(block->memory, kGuardByte, kGuard);
    memset(block->memory + kGuard + length, kGuardByte, kGuard);
    block->next = blocks;
    blocks = block;
    return block->memory + kGuard;
}

static bool is_guarded(const Block *block) {
    const uint8_t *behind = block->memory + kGuard + block->length;
    for (int i = 0; i < kGuard; i++)
        if (block->memory[i] != kGuardByte || behind[i] != kGuardByte) return false;
    return true;
}

/* ---- recording ---- */

static void mark_broken(Host *host, const char *rule, const xfer_event_t *event) {
    if (host->broken[0] == '\0') {
        snprintf(host->broken, sizeof host->broken, "%s (event type %u, sequence %llu, status %d)",
                 rule, event->kind, (unsigned long long)event->sequence, (int)event->status);
    }
}

static void check_rules(Host *host, const xfer_event_t *event) {
    if (host->active++ != 0) mark_broken(host, "two callbacks at once", event);
    if (event->sequence != host->last_sequence + 1)
        mark_broken(host, "sequence does not count by one", event);
    if (host->saw_closed) mark_broken(host, "an event after the engine's CLOSED", event);
    if (host->mode->dispatch == XFER_DISPATCH_LOOP &&
        !(in_uv_run && pthread_equal(pthread_self(), test_thread))) {
        mark_broken(host, "a callback outside the turn of the caller's loop", event);
    }
    if (host->mode->dispatch == XFER_DISPATCH_THREAD &&
        pthread_equal(pthread_self(), test_thread)) {
        mark_broken(host, "a callback on the thread that calls", event);
    }
    const char *field = wrong_field(event);
    if (field != NULL) {
        char rule[64];
        snprintf(rule, sizeof rule, "%s is not what the header's table of events says", field);
        mark_broken(host, rule, event);
    }
    if (event->user == ANY_USER) mark_broken(host, "a user word that no test gave", event);
    host->last_sequence = event->sequence;
    if (event->kind == XFER_EVENT_CLOSED && event->object == (void *)host->engine)
        host->saw_closed = true;
}

static void record(Host *host, const xfer_event_t *event) {
    Seen seen = {.event = *event};
    if (event->data_length != 0) {
        seen.data = malloc(event->data_length);
        memcpy(seen.data, event->data, event->data_length);
        seen.event.data = seen.data;
    }
    pthread_mutex_lock(&host->mutex);
    check_rules(host, event);
    if (host->seen_count == host->seen_room) {
        host->seen_room = host->seen_room == 0 ? 64 : host->seen_room * 2;
        host->seen = realloc(host->seen, host->seen_room * sizeof *host->seen);
    }
    host->seen[host->seen_count++] = seen;
    recorded++;
    pthread_mutex_unlock(&host->mutex);
    HostHook hook = atomic_load(&host->hook); /* once: the test may take it off meanwhile */
    if (hook != NULL) hook(host, event);
    pthread_mutex_lock(&host->mutex);
    host->active--;
    pthread_mutex_unlock(&host->mutex);
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    Host *host = (Host *)(uintptr_t)user;
    record(host, event);
    if (host->mode->dispatch == XFER_DISPATCH_THREAD) {
        uint64_t one = 1;
        ssize_t written = write(wake_fd, &one, sizeof one);
        (void)written; /* a full counter wakes as well */
    }
}

/* ---- driving ---- */

static void drain_polled(Host *host) {
    xfer_event_t events[kPollBatch];
    uint32_t count = 0;
    if (xfer_engine_poll(host->engine, events, sizeof events[0], kPollBatch, 0, &count) != XFER_OK)
        return;
    for (uint32_t i = 0; i < count; i++)
        record(host, &events[i]);
}

static int run_loop(Host *host) {
    in_uv_run = true;
    uv_run(&host->loop, UV_RUN_NOWAIT);
    in_uv_run = false;
    return uv_backend_timeout(&host->loop);
}

void turn(uint32_t ms) {
    struct pollfd fds[kMaxHosts + 1];
    nfds_t count = 0;
    int wait = (int)ms;
    uint64_t before = recorded;
    fds[count++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    for (Host *host = hosts; host != NULL; host = host->next) {
        if (host->engine == NULL || host->paused) continue;
        if (host->mode->dispatch == XFER_DISPATCH_LOOP) {
            int next = run_loop(host);
            if (next >= 0 && next < wait) wait = next;
            fds[count++] = (struct pollfd){.fd = uv_backend_fd(&host->loop), .events = POLLIN};
        } else if (host->mode->dispatch == XFER_DISPATCH_POLL) {
            drain_polled(host);
            if (host->fd < 0)
                wait = 0;
            else
                fds[count++] = (struct pollfd){.fd = host->fd, .events = POLLIN};
        }
    }
    poll(fds, count, recorded == before ? wait : 0);
    uint64_t word;
    while (read(wake_fd, &word, sizeof word) > 0) {}
}

void pass_ms(uint32_t ms) {
    uint64_t end = now_ms() + ms;
    for (uint64_t now = now_ms(); now < end; now = now_ms())
        turn((uint32_t)(end - now));
}

void wait_atomic(_Atomic int *value, int wanted, uint32_t ms) {
    uint64_t end = now_ms() + ms;
    while (*value < wanted) {
        if (now_ms() >= end)
            fail_msg("a counter stands at %d, not %d, after %u ms", *value, wanted, ms);
        turn(5);
    }
}

/* ---- waiting ---- */

static bool take_match(Host *host, uint32_t type, uint64_t user, const void *object,
                       xfer_event_t *event) {
    bool found = false;
    pthread_mutex_lock(&host->mutex);
    while (host->first_untaken < host->seen_count && host->seen[host->first_untaken].taken)
        host->first_untaken++;
    for (size_t i = host->first_untaken; i < host->seen_count && !found; i++) {
        Seen *seen = &host->seen[i];
        if (seen->taken || seen->event.kind != type) continue;
        if (user != ANY_USER && seen->event.user != user) continue;
        if (object != NULL && seen->event.object != object) continue;
        seen->taken = true;
        *event = seen->event;
        found = true;
    }
    pthread_mutex_unlock(&host->mutex);
    return found;
}

static void show_untaken(Host *host) {
    pthread_mutex_lock(&host->mutex);
    size_t shown = 0;
    for (size_t i = 0; i < host->seen_count && shown < 20; i++) {
        const xfer_event_t *event = &host->seen[i].event;
        if (host->seen[i].taken) continue;
        print_message("  untaken: type %u status %s user %llu object %p sequence %llu\n",
                      event->kind, xfer_status_name(event->status), (unsigned long long)event->user,
                      event->object, (unsigned long long)event->sequence);
        shown++;
    }
    pthread_mutex_unlock(&host->mutex);
}

static xfer_event_t wait_match(Host *host, uint32_t type, uint64_t user, const void *object,
                               uint32_t ms) {
    uint64_t end = now_ms() + ms;
    for (;;) {
        xfer_event_t event;
        if (take_match(host, type, user, object, &event)) return event;
        uint64_t now = now_ms();
        if (now >= end) break;
        turn(end - now < 100 ? (uint32_t)(end - now) : 100);
    }
    show_untaken(host);
    fail_msg("no event of type %u for user %llu, object %p within %u ms", type,
             (unsigned long long)user, object, ms);
    return (xfer_event_t){0};
}

xfer_event_t wait_event(Host *host, uint32_t type, uint64_t user, uint32_t ms) {
    return wait_match(host, type, user, NULL, ms);
}

void wait_closed(Host *host, const void *object) {
    wait_match(host, XFER_EVENT_CLOSED, ANY_USER, object, kPatience);
}

void hold_events(Host *host) {
    pthread_mutex_lock(&host->mutex);
}

void release_events(Host *host) {
    pthread_mutex_unlock(&host->mutex);
}

bool take_event(Host *host, uint32_t type, uint64_t user, xfer_event_t *event) {
    return take_match(host, type, user, NULL, event);
}

size_t count_events(Host *host, uint32_t type, uint64_t user) {
    size_t count = 0;
    pthread_mutex_lock(&host->mutex);
    for (size_t i = 0; i < host->seen_count; i++) {
        const xfer_event_t *event = &host->seen[i].event;
        if (event->kind == type && (user == ANY_USER || event->user == user)) count++;
    }
    pthread_mutex_unlock(&host->mutex);
    return count;
}

/* ---- hosts ---- */

xfer_engine_options_t host_options(const Mode *mode) {
    return (xfer_engine_options_t){
        .size = sizeof(xfer_engine_options_t),
        .dispatch = mode->dispatch,
        .io_threads = mode->io_threads,
        .on_log = check_line,
        .log_level = XFER_LOG_DEBUG,
    };
}

Host *host_open_with(const Mode *mode, const xfer_engine_options_t *options) {
    xfer_engine_options_t own = *options;
    Host *host = calloc(1, sizeof *host);
    assert_non_null(host);
    host->mode = mode;
    host->fd = -1;
    pthread_mutex_init(&host->mutex, NULL);
    own.user = (uint64_t)(uintptr_t)host;
    if (mode->dispatch != XFER_DISPATCH_POLL) own.on_event = on_event;
    if (mode->dispatch == XFER_DISPATCH_LOOP) {
        assert_int_equal(uv_loop_init(&host->loop), 0);
        own.uv_loop = &host->loop;
    }
    host->next = hosts;
    hosts = host;
    xfer_error_t err;
    xfer_status_t status = xfer_engine_open(&own, &host->engine, &err);
    if (status != XFER_OK) fail_msg("engine open: %s: %s", xfer_status_name(status), err.message);
    if (mode->dispatch == XFER_DISPATCH_POLL && getenv("XFER_TEST_SPIN") == NULL)
        assert_status(xfer_engine_fd(host->engine, &host->fd), XFER_OK);
    return host;
}

Host *host_open(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    return host_open_with(mode, &options);
}

const char *preferred(const char *uri) {
    static char path[64];
    static int made;
    const char *wanted = getenv("XFER_TEST_TRANSPORT");
    if (!wanted || strcmp(uri, "tcp://127.0.0.1:0") != 0) return uri;
    const bool shm = strcmp(wanted, "shm") == 0;
    if (!shm && strcmp(wanted, "unix") != 0) return uri;
    snprintf(path, sizeof path, "%sxfer-test-%d-%d", shm ? "shm://" : "unix:///tmp/", (int)getpid(),
             ++made);
    return path;
}

bool over_sockets(void) {
    const char *transports = getenv("XFER_TRANSPORTS");
    return transports && !strstr(transports, "rdma"); /* whose adapters do not ask */
}

void host_listen(Host *host, const char *uri) {
    xfer_error_t err;
    uri = preferred(uri);
    xfer_status_t status =
        xfer_engine_listen(host->engine, uri, NULL, host->uri, sizeof host->uri, &err);
    if (status != XFER_OK)
        fail_msg("listen %s: %s: %s", uri, xfer_status_name(status), err.message);
}

static bool closed_seen(Host *host) {
    pthread_mutex_lock(&host->mutex);
    bool seen = host->saw_closed;
    pthread_mutex_unlock(&host->mutex);
    return seen;
}

static void close_loop(Host *host) {
    if (host->mode->dispatch != XFER_DISPATCH_LOOP) return;
    for (int i = 0; i < 10; i++) {
        if (uv_loop_close(&host->loop) == 0) return;
        run_loop(host);
    }
    if (host->broken[0] == '\0') {
        snprintf(host->broken, sizeof host->broken, "the engine left handles on the caller's loop");
    }
}

void host_end(Host *host) {
    if (host->engine == NULL) return;
    if (host->ending) { /* and failed: the other tests can do without it */
        host->engine = NULL;
        host->lost = true;
        return;
    }
    host->ending = true;
    if (!host->joined) {
        xfer_status_t status = xfer_engine_close(host->engine);
        if (status != XFER_OK) assert_status(status, XFER_ECLOSED);
        if (!closed_seen(host)) wait_closed(host, host->engine);
        assert_status(xfer_engine_join(host->engine, XFER_NONE), XFER_OK);
    }
    host->engine = NULL;
    close_loop(host);
    if (host->broken[0] != '\0') fail_msg("%s: %s", host->mode->name, host->broken);
}

xfer_engine_stats_t host_stats(Host *host) {
    xfer_engine_stats_t stats;
    assert_status(xfer_engine_stats(host->engine, &stats, sizeof stats), XFER_OK);
    return stats;
}

/* ---- the life of a test ---- */

/* Lines are flushed one by one, so that a test that hangs has been named. */
void test_arguments(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2) cmocka_set_test_filter(argv[1]);
}

static bool is_of_few(const struct CMUnitTest *test) {
    const Mode *mode = test->initial_state;
    if (mode < modes || mode >= modes + kModeCount) return true;
    return mode == &modes[1] || mode == &modes[3] || mode == &modes[6];
}

int run_modes(const struct CMUnitTest *tests, size_t count) {
    const char *wanted = getenv("XFER_TEST_MODES");
    const bool few = wanted != NULL && strcmp(wanted, "few") == 0;
    struct CMUnitTest *chosen = calloc(count, sizeof *chosen);
    if (chosen == NULL) return 1;
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (!few || is_of_few(&tests[i])) chosen[left++] = tests[i];
    const int failed = _cmocka_run_group_tests("tests", chosen, left, NULL, NULL);
    free(chosen);
    return failed;
}

int fixture_setup(void **state) {
    (void)state;
    if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    test_thread = pthread_self();
    return wake_fd < 0 ? -1 : 0;
}

static void free_host(Host *host) {
    for (size_t i = 0; i < host->seen_count; i++)
        free(host->seen[i].data);
    free(host->seen);
    pthread_mutex_destroy(&host->mutex);
    free(host);
}

int fixture_teardown(void **state) {
    (void)state;
    bool lost = false;
    peers_end();
    for (Host *host = hosts; host != NULL; host = host->next) {
        host_end(host);
        lost |= host->lost;
    }
    if (lost) { /* the test has failed; what it leaves behind stays out of the next one's way */
        forget_shells();
        hosts = NULL;
        blocks = NULL;
        return 0;
    }
    close_shells();
    while (hosts != NULL) {
        Host *next = hosts->next;
        free_host(hosts);
        hosts = next;
    }
    bool guarded = true;
    while (blocks != NULL) {
        Block *next = blocks->next;
        guarded &= is_guarded(blocks);
        free(blocks->memory);
        free(blocks);
        blocks = next;
    }
    if (!guarded) fail_msg("memory around that of the test was written to");
    const char *line = take_bad_line();
    if (line != NULL) fail_msg("a line of the log without engine or peer: %s", line);
    return 0;
}
