/* SPDX-License-Identifier: Apache-2.0
 *
 * What xfer_engine_describe says, read as JSON after real transfers over each path; and what an
 * engine says of callbacks that block. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cage.h"
#include "fixture.h"

enum { kLength = 1 << 20 };

/* ---- reading it ---- */

/* Released by the caller. */
static json_t *describe(Host *host) {
    uint64_t needed = 0;
    xfer_engine_describe(host->engine, NULL, 0, &needed);
    const size_t room = needed + 65536; /* it may grow between the calls */
    char *text = test_memory(room);
    assert_status(xfer_engine_describe(host->engine, text, room, &needed), XFER_OK);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) fail_msg("line %d: %s\n%s", error.line, error.text, text);
    return root;
}

static json_t *get(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (value == NULL) fail_msg("no \"%s\"", key);
    return value;
}

static uint64_t number(json_t *object, const char *key) {
    json_t *value = get(object, key);
    assert_true(json_is_number(value));
    return (uint64_t)json_number_value(value);
}

static const char *text(json_t *object, const char *key) {
    const char *value = json_string_value(get(object, key));
    if (value == NULL) fail_msg("\"%s\" is no text", key);
    return value;
}

/* The one live connection of the engine, and its peer. */
static json_t *live(json_t *root, json_t **of) {
    size_t l;
    size_t p;
    size_t c;
    json_t *loop;
    json_t *peer;
    json_t *connection;
    json_array_foreach(get(root, "loops"), l, loop) {
        json_array_foreach(get(loop, "peers"), p, peer) {
            json_array_foreach(get(peer, "connections"), c, connection) {
                if (!json_is_true(get(connection, "live"))) continue;
                if (of != NULL) *of = peer;
                return connection;
            }
        }
    }
    fail_msg("no live connection");
    return NULL;
}

/* Bytes of puts and gets that moved that way, over all lanes; NULL: whichever. */
static uint64_t carried(json_t *connection, const char *way) {
    uint64_t bytes = 0;
    size_t i;
    json_t *lane;
    json_array_foreach(get(connection, "lanes"), i, lane) {
        json_t *of =
            way == NULL ? get(lane, "carried") : json_object_get(get(lane, "carried_by"), way);
        if (of == NULL) continue;
        assert_true(number(of, "requests") > 0 || way == NULL);
        bytes += number(of, "bytes");
    }
    return bytes;
}

static uint64_t served(json_t *connection) {
    uint64_t bytes = 0;
    size_t i;
    json_t *lane;
    json_array_foreach(get(connection, "lanes"), i, lane) {
        bytes += number(get(lane, "served"), "bytes");
    }
    return bytes;
}

static uint64_t carried_now(Host *host, const char *way) {
    json_t *root = describe(host);
    const uint64_t bytes = carried(live(root, NULL), way);
    json_decref(root);
    return bytes;
}

/* ---- over sockets ---- */

static void assert_engine(json_t *root) {
    assert_int_equal(number(root, "schema"), 1);
    assert_int_equal(number(root, "pid"), getpid());
    assert_string_equal(text(root, "version"), xfer_version_string());
    number(root, "uptime_ms");
    json_t *counters = get(root, "counters");
    assert_int_equal(number(counters, "connections"), 1);
    assert_int_equal(number(counters, "refused"), 0);
    number(counters, "wakeups");
    number(counters, "events_queued");
    assert_null(json_object_get(root, "last_error"));
}

static void test_over_sockets(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.transports = "tcp,loopback";
    Pair pair;
    pair_open_with(&pair, &options, &options, *state, kLength);
    uint8_t *local = test_memory(kLength);
    for (int i = 0; i < 8; i++)
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, 100), XFER_OK);

    json_t *root = describe(pair.client);
    assert_engine(root);
    json_t *connection = live(root, NULL);
    assert_string_equal(text(connection, "initiator"), "us");
    assert_string_equal(text(connection, "control"), "first");
    assert_string_equal(text(connection, "small"), "first");
    assert_string_equal(text(connection, "bulk"), "data 1");
    assert_int_equal(carried(connection, NULL), 8 * kLength + 100);
    assert_int_equal(carried(connection, "socket"), 8 * kLength + 100);
    assert_string_equal(text(get(connection, "local_path"), "state"), "none");
    assert_non_null(strstr(text(get(connection, "local_path"), "why_not"), "XFER_TRANSPORTS"));
    json_decref(root);

    const uint64_t end = now_ms() + kPatience;
    uint64_t bytes = 0;
    while (bytes != 8 * kLength + 100) {
        assert_true(now_ms() < end);
        turn(1);
        root = describe(pair.server);
        assert_engine(root);
        bytes = served(live(root, NULL));
        assert_int_equal(carried(live(root, NULL), NULL), 0);
        json_decref(root);
    }
}

