/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of an engine: every order of close and join, what the handles of its children say
 * afterwards, and who may not wait or poll. */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static void test_open_and_end(void **state) {
    for (int i = 0; i < 20; i++) {
        Host *host = host_open(*state);
        if (i % 2 == 0) host_listen(host, "tcp://127.0.0.1:0");
        host_end(host);
    }
}

/* Join alone closes; in LOOP it needs CLOSED first. */
static void test_join_without_close(void **state) {
    const Mode *mode = *state;
    Host *host = host_open(mode);
    if (mode->dispatch == XFER_DISPATCH_LOOP) {
        assert_status(xfer_engine_join(host->engine, XFER_NONE), XFER_EBUSY);
        return; /* the teardown ends it in the usual order */
    }
    assert_status(xfer_engine_join(host->engine, XFER_NONE), XFER_OK);
    host->joined = true;
    host_end(host);
    if (mode->dispatch == XFER_DISPATCH_THREAD)
        assert_int_equal(count_events(host, XFER_EVENT_CLOSED, ANY_USER), 1);
}

static void test_join_with_everything_open(void **state) {
    const Mode *mode = *state;
    Pair pair;
    pair_open(&pair, mode, 1 << 20);
    uint8_t *local = test_memory(1 << 20);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 1 << 20), XFER_OK);
    for (uint64_t i = 0; i < 16; i++)
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 1 << 20, i, NULL), XFER_OK);
    assert_status(xfer_batch_submit(batch, 100, NULL), XFER_OK);
    host_end(pair.client);
    for (uint64_t i = 0; i < 16; i++)
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, i), 1);
    assert_int_equal(count_events(pair.client, XFER_EVENT_BATCH, 100), 1);
    /* The shells answer, and take their close. */
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 1, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_batch_submit(batch, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_batch_close(batch), XFER_ECLOSED);
    assert_status(xfer_ep_close(pair.ep), XFER_ECLOSED);
    host_end(pair.server);
    assert_status(xfer_region_close(pair.region), XFER_ECLOSED);
}

/* A connection travels to the loop of its peer's identity, and who waits for it travels along: also
 * into a loop that has begun to close. */
static void test_close_amid_moves(void **state) {
    enum { kServers = 4 };
    Host *servers[kServers];
    for (int i = 0; i < kServers; i++) {
        servers[i] = host_open(*state);
        host_listen(servers[i], "tcp://127.0.0.1:0");
    }
    int rounds = quick() ? 20 : 150;
    for (int round = 0; round < rounds; round++) {
        Host *client = host_open(*state);
        for (uint64_t i = 0; i < kServers; i++) {
            xfer_ep_t *ep = open_ep(client, servers[i]->uri);
            assert_status(xfer_ep_lookup(ep, "memory", i, NULL, NULL), XFER_OK);
        }
        usleep((useconds_t)(round * 10 % 700));
        host_end(client);
        assert_int_equal(count_events(client, XFER_EVENT_LOOKUP, ANY_USER), kServers);
        close_shells();
    }
}

/* Children's CLOSED events come before the engine's, each once; the fixture checks that the
 * engine's is last. */
static void test_close_ends_children(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_ep_t *second = open_ep(pair.client, pair.server->uri);
    assert_status(xfer_engine_close(pair.server->engine), XFER_OK);
    assert_status(xfer_engine_close(pair.server->engine), XFER_ECLOSED);
    wait_closed(pair.server, pair.region);
    wait_closed(pair.server, pair.server->engine);
    assert_status(xfer_engine_close(pair.client->engine), XFER_OK);
    wait_closed(pair.client, pair.ep);
    wait_closed(pair.client, second);
    wait_closed(pair.client, pair.client->engine);
    pass_ms(20);
    xfer_event_t event;
    assert_false(take_event(pair.client, XFER_EVENT_CLOSED, ANY_USER, &event));
    /* Between the engine's end and its join, children can be closed as well as after it. */
    assert_status(xfer_ep_close(second), XFER_ECLOSED);
    host_end(pair.client);
    assert_status(xfer_ep_close(pair.ep), XFER_ECLOSED);
    assert_status(xfer_region_close(pair.region), XFER_ECLOSED);
}

