/* SPDX-License-Identifier: Apache-2.0
 *
 * Endpoints: connect, probe, state, who the peer is, and what both sides are told. */
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static uint32_t state_of(xfer_ep_t *ep) {
    uint32_t state = 0;
    assert_status(xfer_ep_state(ep, &state), XFER_OK);
    return state;
}

static void wait_stat(Host *host, const char *what, size_t field, uint64_t wanted) {
    uint64_t end = now_ms() + kPatience;
    for (;;) {
        xfer_engine_stats_t stats = host_stats(host);
        uint64_t value;
        memcpy(&value, (const uint8_t *)&stats + field, sizeof value);
        if (value == wanted) return;
        if (now_ms() > end)
            fail_msg("%s is %llu, not %llu", what, (unsigned long long)value,
                     (unsigned long long)wanted);
        turn(10);
    }
}
#define WAIT_STAT(host, field, wanted) \
    wait_stat((host), #field, offsetof(xfer_engine_stats_t, field), (wanted))

static void test_connect(void **state) {
    Host *server = host_open(*state);
    Host *client = host_open(*state);
    host_listen(server, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(client, server->uri);
    pass_ms(30);
    assert_int_equal(state_of(ep), XFER_EP_IDLE); /* opening does not connect */
    assert_int_equal(host_stats(client).connects, 0);
    assert_status(xfer_ep_connect(ep, 42, WITHIN(5000)), XFER_OK);
    xfer_event_t event = wait_event(client, XFER_EVENT_CONNECT, 42, kPatience);
    assert_status(event.status, XFER_OK);
    assert_ptr_equal(event.ep, ep);
    assert_int_equal(state_of(ep), XFER_EP_READY);
    assert_int_equal(host_stats(client).connections, 1);
    assert_status(connect_now(client, ep, 5000), XFER_OK); /* again changes nothing */
    assert_int_equal(host_stats(client).connects, 1);
    WAIT_STAT(server, connections, 1);
    assert_int_equal(host_stats(server).accepts, 1);
}

static void test_probe(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    for (uint64_t i = 1; i <= 10; i++) {
        uint64_t start = now_ms();
        assert_status(xfer_ep_probe(pair.ep, i, WITHIN(5000)), XFER_OK);
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_PROBE, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_true(event.bytes > 0);
        assert_true(event.bytes <= (now_ms() - start + 1) * 1000000);
        xfer_ep_stats_t stats;
        assert_status(xfer_ep_stats(pair.ep, &stats, sizeof stats), XFER_OK);
        assert_true(stats.rtt_ns > 0);
    }
}

static void test_peer_info(void **state) {
    static const char server_blob[] = "decode, rank 3";
    static uint8_t client_blob[1024];
    memset(client_blob, 0x3c, sizeof client_blob);
    xfer_engine_options_t options = host_options(*state);
    options.blob = server_blob;
    options.blob_length = sizeof server_blob;
    Host *server = host_open_with(*state, &options);
    options.blob = client_blob;
    options.blob_length = sizeof client_blob;
    Host *client = host_open_with(*state, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    xfer_ep_options_t ep_options = {.size = sizeof ep_options, .user = 77};
    xfer_ep_t *ep = NULL;
    xfer_peer_info_t info;
    xfer_id_t server_id, client_id, none = {.incarnation = 0};
    assert_status(xfer_engine_id(server->engine, &server_id), XFER_OK);
    assert_status(xfer_engine_id(client->engine, &client_id), XFER_OK);
    assert_status(xfer_ep_open(client->engine, server->uri, &ep_options, &ep, NULL), XFER_OK);
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, &none, sizeof none);
    assert_string_equal(info.address, server->uri);
    assert_int_equal(info.state, XFER_EP_IDLE);
    assert_status(connect_now(client, ep, 5000), XFER_OK);

    xfer_event_t up = wait_event(client, XFER_EVENT_PEER_UP, 77, kPatience);
    assert_ptr_equal(up.ep, ep);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), 0);
    assert_int_equal(up.data_length, sizeof(xfer_id_t) + sizeof server_blob);
    assert_memory_equal(up.data, &server_id, sizeof server_id);
    assert_memory_equal((const uint8_t *)up.data + sizeof(xfer_id_t), server_blob,
                        sizeof server_blob);
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, &server_id, sizeof server_id);
    assert_int_equal(info.state, XFER_EP_READY);
    assert_int_equal(info.blob_length, sizeof server_blob);
    assert_memory_equal(info.blob, server_blob, sizeof server_blob);

    xfer_event_t peer = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_non_null(peer.ep);
    assert_status(xfer_ep_peer(peer.ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, &client_id, sizeof client_id);
    assert_int_equal(info.blob_length, sizeof client_blob);
    assert_memory_equal(info.blob, client_blob, sizeof client_blob);
    assert_memory_equal(info.address, "tcp://127.0.0.1:", 16);
}

