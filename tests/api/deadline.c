/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation ends: at its deadline and not before, at the stall limit, and with buffers that
 * are quiet. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

enum { kDeadline = 700, kAfter = 1 << 20 };

/* Some clocks tick in whole milliseconds. */
static void assert_not_before(uint64_t start, uint64_t limit) {
    uint64_t passed = now_ms() - start;
    if (passed + 1 < limit)
        fail_msg("ended after %llu ms, before %llu", (unsigned long long)passed,
                 (unsigned long long)limit);
    if (passed > limit + 15000) fail_msg("ended only after %llu ms", (unsigned long long)passed);
}

/* ---- a peer that takes the connection and never says a word ---- */

static void test_black_hole(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    char uri[64];
    int hole = black_hole(uri, sizeof uri);
    uint8_t *local = test_memory(4096);
    xfer_ep_t *ep = open_ep(pair.client, uri);
    xfer_op_options_t options = {.size = sizeof options, .timeout_ms = kDeadline};
    xfer_op_options_t lookup = {.size = sizeof lookup, .timeout_ms = kDeadline};
    xfer_submit_options_t submit = {.size = sizeof submit, .timeout_ms = kDeadline};
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_get(batch, local, &pair.ref, 0, 4096), XFER_OK);
    uint64_t start = now_ms();
    assert_status(xfer_ep_connect(ep, 1, WITHIN(kDeadline)), XFER_OK);
    assert_status(xfer_ep_lookup(ep, "memory", 2, &lookup, NULL), XFER_OK);
    assert_status(xfer_ep_probe(ep, 3, WITHIN(kDeadline)), XFER_OK);
    assert_status(xfer_put(ep, local, &pair.ref, 0, 4096, 4, &options), XFER_OK);
    assert_status(xfer_get(ep, local, &pair.ref, 0, 4096, 5, &options), XFER_OK);
    assert_status(xfer_batch_submit(batch, 6, &submit), XFER_OK);
    const uint32_t types[] = {XFER_EVENT_CONNECT, XFER_EVENT_LOOKUP, XFER_EVENT_PROBE,
                              XFER_EVENT_PUT,     XFER_EVENT_GET,    XFER_EVENT_BATCH};
    for (uint64_t i = 0; i < 6; i++) {
        xfer_event_t event = wait_event(pair.client, types[i], i + 1, kPatience);
        assert_status(event.status, XFER_ETIMEDOUT);
        assert_not_before(start, kDeadline);
    }
    xfer_status_t status;
    assert_status(xfer_batch_entries(batch, 0, 1, &status), XFER_OK);
    assert_true(status == XFER_ECANCELED || status == XFER_ETIMEDOUT);
    xfer_engine_stats_t stats = host_stats(pair.client);
    assert_int_equal(stats.put.expired, 1);
    assert_int_equal(stats.put.failed, 0); /* expiry is counted apart */
    assert_int_equal(stats.batch.expired, 1);
    close(hole);
}

static void test_default_deadline(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_engine_options_t options = host_options(*state);
    options.timeout_ms = kDeadline;
    Host *client = host_open_with(*state, &options);
    char uri[64];
    int hole = black_hole(uri, sizeof uri);
    uint8_t *local = test_memory(64);
    xfer_ep_t *ep = open_ep(client, uri);
    uint64_t start = now_ms();
    assert_status(put_now(client, ep, local, &pair.ref, 0, 64), XFER_ETIMEDOUT);
    assert_not_before(start, kDeadline);
    /* One that asks for more gets more. */
    xfer_op_options_t longer = {.size = sizeof longer, .timeout_ms = 2 * kDeadline};
    start = now_ms();
    assert_status(xfer_put(ep, local, &pair.ref, 0, 64, 1, &longer), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_PUT, 1, kPatience).status, XFER_ETIMEDOUT);
    assert_not_before(start, 2 * kDeadline);
    close(hole);
}

/* An attempt to connect has a limit of its own; an operation with none ends by the stall limit. */
static void test_stall_without_connection(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_engine_options_t options = host_options(*state);
    options.stall_ms = kDeadline;
    options.connect_ms = 200;
    Host *client = host_open_with(*state, &options);
    char uri[64];
    int hole = black_hole(uri, sizeof uri);
    uint8_t *local = test_memory(64);
    uint64_t start = now_ms();
    xfer_status_t status = put_now(client, open_ep(client, uri), local, &pair.ref, 0, 64);
    assert_true(status == XFER_ETIMEDOUT || status == XFER_EUNREACHABLE);
    if (status == XFER_ETIMEDOUT) assert_not_before(start, kDeadline);
    assert_true(now_ms() - start < 15000);
    close(hole);
}