static void test_children_first(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_ep_close(pair.ep), XFER_OK); /* before its batch */
    wait_closed(pair.client, pair.ep);
    assert_status(xfer_batch_close(batch), XFER_OK);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    assert_int_equal(host_stats(pair.server).regions, 0);
}

static void test_calls_after_close(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    char bound[64];
    uint8_t local[16] = {0};
    xfer_region_t *region = NULL;
    xfer_ep_t *ep = NULL;
    xfer_batch_t *batch = NULL;
    assert_status(xfer_engine_close(pair.client->engine), XFER_OK);
    xfer_engine_t *engine = pair.client->engine;
    assert_status(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL),
                  XFER_ECLOSED);
    assert_status(xfer_region_open(engine, NULL, local, sizeof local, &region, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_open(engine, pair.server->uri, NULL, &ep, NULL), XFER_ECLOSED);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 16, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, 16, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_connect(pair.ep, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_probe(pair.ep, 1, NULL), XFER_ECLOSED);
    assert_status(xfer_ep_lookup(pair.ep, "memory", 1, NULL, NULL), XFER_ECLOSED);
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_ECLOSED);
    wait_closed(pair.client, engine);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_CONNECT, ANY_USER), 0);
}

/* Nothing can come any more, so nothing is waited for. */
static void test_poll_after_the_end(void **state) {
    Host *host = host_open(*state);
    xfer_event_t event;
    uint32_t count = 1;
    assert_status(xfer_engine_close(host->engine), XFER_OK);
    wait_closed(host, host->engine);
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, XFER_NONE, &count),
                  XFER_OK);
    assert_int_equal(count, 0);
}

/* ---- join where it would wait for itself ---- */

static _Atomic int joined_inside;

static void join_inside(Host *host, const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_CONNECT)
        joined_inside = xfer_engine_join(host->engine, XFER_NONE);
}

static void test_join_on_dispatching_thread(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    joined_inside = 1;
    pair.client->hook = join_inside;
    assert_status(connect_now(pair.client, pair.ep, 5000), XFER_OK);
    uint64_t end = now_ms() + kPatience;
    while (joined_inside == 1 && now_ms() < end)
        turn(5);
    assert_status(joined_inside, XFER_EDEADLK);
    pair.client->hook = NULL;
    assert_status(put_now(pair.client, pair.ep, pair.memory, &pair.ref, 0, 1), XFER_OK);
}

/* ---- join with a limit ---- */

static _Atomic int holding;

static void hold(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_CONNECT) return;
    holding = 2;
    while (holding)
        usleep(1000);
}

/* A callback keeps the engine from its end: a join says so at its limit, and can be called again.
 */
static void test_join_with_a_limit(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    Host *host = pair.client;
    if (host->mode->dispatch == XFER_DISPATCH_LOOP) {
        assert_status(xfer_engine_join(host->engine, 0), XFER_EBUSY);
        return;
    }
    if (host->mode->dispatch == XFER_DISPATCH_THREAD) {
        holding = 1;
        host->hook = hold;
        assert_status(xfer_ep_connect(pair.ep, 7, WITHIN(5000)), XFER_OK);
        wait_atomic(&holding, 2, kPatience);
        assert_status(xfer_engine_join(host->engine, 0), XFER_ETIMEDOUT);
        const uint64_t before = now_ms();
        assert_status(xfer_engine_join(host->engine, 50), XFER_ETIMEDOUT);
        assert_true(now_ms() - before >= 49);
        assert_status(xfer_engine_close(host->engine), XFER_ECLOSED); /* the first join did */
        holding = 0;
    }
    const uint64_t end = now_ms() + kPatience;
    xfer_status_t status = XFER_ETIMEDOUT;
    while (status == XFER_ETIMEDOUT && now_ms() < end)
        status = xfer_engine_join(host->engine, 0);
    assert_status(status, XFER_OK);
    host->joined = true;
    host_end(host);
}

/* ---- everything from inside callbacks ---- */

static _Atomic int closed_inside;

static void close_inside(Host *host, const xfer_event_t *event) {
    Pair *pair = host->hook_data;
    if (event->kind != XFER_EVENT_PUT) return;
    if (xfer_ep_close(pair->ep) != XFER_OK) closed_inside = -1;
    if (xfer_engine_close(host->engine) != XFER_OK) closed_inside = -1;
    if (closed_inside == 0) closed_inside = 1;
}