/* Both sides are told of the end, and by whom. */
static void test_peer_down(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    xfer_event_t peer = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience);
    wait_event(pair.client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_status(xfer_ep_keep(peer.ep, 77), XFER_OK);
    assert_status(xfer_ep_keep(peer.ep, 77), XFER_EINVAL);
    assert_status(xfer_ep_keep(pair.ep, 77), XFER_EINVAL);
    host_end(pair.client);
    xfer_event_t down = wait_event(pair.server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_ptr_equal(down.ep, peer.ep);
    assert_int_equal(down.user, 77);
    assert_int_equal(host_stats(pair.server).connections, 0);
    assert_true(state_of(peer.ep) != XFER_EP_READY);
    assert_status(xfer_ep_close(peer.ep), XFER_OK);
    wait_closed(pair.server, peer.ep);
    assert_status(xfer_ep_close(pair.ep), XFER_ECLOSED);
}

static void test_server_leaves(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    wait_event(pair.client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    host_end(pair.server);
    xfer_event_t down = wait_event(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_ptr_equal(down.ep, pair.ep);
    assert_true(down.status != XFER_OK);
    assert_status(xfer_region_close(pair.region), XFER_ECLOSED);
}

/* The side that was dialed moves bytes as well, by the handle of its PEER event. */
static void test_accepted_side_puts(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *memory = test_memory(4096);
    uint8_t *local = test_memory(4096);
    fill(local, 4096, 6);
    xfer_event_t peer = wait_event(pair.server, XFER_EVENT_PEER, ANY_USER, kPatience);
    open_region(pair.client, "of the client", XFER_WRITE, memory, 4096);
    xfer_ref_t ref = look_up(pair.server, peer.ep, "of the client");
    assert_status(put_now(pair.server, peer.ep, local, &ref, 0, 4096), XFER_OK);
    assert_true(filled(memory, 4096, 6, 0));
    assert_status(xfer_ep_keep(peer.ep, 77), XFER_OK);
    assert_status(put_now(pair.server, peer.ep, local, &ref, 0, 4096), XFER_OK);
    assert_int_equal(host_stats(pair.server).connections, 1);
    assert_int_equal(host_stats(pair.client).connections, 1);
    assert_status(xfer_ep_close(peer.ep), XFER_OK);
    wait_closed(pair.server, peer.ep);
}

static void test_shared_connection(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    xfer_ep_t *eps[8];
    for (int i = 0; i < 8; i++) {
        eps[i] = open_ep(pair.client, pair.server->uri);
        assert_status(put_now(pair.client, eps[i], local, &pair.ref, 0, 4096), XFER_OK);
    }
    WAIT_STAT(pair.client, connections, 1);
    WAIT_STAT(pair.server, connections, 1);
    for (int i = 0; i < 8; i++) {
        assert_status(xfer_ep_close(eps[i]), XFER_OK);
        wait_closed(pair.client, eps[i]);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_OK);
    }
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

/* A handle that is opened beside others hears of the connection that there is, and of its end. */
static void test_opened_beside(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    xfer_ep_options_t options = {.size = sizeof options, .user = 88};
    xfer_ep_t *beside = NULL;
    xfer_id_t server_id;
    assert_status(xfer_engine_id(pair.server->engine, &server_id), XFER_OK);
    assert_status(xfer_ep_open(pair.client->engine, pair.server->uri, &options, &beside, NULL),
                  XFER_OK);
    assert_status(connect_now(pair.client, beside, kPatience), XFER_OK); /* whose loop it is on */
    xfer_event_t up = wait_event(pair.client, XFER_EVENT_PEER_UP, 88, kPatience);
    assert_ptr_equal(up.ep, beside);
    assert_memory_equal(up.data, &server_id, sizeof server_id);
    assert_int_equal(up.flags, 0);
    host_end(pair.server);
    xfer_event_t down = wait_event(pair.client, XFER_EVENT_PEER_DOWN, 88, kPatience);
    assert_ptr_equal(down.ep, beside);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PEER_UP, 88), 1);
}

/* From its PEER to its PEER_DOWN. NULL is no handle. */
static bool lives_at(Host *host, const xfer_ep_t *ep, size_t end) {
    bool lives = ep == NULL;
    for (size_t i = 0; i < end; i++) {
        const xfer_event_t *event = &host->seen[i].event;
        if (event->ep == ep && event->kind == XFER_EVENT_PEER) lives = true;
        if (event->ep == ep && event->kind == XFER_EVENT_PEER_DOWN) lives = false;
    }
    return lives;
}

/* A peer goes and comes back before the application takes the event of its end, with which its
 * handle goes. What follows names a new one, or none. */
static void test_back_before_down_is_taken(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    memset(options.id, 0x21, sizeof options.id);
    Host *server = host_open(mode);
    host_listen(server, "tcp://127.0.0.1:0");
    for (int life = 0; life < 3; life++) {
        Host *client = host_open_with(mode, &options);
        xfer_ep_t *ep = open_ep(client, server->uri);
        assert_status(connect_now(client, ep, kPatience), XFER_OK);
        assert_status(xfer_notify(ep, NULL, 0, 7, 1, NULL), XFER_OK);
        assert_status(wait_event(client, XFER_EVENT_NOTIFIED, 1, kPatience).status, XFER_OK);
        if (life == 0) wait_event(server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
        server->paused = mode->dispatch != XFER_DISPATCH_THREAD && mode->io_threads != XFER_NONE;
        if (life < 2) host_end(client);
    }
    server->paused = false;
    for (uint64_t end = now_ms() + kPatience; now_ms() < end; turn(10))
        if (count_events(server, XFER_EVENT_NOTIFY, ANY_USER) == 3 &&
            count_events(server, XFER_EVENT_PEER, ANY_USER) >
                count_events(server, XFER_EVENT_PEER_DOWN, ANY_USER))
            break;
    pass_ms(50);
    uint32_t astray = 0;
    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->seen_count; i++) {
        const xfer_event_t *event = &server->seen[i].event;
        if (event->kind != XFER_EVENT_PEER && !lives_at(server, event->ep, i)) astray = event->kind;
    }
    pthread_mutex_unlock(&server->mutex);
    assert_int_equal(astray, 0); /* else of that kind */
    assert_int_equal(count_events(server, XFER_EVENT_NOTIFY, ANY_USER), 3);
    assert_int_equal(count_events(server, XFER_EVENT_PEER_DOWN, ANY_USER) + 1,
                     count_events(server, XFER_EVENT_PEER, ANY_USER));
    assert_int_equal(count_events(server, XFER_EVENT_PEER_UP, ANY_USER),
                     count_events(server, XFER_EVENT_PEER, ANY_USER));
}

/* How many puts were canceled by the close. */
static int close_amid_puts(const Pair *pair, const uint8_t *local, uint64_t length) {
    for (uint64_t i = 1; i <= 10; i++)
        assert_status(xfer_put(pair->ep, local, &pair->ref, 0, length, i, NULL), XFER_OK);
    assert_status(xfer_ep_close(pair->ep), XFER_OK);
    wait_closed(pair->client, pair->ep);
    int canceled = 0;
    for (uint64_t i = 1; i <= 10; i++) {
        xfer_event_t event;
        /* All of them before CLOSED. */
        assert_true(take_event(pair->client, XFER_EVENT_PUT, i, &event));
        assert_completion(&event);
        if (event.status != XFER_OK) assert_status(event.status, XFER_ECANCELED);
        canceled += event.status == XFER_ECANCELED;
    }
    return canceled;
}

static void test_close_ends_operations(void **state) {
    Pair pair;
    const uint64_t length = 8 << 20, end = now_ms() + kPatience;
    pair_open(&pair, *state, length);
    uint8_t *local = test_memory(length);
    /* On a busy machine all puts may end before the close is called. */
    while (close_amid_puts(&pair, local, length) == 0) {
        assert_true(now_ms() < end);
        pair.ep = open_ep(pair.client, pair.server->uri);
    }
}

static void test_calls_on_closed(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    uint8_t local[8] = {0};
    xfer_batch_t *batch = NULL;
    pair.client->hook = NULL;
    assert_status(xfer_batch_open(pair.ep, NULL, &batch, NULL), XFER_OK);
    hold_events(pair.client);
    const xfer_status_t results[] = {
        xfer_ep_close(pair.ep),
        xfer_put(pair.ep, local, &pair.ref, 0, 8, 1, NULL),
        xfer_ep_connect(pair.ep, 1, NULL),
        xfer_ep_close(pair.ep),
    };
    release_events(pair.client);
    assert_status(results[0], XFER_OK);
    for (int i = 1; i < 4; i++)
        assert_status(results[i], XFER_ECLOSED);
    wait_closed(pair.client, pair.ep);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

/* ---- addresses ---- */

static void test_malformed(void **state) {
    Host *host = host_open(*state);
    static const char *const table[] = {
        "",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://:5",
        "127.0.0.1:5",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:5-6",
        "tcp://127.0.0.1:0",
        "tcp://[::1:5",
        "tcp://::1:5",
        "tcp://[::1]5",
        "tcp://a b:5",
        "tcp://127.0.0.1:5/x",
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_ep_t *ep = NULL;
        xfer_error_t err;
        xfer_status_t status = xfer_ep_open(host->engine, table[i], NULL, &ep, &err);
        if (status != XFER_EADDR)
            fail_msg("\"%s\": %s, not XFER_EADDR", table[i], xfer_status_name(status));
        assert_int_equal(err.status, XFER_EADDR);
    }
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(host->engine, NULL, NULL, &ep, NULL), XFER_EINVAL);
    assert_status(xfer_ep_open(host->engine, "tcp://127.0.0.1:5", NULL, NULL, NULL), XFER_EINVAL);
    xfer_status_t status = xfer_ep_open(host->engine, "pigeon://127.0.0.1:5", NULL, &ep, NULL);
    assert_true(status == XFER_EUNSUPPORTED || status == XFER_EADDR);
}

static void test_name(void **state) {
    Host *server = host_open(*state);
    Host *client = host_open(*state);
    char uri[64];
    host_listen(server, "tcp://127.0.0.1:0");
    snprintf(uri, sizeof uri, "tcp://localhost:%s", strrchr(server->uri, ':') + 1);
    assert_status(connect_now(client, open_ep(client, uri), 10000), XFER_OK);
}

static void test_nobody_there(void **state) {
    Host *host = host_open(*state);
    xfer_ep_t *ep = open_ep(host, own_address());
    uint64_t start = now_ms();
    xfer_status_t status = connect_now(host, ep, 700);
    assert_true(status == XFER_EUNREACHABLE || status == XFER_ETIMEDOUT);
    assert_true(now_ms() - start < 10000);
    assert_true(state_of(ep) == XFER_EP_IDLE || state_of(ep) == XFER_EP_CONNECTING);
    /* An operation with a deadline ends as well, and has touched nothing. */
    Pair pair;
    pair_open(&pair, *state, 64);
    uint8_t local[8] = {0};
    xfer_op_options_t options = {.size = sizeof options, .timeout_ms = 700};
    assert_status(xfer_put(ep, local, &pair.ref, 0, 8, 5, &options), XFER_OK);
    xfer_event_t event = wait_event(host, XFER_EVENT_PUT, 5, kPatience);
    assert_true(event.status == XFER_EUNREACHABLE || event.status == XFER_ETIMEDOUT);
    assert_completion(&event);
    assert_true((event.flags & XFER_FENCED) != 0);
}

/* Somebody comes: the endpoint that could not connect serves what is asked later. */
static void test_somebody_comes(void **state) {
    Host *client = host_open(*state);
    Host *server = host_open(*state);
    const char *uri = own_address();
    xfer_ep_t *ep = open_ep(client, uri);
    assert_status(xfer_ep_connect(ep, 1, WITHIN(kPatience)), XFER_OK);
    pass_ms(150);
    host_listen(server, uri);
    xfer_event_t event = wait_event(client, XFER_EVENT_CONNECT, 1, kPatience);
    if (event.status != XFER_OK) {
        /* A refused attempt may end the connect at once; the next must do. */
        assert_status(event.status, XFER_EUNREACHABLE);
        assert_status(connect_now(client, ep, kPatience), XFER_OK);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_connect),
    EACH_MODE(test_probe),
    EACH_MODE(test_peer_info),
    EACH_MODE(test_peer_down),
    EACH_MODE(test_server_leaves),
    EACH_MODE(test_accepted_side_puts),
    EACH_MODE(test_shared_connection),
    EACH_MODE(test_opened_beside),
    EACH_MODE(test_back_before_down_is_taken),
    EACH_MODE(test_close_ends_operations),
    EACH_DISPATCH(test_calls_on_closed),
    ONE_MODE(test_malformed),
    EACH_DISPATCH(test_name),
    EACH_MODE(test_nobody_there),
    EACH_MODE(test_somebody_comes),
};

TEST_MAIN(tests)