/* ---- between two engines of one host ---- */

static void ignore(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

/* Serves memory that its engine made. */
static int serve_made(const char *argument) {
    (void)argument;
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore};
    xfer_region_options_t named = {
        .size = sizeof named, .access = XFER_READ | XFER_WRITE, .name = "memory"};
    xfer_engine_t *engine;
    xfer_region_t *region;
    void *memory;
    char bound[256];
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_region_alloc(engine, &named, kLength, &memory, &region, NULL) != XFER_OK ||
        xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    char ignored;
    while (read(STDIN_FILENO, &ignored, 1) > 0) {}
    xfer_region_close(region);
    return xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 4;
}

/* Until so much went that way; all that moves meanwhile must be told. */
static void assert_goes(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref, const char *way) {
    uint8_t *local = test_memory(kLength);
    const uint64_t end = now_ms() + kPatience;
    uint64_t rounds = 0;
    do {
        assert_true(now_ms() < end);
        assert_status(put_now(host, ep, local, ref, 0, kLength), XFER_OK);
        rounds++;
        pass_ms(1);
    } while (carried_now(host, way) < 2 * kLength);

    json_t *root = describe(host);
    json_t *connection = live(root, NULL);
    assert_int_equal(carried(connection, NULL), rounds * kLength);
    assert_string_equal(text(connection, "control"), "local");
    assert_string_equal(text(connection, "small"), "local");
    assert_string_equal(text(connection, "bulk"), "local");
    assert_string_equal(text(get(connection, "local_path"), "state"), "open");
    assert_string_equal(text(get(connection, "local_path"), "why_not"), "");
    size_t i;
    json_t *lane;
    json_array_foreach(get(connection, "lanes"), i, lane) {
        if (strcmp(text(lane, "lane"), "local") == 0) assert_string_equal(text(lane, "path"), way);
    }
    json_decref(root);
}

static void test_shared_memory(void **state) {
    for (int made = 0; made < 2; made++) {
        Peer peer;
        if (made) {
            peer_start_role(&peer, "made", "-");
            peer_read_line(&peer, peer.uri, sizeof peer.uri);
        } else {
            peer_start(&peer, "tcp://127.0.0.1:0", kLength, 0);
        }
        Host *host = host_open(*state);
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        assert_goes(host, ep, &ref, made ? "mapped" : "kernel");
        host_end(host);
        peer_kill(&peer);
    }
}

static void test_within_a_process(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    assert_goes(pair.client, pair.ep, &pair.ref, "process");
}

/* ---- names, regions, errors ---- */

static void test_regions_and_grants(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(4096);
    xfer_region_t *region =
        open_region(host, "kv \"0\"\t\xc3\xa9", XFER_READ | XFER_WRITE, memory, 4096);
    xfer_grant_options_t options = {.size = sizeof options,
                                    .access = XFER_READ,
                                    .offset = 1024,
                                    .length = 512,
                                    .lease_ms = 60000};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(region, &options, &ref, NULL), XFER_OK);
    json_t *root = describe(host);
    assert_int_equal(json_array_size(get(root, "regions")), 1);
    assert_int_equal(json_array_size(get(root, "grants")), 1);
    json_t *whole = json_array_get(get(root, "regions"), 0);
    json_t *part = json_array_get(get(root, "grants"), 0);
    assert_string_equal(text(whole, "name"), "kv \"0\"\t\xc3\xa9");
    assert_string_equal(text(whole, "kind"), "host");
    assert_int_equal(number(whole, "length"), 4096);
    assert_int_equal(json_array_size(get(whole, "access")), 2);
    assert_int_equal(number(part, "region"), number(whole, "id"));
    assert_int_equal(number(part, "length"), 512);
    assert_int_equal(number(part, "lease_ms"), 60000);
    assert_int_equal(json_array_size(get(part, "access")), 1);
    assert_string_equal(json_string_value(json_array_get(get(part, "access"), 0)), "read");
    json_decref(root);
}