static void test_close_inside_callback(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(64);
    closed_inside = 0;
    pair.client->hook_data = &pair;
    pair.client->hook = close_inside;
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 64, 1, NULL), XFER_OK);
    wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience);
    wait_closed(pair.client, pair.ep);
    wait_closed(pair.client, pair.client->engine);
    assert_int_equal(closed_inside, 1);
}

/* ---- polling ---- */

typedef struct Poller {
    xfer_engine_t *engine;
    uint32_t timeout_ms;
    uint32_t count;
    xfer_status_t status;
    xfer_event_t event;
    _Atomic int done;
} Poller;

static void *poll_once(void *data) {
    Poller *poller = data;
    do {
        poller->status = xfer_engine_poll(poller->engine, &poller->event, sizeof poller->event, 1,
                                          poller->timeout_ms, &poller->count);
    } while (poller->status == XFER_EBUSY);
    poller->done = 1;
    return NULL;
}

static void test_poll_busy(void **state) {
    Host *host = host_open(*state);
    Poller poller = {.engine = host->engine, .timeout_ms = 1500, .status = XFER_EINTERNAL};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_once, &poller), 0);
    xfer_event_t event;
    uint32_t count;
    xfer_status_t status = XFER_OK;
    while (status == XFER_OK && !poller.done) {
        status = xfer_engine_poll(host->engine, &event, sizeof event, 1, 0, &count);
    }
    assert_false(poller.done);
    pthread_join(thread, NULL);
    assert_status(status, XFER_EBUSY);
    assert_status(poller.status, XFER_OK);
    assert_int_equal(poller.count, 0);
}

static void *poll_until_sent_away(void *data) {
    Poller *poller = data;
    do {
        poller->status = xfer_engine_poll(poller->engine, &poller->event, sizeof poller->event, 1,
                                          poller->timeout_ms, &poller->count);
    } while (poller->status == XFER_OK || poller->status == XFER_EBUSY);
    return NULL;
}

/* A join sends away the thread that polls, whether it has just begun or sleeps already. */
static void test_join_ends_a_poll(void **state) {
    const Mode *mode = *state;
    for (int round = 0; round < 20; round++) {
        xfer_engine_options_t options = {
            .size = sizeof options, .dispatch = mode->dispatch, .io_threads = mode->io_threads};
        Poller poller = {.timeout_ms = XFER_NONE, .status = XFER_EINTERNAL};
        assert_status(xfer_engine_open(&options, &poller.engine, NULL), XFER_OK);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, poll_until_sent_away, &poller), 0);
        xfer_event_t event;
        uint32_t count;
        while (xfer_engine_poll(poller.engine, &event, sizeof event, 1, 0, &count) != XFER_EBUSY) {}
        if (round % 2) pass_ms(2);
        assert_status(xfer_engine_join(poller.engine, XFER_NONE), XFER_OK);
        pthread_join(thread, NULL);
        assert_status(poller.status, XFER_ECLOSED);
    }
}

static void test_poll_waits(void **state) {
    Host *host = host_open(*state);
    xfer_event_t event;
    uint32_t count = 7;
    uint64_t start = now_ms();
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, 0, &count), XFER_OK);
    assert_int_equal(count, 0);
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, 200, &count), XFER_OK);
    assert_int_equal(count, 0);
    assert_true(now_ms() - start >= 199);
    assert_status(xfer_engine_poll(host->engine, NULL, sizeof event, 1, 0, &count), XFER_EINVAL);
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, 0, NULL), XFER_EINVAL);
}

/* A poll without limit is woken by what another thread does. */
static void test_poll_wakes(void **state) {
    Host *host = host_open(*state);
    Poller poller = {.engine = host->engine, .timeout_ms = XFER_NONE};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_once, &poller), 0);
    usleep(50000);
    assert_false(poller.done);
    uint8_t memory[8];
    xfer_region_t *region = NULL;
    assert_status(xfer_region_open(host->engine, NULL, memory, sizeof memory, &region, NULL),
                  XFER_OK);
    assert_status(xfer_region_close(region), XFER_OK);
    uint64_t end = now_ms() + kPatience;
    while (!poller.done && now_ms() < end)
        usleep(1000);
    assert_true(poller.done);
    pthread_join(thread, NULL);
    assert_int_equal(poller.count, 1);
    assert_int_equal(poller.event.kind, XFER_EVENT_CLOSED);
    host->last_sequence = poller.event.sequence; /* this one went past the fixture */
}