/* ---- a peer that stops ---- */

typedef struct Stopped {
    Host *client;
    Peer peer;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint8_t *local; /* of a mapping of its own */
    uint64_t length;
} Stopped;

static void open_stopped(Stopped *stopped, const Mode *mode, const xfer_engine_options_t *options) {
    *stopped = (Stopped){.length = 48 << 20};
    peer_start(&stopped->peer, "tcp://127.0.0.1:0", stopped->length + kAfter, 0);
    stopped->client = host_open_with(mode, options);
    stopped->ep = open_ep(stopped->client, stopped->peer.uri);
    stopped->ref = look_up(stopped->client, stopped->ep, "memory");
    stopped->local =
        mmap(NULL, stopped->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stopped->local != MAP_FAILED);
    fill(stopped->local, stopped->length, 1);
}

static void close_stopped(Stopped *stopped) {
    if (stopped->local != NULL) munmap(stopped->local, stopped->length);
    stopped->local = NULL;
    host_end(stopped->client);
    assert_int_equal(peer_wait(&stopped->peer), 0);
}

/* Beside what was given up: parts of that may still land (XFER_MAYBE_APPLIED). */
static void assert_works_again(Stopped *stopped) {
    uint8_t *back = test_memory(kAfter);
    uint8_t *local = test_memory(kAfter);
    fill(local, kAfter, 77);
    peer_signal(&stopped->peer, SIGCONT);
    assert_status(
        put_now(stopped->client, stopped->ep, local, &stopped->ref, stopped->length, kAfter),
        XFER_OK);
    assert_status(
        get_now(stopped->client, stopped->ep, back, &stopped->ref, stopped->length, kAfter),
        XFER_OK);
    assert_true(filled(back, kAfter, 77, 0));
}

static void test_put_to_stopped_peer(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    Stopped stopped;
    open_stopped(&stopped, mode, &options);
    xfer_op_options_t deadline = {.size = sizeof deadline, .timeout_ms = kDeadline};
    uint64_t start = now_ms();
    assert_status(
        xfer_put(stopped.ep, stopped.local, &stopped.ref, 0, stopped.length, 1, &deadline),
        XFER_OK);
    turn(1); /* under way */
    peer_signal(&stopped.peer, SIGSTOP);
    xfer_event_t event = wait_event(stopped.client, XFER_EVENT_PUT, 1, kPatience);
    /* The buffer is the user's again at once: nothing may touch it, the kernel neither. */
    assert_int_equal(munmap(stopped.local, stopped.length), 0);
    stopped.local = NULL;
    assert_completion(&event);
    if (event.status != XFER_OK) { /* the machine may have been faster than the signal */
        assert_status(event.status, XFER_ETIMEDOUT);
        assert_not_before(start, kDeadline);
        assert_true((event.flags & XFER_MAYBE_APPLIED) != 0); /* the owner could not be asked */
        assert_true(event.bytes < stopped.length);
    }
    assert_works_again(&stopped);
    close_stopped(&stopped);
}

static void test_get_from_stopped_peer(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    Stopped stopped;
    open_stopped(&stopped, mode, &options);
    xfer_op_options_t deadline = {.size = sizeof deadline, .timeout_ms = kDeadline};
    peer_signal(&stopped.peer, SIGSTOP);
    uint64_t start = now_ms();
    assert_status(
        xfer_get(stopped.ep, stopped.local, &stopped.ref, 0, stopped.length, 1, &deadline),
        XFER_OK);
    xfer_event_t event = wait_event(stopped.client, XFER_EVENT_GET, 1, kPatience);
    assert_completion(&event);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_not_before(start, kDeadline);
    /* The answer that comes late does not land. */
    peer_signal(&stopped.peer, SIGCONT);
    pass_ms(300);
    assert_true(filled(stopped.local, stopped.length, 1, 0));
    assert_works_again(&stopped);
    close_stopped(&stopped);
}

static void test_stall_limit(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.stall_ms = kDeadline;
    Stopped stopped;
    open_stopped(&stopped, mode, &options);
    peer_signal(&stopped.peer, SIGSTOP);
    uint64_t start = now_ms();
    assert_status(xfer_put(stopped.ep, stopped.local, &stopped.ref, 0, stopped.length, 1, NULL),
                  XFER_OK);
    xfer_event_t event = wait_event(stopped.client, XFER_EVENT_PUT, 1, kPatience);
    assert_completion(&event);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_not_before(start, kDeadline);
    assert_works_again(&stopped);
    close_stopped(&stopped);
}