static void test_last_error(void **state) {
    Host *host = host_open(*state);
    const char *uri = own_address(); /* nobody listens there */
    xfer_ep_t *ep = open_ep(host, uri);
    assert_status(connect_now(host, ep, 0), XFER_EUNREACHABLE);
    json_t *root = describe(host);
    json_t *peer = NULL;
    for (size_t l = 0; peer == NULL; l++)
        peer = json_array_get(get(json_array_get(get(root, "loops"), l), "peers"), 0);
    json_t *const errors[] = {get(root, "last_error"), get(peer, "last_error")};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(text(errors[i], "status"), "XFER_EUNREACHABLE");
        assert_string_equal(text(errors[i], "origin"), "os");
        assert_int_equal(number(errors[i], "native"), 111);
        assert_string_equal(text(errors[i], "where"), uri);
        assert_true(strlen(text(errors[i], "message")) > 0);
        assert_true(number(errors[i], "ms_ago") < kPatience);
    }
    assert_true(number(peer, "failed_attempts") > 0);
    json_decref(root);
}

/* No key, a key that the other has not, and another key are told apart, by each side in its own
 * words: by who dials in the last error, by who is dialed in the log. */
static const char *_Atomic expected; /* in the log */
static _Atomic int logged;

static void on_refusal(uint32_t level, const char *line, uint64_t user) {
    (void)level, (void)user;
    if (strstr(line, "was refused") != NULL && strstr(line, expected) != NULL) logged = 1;
}