/* A poll without limit returns when it is told to; told before, the next one does; and so does the
 * descriptor. */
static void test_poll_is_woken(void **state) {
    const Mode *mode = *state;
    Host *host = host_open(mode);
    for (int round = 0; round < 20; round++) {
        Poller poller = {.engine = host->engine, .timeout_ms = XFER_NONE};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, poll_once, &poller), 0);
        if (round % 2) usleep(5000); /* it sleeps; or has perhaps not begun */
        assert_false(poller.done);
        assert_status(xfer_engine_wake(host->engine), XFER_OK);
        pthread_join(thread, NULL);
        assert_status(poller.status, XFER_OK);
        assert_int_equal(poller.count, 0);
    }
    xfer_event_t event;
    uint32_t count = 1;
    int32_t fd = -1;
    assert_status(xfer_engine_fd(host->engine, &fd), XFER_OK);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    for (int round = 0; round < 20; round++) {
        assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, 0, &count), XFER_OK);
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_status(xfer_engine_wake(host->engine), XFER_OK);
        assert_int_equal(poll(&readable, 1, 0), 1);
        assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, XFER_NONE, &count),
                      XFER_OK);
        assert_int_equal(count, 0);
    }
}

static void test_wake_elsewhere(void **state) {
    Host *host = host_open(*state);
    assert_status(xfer_engine_wake(host->engine), XFER_EUNSUPPORTED);
}

/* The event size is a stride: elements may be larger than the library's. */
static void test_poll_stride(void **state) {
    Host *host = host_open(*state);
    struct {
        xfer_event_t event;
        uint64_t more;
    } events[3];
    memset(events, 0xee, sizeof events);
    uint8_t memory[8];
    xfer_region_t *regions[2];
    for (int i = 0; i < 2; i++) {
        assert_status(
            xfer_region_open(host->engine, NULL, memory, sizeof memory, &regions[i], NULL),
            XFER_OK);
        assert_status(xfer_region_close(regions[i]), XFER_OK);
    }
    uint32_t got = 0;
    uint64_t end = now_ms() + kPatience;
    while (got < 2 && now_ms() < end) {
        uint32_t count = 0;
        assert_status(xfer_engine_poll(host->engine, &events[got].event, sizeof events[0], 2 - got,
                                       100, &count),
                      XFER_OK);
        got += count;
    }
    assert_int_equal(got, 2);
    assert_ptr_equal(events[0].event.object, regions[0]);
    assert_ptr_equal(events[1].event.object, regions[1]);
    assert_int_equal(events[1].event.sequence, events[0].event.sequence + 1);
    host->last_sequence = events[1].event.sequence;
}

/* The descriptor alone tells when to poll: no poll happens here unless it is readable. */
static void test_descriptor(void **state) {
    const Mode *mode = *state;
    Pair pair;
    pair_open(&pair, mode, 4096);
    uint8_t *local = test_memory(4096);
    xfer_event_t event;
    uint32_t count;
    for (int i = 0; i < 20; i++) {
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 4096, 1, NULL), XFER_OK);
        uint64_t end = now_ms() + kPatience;
        for (bool done = false; !done;) {
            struct pollfd fds[2] = {{.fd = pair.server->fd, .events = POLLIN},
                                    {.fd = pair.client->fd, .events = POLLIN}};
            assert_true(now_ms() < end);
            assert_true(poll(fds, 2, kPatience) > 0);
            if (fds[0].revents != 0) {
                assert_status(
                    xfer_engine_poll(pair.server->engine, &event, sizeof event, 1, 0, &count),
                    XFER_OK);
                if (count != 0) pair.server->last_sequence = event.sequence;
            }
            if (fds[1].revents != 0) {
                assert_status(
                    xfer_engine_poll(pair.client->engine, &event, sizeof event, 1, 0, &count),
                    XFER_OK);
                if (count != 0) pair.client->last_sequence = event.sequence;
                done = count != 0 && event.kind == XFER_EVENT_PUT;
            }
        }
        assert_status(event.status, XFER_OK);
    }
    /* Nothing is under way: after an empty poll the descriptors rest. */
    pass_ms(100);
    struct pollfd fds[2] = {{.fd = pair.server->fd, .events = POLLIN},
                            {.fd = pair.client->fd, .events = POLLIN}};
    assert_int_equal(poll(fds, 2, 100), 0);
}