/* Pages of the peer's memory that something was written to. */
static uint64_t written_bytes(int fd) {
    struct stat file;
    assert_int_equal(fstat(fd, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

/* What moves, however slowly, is not ended by the stall limit. */
static void test_slow_is_not_stalled(void **state) {
    enum { kStall = 3000, kStop = 400 };
    const Mode *mode = *state;
    const uint64_t length = 768 << 20, some = 16 << 20; /* more than sockets hold */
    xfer_engine_options_t options = host_options(mode);
    options.stall_ms = kStall;
    Peer peer;
    const int fd = memfd_create("memory", 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    peer_start_shared(&peer, "tcp://127.0.0.1:0", length, 0, fd);
    Host *client = host_open_with(mode, &options);
    xfer_ep_t *ep = open_ep(client, peer.uri);
    xfer_ref_t ref = look_up(client, ep, "memory");
    void *zeros = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    assert_status(xfer_put(ep, zeros, &ref, 0, length, 1, NULL), XFER_OK);
    for (int stops = 0; stops <= kStall / kStop + 1; stops++) {
        peer_signal(&peer, SIGSTOP);
        pass_ms(kStop);
        const uint64_t before = written_bytes(fd), end = now_ms() + kPatience;
        peer_signal(&peer, SIGCONT);
        while (written_bytes(fd) < before + some && !count_events(client, XFER_EVENT_PUT, 1)) {
            assert_true(now_ms() < end);
            turn(1);
        }
    }
    assert_status(wait_event(client, XFER_EVENT_PUT, 1, 3 * kPatience).status, XFER_OK);
    host_end(client);
    munmap(zeros, length);
    assert_int_equal(peer_wait(&peer), 0);
    close(fd);
}

/* Silence is the end of a connection before two heartbeats are over, deadline or not. */
static void test_heartbeat(void **state) {
    enum { kBeat = 1500 };
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = kBeat;
    Stopped stopped;
    open_stopped(&stopped, mode, &options);
    wait_event(stopped.client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    pass_ms(2 * kBeat + 500); /* a silent connection lives as long as its peer does */
    assert_int_equal(host_stats(stopped.client).connection_ends, 0);
    peer_signal(&stopped.peer, SIGSTOP);
    assert_status(xfer_put(stopped.ep, stopped.local, &stopped.ref, 0, stopped.length, 1, NULL),
                  XFER_OK);
    xfer_event_t down = wait_event(stopped.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_int_equal(down.origin, XFER_ORIGIN_OS); /* silence, neither a goodbye nor a reset */
    assert_int_equal(down.native_code, ETIMEDOUT);
    xfer_event_t event = wait_event(stopped.client, XFER_EVENT_PUT, 1, kPatience);
    assert_status(event.status, XFER_EPEERLOST);
    assert_int_equal(event.origin, XFER_ORIGIN_OS);
    assert_int_equal(event.native_code, ETIMEDOUT);
    assert_completion(&event);
    assert_true((event.flags & XFER_MAYBE_APPLIED) != 0);
    assert_works_again(&stopped);
    xfer_event_t up = wait_event(stopped.client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RECONNECTED);
    close_stopped(&stopped);
}

/* A listener whose queue is full leaves further SYNs without an answer. */
typedef struct {
    int listener, fill[4];
    uint16_t port;
} Full;

static Full open_full(void) {
    Full full = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    assert_int_equal(bind(full.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(full.listener, 0), 0);
    assert_int_equal(getsockname(full.listener, (struct sockaddr *)&address, &size), 0);
    full.port = ntohs(address.sin_port);
    for (int i = 0; i < 4; i++) {
        full.fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(full.fill[i], (struct sockaddr *)&address, size);
    }
    pass_ms(100);
    return full;
}

static void close_full(Full *full) {
    for (int i = 0; i < 4; i++)
        close(full->fill[i]);
    close(full->listener);
}

static void test_no_answer_to_syn(void **state) {
    Full full = open_full();
    xfer_engine_options_t options = host_options(*state);
    options.connect_ms = 400;
    Host *host = host_open_with(*state, &options);
    char uri[64];
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", full.port);
    xfer_ep_t *ep = open_ep(host, uri);
    assert_status(xfer_ep_connect(ep, 1, WITHIN(10000)), XFER_OK);
    xfer_event_t event = wait_event(host, XFER_EVENT_CONNECT, 1, kPatience);
    assert_status(event.status, XFER_EUNREACHABLE);
    assert_int_equal(event.origin, XFER_ORIGIN_OS);
    assert_int_equal(event.native_code, ETIMEDOUT);
    char text[8192];
    uint64_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    assert_non_null(strstr(text, "no answer to the connection attempt (SYN)"));
    close_full(&full);
}

/* "localhost" is 127.0.0.1, and then ::1. */
static void test_no_answer_at_one_address(void **state) {
    Host *client = host_open(*state), *server = host_open(*state);
    Full full = open_full();
    char uri[64];
    snprintf(uri, sizeof uri, "tcp://[::1]:%u", full.port);
    if (xfer_engine_listen(server->engine, uri, NULL, NULL, 0, NULL) != XFER_OK) {
        close_full(&full);
        print_message("skip: this host has no ::1, or the port is another's there\n");
        skip();
    }
    snprintf(uri, sizeof uri, "tcp://localhost:%u", full.port);
    const uint64_t start = now_ms();
    assert_status(xfer_ep_connect(open_ep(client, uri), 1, WITHIN(10000)), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_CONNECT, 1, kPatience).status, XFER_OK);
    assert_in_range(now_ms() - start, 200, 3000); /* connect_ms is 5,000 */
    assert_int_equal(host_stats(client).connections, 1);
    close_full(&full);
}

/* Who did not look for long has no reason to call the other one silent. */
static void test_not_driven_for_long(void **state) {
    enum { kBeat = 600 }; /* the peer's thread gets its turn within it */
    const Mode *mode = *state;
    xfer_engine_options_t server = host_options(THREAD_MODE), client = host_options(mode);
    client.heartbeat_ms = kBeat;
    client.io_threads = XFER_NONE;
    Pair pair = {.memory = test_memory(64)};
    pair.server = host_open_with(THREAD_MODE, &server);
    pair.client = host_open_with(mode, &client);
    host_listen(pair.server, "tcp://127.0.0.1:0");
    open_region(pair.server, "memory", XFER_WRITE, pair.memory, 64);
    pair.ep = open_ep(pair.client, pair.server->uri);
    pair.ref = look_up(pair.client, pair.ep, "memory");
    for (int i = 0; i < 4; i++) {
        usleep(3 * kBeat * 1000);
        turn(0); /* time to ask, but not for the answer */
        assert_int_equal(host_stats(pair.client).connection_ends, 0);
    }
    assert_status(put_now(pair.client, pair.ep, pair.memory, &pair.ref, 0, 0), XFER_OK);
}

/* ---- a turn that takes long ---- */

static _Atomic int in_callback;

static void dawdle(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_LOOKUP || in_callback) return;
    in_callback = 1;
    usleep(400 * 1000);
}

/* A deadline counts from the submit, also if the loop has been in one turn since long before. */
static void test_submitted_in_a_long_turn(void **state) {
    Host *host = host_open(*state);
    in_callback = 0;
    host->hook = dawdle;
    host_listen(host, "tcp://127.0.0.1:0");
    open_region(host, "memory", XFER_WRITE, test_memory(64), 64);
    xfer_ep_t *ep = open_ep(host, host->uri);
    assert_status(xfer_ep_lookup(ep, "memory", 1, NULL, NULL), XFER_OK);
    wait_atomic(&in_callback, 1, kPatience);
    usleep(300 * 1000);
    static uint64_t word;
    const uint64_t start = now_ms();
    assert_status(xfer_recv(host->engine, NULL, &word, sizeof word, 1, UINT64_MAX, 2, WITHIN(350)),
                  XFER_OK);
    const xfer_event_t event = wait_event(host, XFER_EVENT_RECV, 2, kPatience);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_not_before(start, 350);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_black_hole),
    EACH_DISPATCH(test_default_deadline),
    EACH_DISPATCH(test_stall_without_connection),
    EACH_MODE(test_put_to_stopped_peer),
    EACH_MODE(test_get_from_stopped_peer),
    EACH_DISPATCH(test_stall_limit),
    EACH_DISPATCH(test_slow_is_not_stalled),
    EACH_DISPATCH(test_heartbeat),
    ONE_MODE(test_no_answer_to_syn),
    EACH_DISPATCH(test_no_answer_at_one_address),
    MODE_TEST(test_not_driven_for_long, 3, "loop/none"),
    MODE_TEST(test_not_driven_for_long, 6, "poll/none"),
    MODE_TEST(test_submitted_in_a_long_turn, 0, "thread/none"),
};

TEST_MAIN(tests)