static void test_keys(void **state) {
    static const uint8_t one[32] = "an open secret of thirty-two b.";
    static const uint8_t other[32] = "an open secret of thirty-two c.";
    static const char here[] = "this engine has a key, and the peer has none";
    static const char there[] = "the peer has a key, and this engine has none";
    const struct {
        const uint8_t *own, *theirs;
        const char *told, *logged; /* who dials hears the other's proof first, and just hangs up */
    } cases[] = {
        {one, NULL, here, there}, {NULL, one, there, here}, {one, other, "another key", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        xfer_engine_options_t options = host_options(*state);
        options.key = cases[i].theirs;
        options.key_length = cases[i].theirs == NULL ? 0 : 32;
        options.on_log = on_refusal;
        options.log_level = XFER_LOG_INFO;
        Host *server = host_open_with(*state, &options);
        host_listen(server, "tcp://127.0.0.1:0");
        options = host_options(*state);
        options.key = cases[i].own;
        options.key_length = cases[i].own == NULL ? 0 : 32;
        Host *client = host_open_with(*state, &options);
        expected = cases[i].logged == NULL ? "" : cases[i].logged;
        logged = 0;
        assert_status(connect_now(client, open_ep(client, server->uri), 3000), XFER_EAUTH);
        json_t *root = describe(client);
        const char *message = text(get(root, "last_error"), "message");
        if (strstr(message, cases[i].told) == NULL) fail_msg("case %zu: %s", i, message);
        json_decref(root);
        if (cases[i].logged != NULL) wait_atomic(&logged, 1, kPatience);
    }
}

/* ---- callbacks that block ---- */

static _Atomic int warnings, blocked, told;
static char warning[256];

static void on_log(uint32_t level, const char *line, uint64_t user) {
    (void)user;
    if (level != XFER_LOG_WARN || strstr(line, "callback") == NULL) return;
    if (warnings++ == 0) snprintf(warning, sizeof warning, "%s", line);
}

static void block_twice(const xfer_event_t *event, uint64_t user) {
    (void)user;
    if (event->kind != XFER_EVENT_COUNTER && event->kind != XFER_EVENT_CONNECT) return;
    if (blocked < 2) {
        blocked++;
        usleep(1200000);
    }
    told++;
}

/* While one blocks, another thread sees which it is, and for how long. */
static void *describe_blocked(void *engine) {
    static char json[1 << 20];
    const uint64_t end = now_ms() + kPatience;
    bool seen = false;
    while (!seen && told < 3 && now_ms() < end) {
        usleep(300000); /* where the callback keeps the sockets, the answer comes after it */
        uint64_t needed = 0;
        if (xfer_engine_describe(engine, json, sizeof json, &needed) != XFER_OK) break;
        json_t *root = json_loads(json, 0, NULL);
        json_t *callbacks = json_object_get(root, "callbacks");
        const char *running = json_string_value(json_object_get(callbacks, "running"));
        const double ms = json_number_value(json_object_get(callbacks, "running_ms"));
        seen = running != NULL && strcmp(running, "CONNECT") == 0 && ms >= 100;
        json_decref(root);
    }
    return seen ? engine : NULL;
}

/* Two of them in a row are one episode: logged once, counted twice. */
static void test_callback_blocks(void **state) {
    const Mode *mode = *state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = mode->dispatch,
                                     .uv_loop = &loop,
                                     .on_event = block_twice,
                                     .on_log = on_log,
                                     .log_level = XFER_LOG_WARN,
                                     .io_threads = mode->io_threads};
    const bool embedded = mode->dispatch == XFER_DISPATCH_LOOP;
    if (!embedded) options.uv_loop = NULL;
    Host *host = test_memory(sizeof *host);
    warnings = blocked = told = 0;
    assert_status(xfer_engine_open(&options, &host->engine, NULL), XFER_OK);
    xfer_ep_t *ep;
    assert_status(xfer_ep_open(host->engine, "tcp://127.0.0.1:1", NULL, &ep, NULL), XFER_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, describe_blocked, host->engine), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_status(xfer_ep_connect(ep, i, WITHIN(1)), XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (embedded && told < 3 && now_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    wait_atomic(&told, 3, kPatience);
    void *seen = NULL;
    pthread_join(thread, &seen);
    assert_ptr_equal(seen, host->engine);
    /* The third was quick, so the episode is over once it has returned. */
    json_t *root = describe(host);
    const uint64_t limit = now_ms() + kPatience;
    while (text(get(root, "callbacks"), "running")[0] != '\0' && now_ms() < limit) {
        json_decref(root);
        root = describe(host);
    }
    json_t *callbacks = get(root, "callbacks");
    assert_true(number(callbacks, "slow") >= 2);
    assert_true(number(callbacks, "longest_ms") >= 1000);
    assert_string_equal(text(callbacks, "running"), "");
    assert_int_equal(number(callbacks, "running_ms"), 0);
    json_decref(root);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "CONNECT"));
    assert_status(xfer_ep_close(ep), XFER_OK);
    assert_status(xfer_engine_close(host->engine), XFER_OK);
    while (embedded && xfer_engine_join(host->engine, 0) == XFER_EBUSY)
        uv_run(&loop, UV_RUN_NOWAIT);
    if (!embedded) assert_status(xfer_engine_join(host->engine, XFER_NONE), XFER_OK);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Last: there is no way out of the cage. */
static void test_rings(void **state) {
    assert_true(cage());
    Peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", kLength, 0);
    Host *host = host_open(*state);
    xfer_ep_t *ep = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    assert_goes(host, ep, &ref, "rings");
    host_end(host);
    peer_kill(&peer);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_over_sockets),
    EACH_DISPATCH(test_shared_memory),
    EACH_DISPATCH(test_within_a_process),
    ONE_MODE(test_regions_and_grants),
    EACH_MODE(test_last_error),
    EACH_MODE(test_keys),
    MODE_TEST(test_callback_blocks, 0, "thread/none"),
    MODE_TEST(test_callback_blocks, 1, "thread/1"),
    MODE_TEST(test_callback_blocks, 3, "loop/none"),
    MODE_TEST(test_callback_blocks, 4, "loop/1"),
    ONE_MODE(test_rings),
};

TEST_MAIN_AFTER(tests, peer_role("made", serve_made))