static void test_poll_elsewhere(void **state) {
    Host *host = host_open(*state);
    xfer_event_t event;
    uint32_t count;
    int32_t fd;
    assert_status(xfer_engine_poll(host->engine, &event, sizeof event, 1, 0, &count),
                  XFER_EUNSUPPORTED);
    assert_status(xfer_engine_fd(host->engine, &fd), XFER_EUNSUPPORTED);
}

/* ---- fork ---- */

/* Runs in the child: a number for the first thing that is not as it should be. */
static int after_fork(Pair *pair) {
    xfer_id_t id;
    xfer_ref_t ref;
    uint32_t state;
    uint8_t byte = 0;
    char bound[64];
    xfer_engine_t *engine = pair->client->engine;
    if (xfer_engine_id(engine, &id) != XFER_EFORKED) return 1;
    if (xfer_put(pair->ep, &byte, &pair->ref, 0, 1, 1, NULL) != XFER_EFORKED) return 2;
    if (xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL) !=
        XFER_EFORKED)
        return 3;
    if (xfer_ep_state(pair->ep, &state) != XFER_EFORKED) return 4;
    if (xfer_region_ref(pair->region, &ref) != XFER_EFORKED) return 5;
    if (xfer_ep_connect(pair->ep, 1, NULL) != XFER_EFORKED) return 6;
    if (strcmp(xfer_version_string(), "") == 0) return 7;
    xfer_status_t status =
        xfer_region_close(pair->region); /* only releases: OK or FORKED, but it returns */
    if (status != XFER_OK && status != XFER_EFORKED) return 8;
    status = xfer_ep_close(pair->ep);
    if (status != XFER_OK && status != XFER_EFORKED) return 9;
    status = xfer_engine_close(engine);
    if (status != XFER_OK && status != XFER_EFORKED) return 10;
    status = xfer_engine_join(engine, XFER_NONE);
    if (status != XFER_OK && status != XFER_EFORKED) return 11;
    return 0;
}

static void test_fork(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(after_fork(&pair));
    int status = 0;
    uint64_t end = now_ms() + kPatience;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() > end) fail_msg("the child hangs");
        turn(5);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* What the child released was its own copy. */
    uint8_t *local = test_memory(4096);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_OK);
}

#define EACH_POLL(test) \
    MODE_TEST(test, 6, "poll/none"), MODE_TEST(test, 7, "poll/1"), MODE_TEST(test, 8, "poll/2")

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_open_and_end),
    EACH_MODE(test_join_without_close),
    EACH_MODE(test_join_with_everything_open),
    EACH_MODE(test_close_amid_moves),
    EACH_MODE(test_close_ends_children),
    EACH_MODE(test_children_first),
    EACH_MODE(test_calls_after_close),
    MODE_TEST(test_join_on_dispatching_thread, 0, "thread/none"),
    MODE_TEST(test_join_on_dispatching_thread, 1, "thread/1"),
    MODE_TEST(test_join_on_dispatching_thread, 3, "loop/none"),
    MODE_TEST(test_join_on_dispatching_thread, 4, "loop/1"),
    EACH_MODE(test_join_with_a_limit),
    EACH_MODE(test_close_inside_callback),
    EACH_POLL(test_poll_busy),
    EACH_POLL(test_join_ends_a_poll),
    EACH_POLL(test_poll_waits),
    EACH_POLL(test_poll_wakes),
    EACH_POLL(test_poll_is_woken),
    EACH_POLL(test_poll_stride),
    EACH_POLL(test_poll_after_the_end),
    EACH_POLL(test_descriptor),
    MODE_TEST(test_poll_elsewhere, 1, "thread/1"),
    MODE_TEST(test_poll_elsewhere, 3, "loop/none"),
    MODE_TEST(test_wake_elsewhere, 1, "thread/1"),
    MODE_TEST(test_wake_elsewhere, 3, "loop/none"),
    EACH_MODE(test_fork),
};

TEST_MAIN(tests)
