/* SPDX-License-Identifier: Apache-2.0
 *
 * How two engines meet: both at once, many threads at once, with and without the key, and with an
 * identity that was or was not expected. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "carried.h"
#include "fixture.h"

static void wait_connections(Host *host, uint64_t wanted) {
    uint64_t end = now_ms() + kPatience;
    while (host_stats(host).connections != wanted) {
        if (now_ms() > end) {
            fail_msg("%llu connections, not %llu", (unsigned long long)host_stats(host).connections,
                     (unsigned long long)wanted);
        }
        turn(10);
    }
}

/* Both open to each other at once and move bytes at once; one connection remains, and nothing was
 * lost. */
static void test_both_at_once(void **state) {
    int rounds = quick() ? 3 : 15;
    for (int round = 0; round < rounds; round++) {
        Host *hosts[2];
        xfer_ep_t *eps[2];
        for (int i = 0; i < 2; i++) {
            hosts[i] = host_open(*state);
            host_listen(hosts[i], "tcp://127.0.0.1:0");
        }
        for (int i = 0; i < 2; i++)
            eps[i] = open_ep(hosts[i], hosts[1 - i]->uri);
        for (int i = 0; i < 2; i++)
            assert_status(xfer_ep_connect(eps[i], 1, WITHIN(10000)), XFER_OK);
        for (int i = 0; i < 2; i++) {
            assert_status(wait_event(hosts[i], XFER_EVENT_CONNECT, 1, kPatience).status, XFER_OK);
        }
        for (int i = 0; i < 2; i++) {
            uint8_t *memory = test_memory(64);
            uint8_t *local = test_memory(64);
            fill(local, 64, (uint64_t)round);
            open_region(hosts[1 - i], "memory", XFER_READ | XFER_WRITE, memory, 64);
            xfer_ref_t ref = look_up(hosts[i], eps[i], "memory");
            wait_way(hosts[i], eps[i], &ref);
            assert_status(put_now(hosts[i], eps[i], local, &ref, 0, 64), XFER_OK);
            assert_true(filled(memory, 64, (uint64_t)round, 0));
        }
        for (int i = 0; i < 2; i++)
            wait_connections(hosts[i], 1);
        pass_ms(20);
        for (int i = 0; i < 2; i++)
            wait_connections(hosts[i], 1);
        for (int i = 0; i < 2; i++)
            host_end(hosts[i]);
        for (int i = 0; i < 2; i++)
            assert_status(xfer_ep_close(eps[i]), XFER_ECLOSED);
    }
}

/* ---- 64 threads that want one peer cause one attempt ---- */

typedef struct Caller {
    xfer_ep_t *ep;
    uint64_t user;
    xfer_status_t status;
    _Atomic int *done;
} Caller;

static void *call_connect(void *data) {
    Caller *caller = data;
    caller->status = xfer_ep_connect(caller->ep, caller->user, WITHIN(10000));
    (*caller->done)++;
    return NULL;
}

static void test_single_flight(void **state) {
    enum { kThreads = 64 };
    Host *server = host_open(*state);
    Host *client = host_open(*state);
    host_listen(server, "tcp://127.0.0.1:0");
    xfer_ep_t *eps[2] = {open_ep(client, server->uri), open_ep(client, server->uri)};
    static _Atomic int done;
    static Caller callers[kThreads];
    pthread_t threads[kThreads];
    done = 0;
    for (int i = 0; i < kThreads; i++) {
        callers[i] = (Caller){.ep = eps[0], .user = (uint64_t)i, .done = &done};
        assert_int_equal(pthread_create(&threads[i], NULL, call_connect, &callers[i]), 0);
    }
    wait_atomic(&done, kThreads, kPatience);
    for (int i = 0; i < kThreads; i++) {
        pthread_join(threads[i], NULL);
        assert_status(callers[i].status, XFER_OK);
        assert_status(wait_event(client, XFER_EVENT_CONNECT, (uint64_t)i, kPatience).status,
                      XFER_OK);
    }
    assert_int_equal(host_stats(client).connects, 1);
    assert_int_equal(host_stats(server).accepts, 1);
    assert_status(connect_now(client, eps[1], 5000), XFER_OK);
    wait_connections(client, 1);
    wait_connections(server, 1);
}

/* ---- the key ---- */

static xfer_status_t meet(const Mode *mode, const void *server_key, const void *client_key,
                          Host **server) {
    xfer_engine_options_t options = host_options(mode);
    options.key = server_key;
    options.key_length = server_key == NULL ? 0 : 32;
    *server = host_open_with(mode, &options);
    options.key = client_key;
    options.key_length = client_key == NULL ? 0 : 32;
    Host *client = host_open_with(mode, &options);
    host_listen(*server, "tcp://127.0.0.1:0");
    return connect_now(client, open_ep(client, (*server)->uri), 3000);
}

static void test_key(void **state) {
    static const uint8_t key[32] = "an open secret of thirty-two b.";
    static const uint8_t other[32] = "an open secret of thirty-two c.";
    Host *server = NULL;
    assert_status(meet(*state, key, key, &server), XFER_OK);
    wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_status(meet(*state, key, other, &server), XFER_EAUTH);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 0);
    assert_int_equal(host_stats(server).connections, 0);
    assert_status(meet(*state, key, NULL, &server), XFER_EAUTH);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 0);
    assert_status(meet(*state, NULL, key, &server), XFER_EAUTH);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 0);
}

/* A ref of another engine than the one that was named is refused at once. Of an address it is not
 * known who will answer there: the event says so. */
static void test_ref_of_another(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    Host *other = host_open(*state);
    host_listen(other, "tcp://127.0.0.1:0");
    xfer_id_t id;
    assert_status(xfer_engine_id(other->engine, &id), XFER_OK);
    xfer_ep_options_t options = {.size = sizeof options, .peer = &id};
    xfer_ep_t *named = NULL;
    assert_status(xfer_ep_open(pair.client->engine, other->uri, &options, &named, NULL), XFER_OK);
    uint8_t local[64] = {0};
    const uint64_t at = (uint64_t)(uintptr_t)local, page = 0;
    assert_status(xfer_put(named, local, &pair.ref, 0, 8, 1, NULL), XFER_EIDENTITY);
    assert_status(xfer_get(named, local, &pair.ref, 0, 8, 1, NULL), XFER_EIDENTITY);
    xfer_batch_t *batch = NULL;
    xfer_span_t span = {.local = at, .length = 8};
    xfer_strided_t strided = {
        .size = sizeof strided, .local = at, .remote = &pair.ref, .length = 8, .count = 1};
    xfer_page_base_t base = {.local = at, .remote = &pair.ref};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = 8,
                          .count = 1,
                          .local_pages = &page,
                          .remote_pages = &page,
                          .bases = &base,
                          .base_count = 1};
    xfer_error_t err;
    assert_status(xfer_batch_open(named, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(batch, local, &pair.ref, 0, 8), XFER_EIDENTITY);
    assert_status(xfer_batch_get(batch, local, &pair.ref, 0, 8), XFER_EIDENTITY);
    assert_status(xfer_batch_add_spans(batch, XFER_OP_PUT, &pair.ref, &span, sizeof span, 1, &err),
                  XFER_EIDENTITY);
    assert_status(xfer_batch_add_strided(batch, XFER_OP_PUT, &strided, &err), XFER_EIDENTITY);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, &err), XFER_EIDENTITY);
    assert_non_null(strstr(err.message, "base 0: the ref is of another engine"));
    uint8_t *memory = test_memory(64);
    open_region(other, "memory", XFER_WRITE, memory, 64);
    xfer_ref_t ref = look_up(pair.client, named, "memory");
    assert_status(xfer_batch_put(batch, local, &ref, 0, 8), XFER_OK);
    assert_status(xfer_batch_rebind(batch, &ref, &pair.ref, &err), XFER_EIDENTITY);
    assert_status(submit_now(pair.client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
    xfer_ep_t *by_address = open_ep(pair.client, other->uri);
    assert_status(xfer_put(by_address, local, &pair.ref, 0, 8, 9, NULL), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_PUT, 9, kPatience).status, XFER_ESTALE);
}

/* Data moves with a key as without one, and a long key counts to its last byte. */
static void test_data_with_key(void **state) {
    uint8_t key[256];
    memset(key, 7, sizeof key);
    xfer_engine_options_t options = host_options(*state);
    options.key = key;
    options.key_length = sizeof key;
    Pair pair;
    pair_open_with(&pair, &options, &options, *state, 1 << 20);
    uint8_t *local = test_memory(1 << 20);
    fill(local, 1 << 20, 2);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1 << 20), XFER_OK);
    assert_true(filled(pair.memory, 1 << 20, 2, 0));
    key[255] = 8;
    Host *stranger = host_open_with(*state, &options);
    assert_status(connect_now(stranger, open_ep(stranger, pair.server->uri), 3000), XFER_EAUTH);
}

/* ---- identity ---- */

static void test_expected_identity(void **state) {
    Host *server = host_open(*state);
    Host *client = host_open(*state);
    host_listen(server, "tcp://127.0.0.1:0");
    xfer_id_t id;
    assert_status(xfer_engine_id(server->engine, &id), XFER_OK);
    xfer_ep_options_t options = {.size = sizeof options, .peer = &id};
    xfer_ep_t *ep = NULL;
    id.incarnation++; /* is ignored */
    assert_status(xfer_ep_open(client->engine, server->uri, &options, &ep, NULL), XFER_OK);
    assert_status(connect_now(client, ep, 5000), XFER_OK);
    id.bytes[0] ^= 1;
    assert_status(xfer_ep_open(client->engine, server->uri, &options, &ep, NULL), XFER_OK);
    assert_status(connect_now(client, ep, 3000), XFER_EIDENTITY);
    uint8_t local[8] = {0};
    uint8_t *memory = test_memory(64);
    xfer_region_t *region = open_region(server, "memory", XFER_WRITE, memory, 64);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(region, &ref), XFER_OK);
    assert_status(put_now(client, ep, local, &ref, 0, 8), XFER_EIDENTITY);
    wait_connections(client, 1); /* that of the first handle */
}

/* A ref that belongs to another engine than the one that answers does not reach it. */
static void test_ref_of_another_engine(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    Host *other = host_open(*state);
    host_listen(other, "tcp://127.0.0.1:0");
    uint8_t *memory = test_memory(64);
    open_region(other, "memory", XFER_WRITE, memory, 64);
    uint8_t local[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    xfer_ep_t *ep = open_ep(pair.client, other->uri);
    xfer_status_t status = put_now(pair.client, ep, local, &pair.ref, 0, 8);
    assert_status(status, XFER_ESTALE); /* the address was meant, not an engine */
    assert_int_equal(memory[0], 0);
    assert_int_equal(pair.memory[0], 0);
}

/* Two live engines with one identity: the second is refused, the first goes on. */
static void test_identity_used_twice(void **state) {
    xfer_engine_options_t options = host_options(*state);
    Host *server = host_open(*state);
    host_listen(server, "tcp://127.0.0.1:0");
    options.id[0] = 9;
    Host *first = host_open_with(*state, &options);
    Host *second = host_open_with(*state, &options);
    xfer_ep_t *ep = open_ep(first, server->uri);
    assert_status(connect_now(first, ep, 5000), XFER_OK);
    assert_status(connect_now(second, open_ep(second, server->uri), 5000), XFER_EIDENTITY);
    assert_status(connect_now(first, ep, 5000), XFER_OK);
    assert_int_equal(host_stats(first).connection_ends, 0);
}

/* ---- who dials ---- */

static Host *open_named(const Mode *mode, int number, uint32_t yield_ms) {
    xfer_engine_options_t options = host_options(mode);
    options.id[0] = 1;
    options.id[15] = (uint8_t)number;
    options.yield_ms = yield_ms;
    Host *host = host_open_with(mode, &options);
    host_listen(host, "tcp://127.0.0.1:0");
    return host;
}

static xfer_ep_t *open_known(Host *host, Host *other, const char *uri) {
    xfer_id_t id;
    assert_status(xfer_engine_id(other->engine, &id), XFER_OK);
    xfer_ep_options_t options = {.size = sizeof options, .peer = &id};
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(host->engine, uri, &options, &ep, NULL), XFER_OK);
    return ep;
}

/* A full mesh that is warmed up from all sides at once: of each pair only the smaller dials. */
static void test_smaller_dials(void **state) {
    enum { kMesh = 6 };
    Host *hosts[kMesh];
    for (int i = 0; i < kMesh; i++)
        hosts[i] = open_named(*state, i + 1, kPatience);
    for (int i = kMesh; i-- > 0;) {
        for (int j = 0; j < kMesh; j++) {
            if (i == j) continue;
            xfer_ep_t *ep = open_known(hosts[i], hosts[j], hosts[j]->uri);
            assert_status(xfer_ep_connect(ep, (uint64_t)j, WITHIN(kPatience)), XFER_OK);
        }
    }
    for (int i = 0; i < kMesh; i++) {
        for (int j = 0; j < kMesh; j++) {
            if (i == j) continue;
            xfer_event_t event = wait_event(hosts[i], XFER_EVENT_CONNECT, (uint64_t)j, kPatience);
            assert_status(event.status, XFER_OK);
        }
    }
    for (int i = 0; i < kMesh; i++) {
        assert_int_equal(host_stats(hosts[i]).connects, (uint64_t)(kMesh - 1 - i));
        assert_int_equal(host_stats(hosts[i]).connections, kMesh - 1);
    }
}

/* Nothing depends on it: where only the larger has something to say, it says it, a little later. */
static void test_larger_dials_in_the_end(void **state) {
    Host *small = open_named(*state, 1, 200), *large = open_named(*state, 2, 200);
    uint8_t *memory = test_memory(64);
    open_region(small, "memory", XFER_WRITE, memory, 64);
    xfer_ep_t *ep = open_known(large, small, small->uri);
    uint64_t began = now_ms();
    xfer_ref_t ref = look_up(large, ep, "memory");
    assert_true(now_ms() - began >= 190);
    assert_status(put_now(large, ep, "by the larger", &ref, 0, 14), XFER_OK);
    assert_string_equal((char *)memory, "by the larger");
    assert_int_equal(host_stats(small).connects, 0);
    assert_int_equal(host_stats(large).connects, 1);
}

/* An endpoint whose peer can't be dialed is served by the connection that the peer makes. */
static void test_served_by_who_came(void **state) {
    Host *inside = open_named(*state, 1, 0), *outside = open_named(*state, 2, 0);
    uint8_t *memory = test_memory(64);
    open_region(inside, "memory", XFER_READ, memory, 64);
    xfer_ep_t *ep = open_known(outside, inside, own_address()); /* where nobody will be */
    assert_status(connect_now(outside, ep, 5000), XFER_EUNREACHABLE);
    assert_status(xfer_ep_lookup(ep, "memory", 5, NULL, NULL), XFER_OK);
    pass_ms(50);
    assert_int_equal(count_events(outside, XFER_EVENT_LOOKUP, 5), 0);
    assert_status(connect_now(inside, open_ep(inside, outside->uri), 5000), XFER_OK);
    assert_status(wait_event(outside, XFER_EVENT_LOOKUP, 5, kPatience).status, XFER_OK);
}

/* Whoever has connected to `client`, and says that it lives at `address`. */
static void come_from(Host *client, const char *address, const xfer_engine_options_t *given,
                      const char *region) {
    xfer_engine_options_t options = *given;
    options.advertise = address;
    Host *host = host_open_with(client->mode, &options);
    if (region) open_region(host, region, XFER_READ, test_memory(64), 64);
    assert_status(connect_now(host, open_ep(host, client->uri), 5000), XFER_OK);
    wait_event(client, XFER_EVENT_PEER, ANY_USER, kPatience);
}

/* Without a key anybody may say that an address is its own. It gets nothing of what is meant for
 * who answers there. */
static void test_address_of_another(void **state) {
    xfer_engine_options_t options = host_options(*state);
    Host *owner = host_open(*state), *client = host_open(*state);
    host_listen(owner, "tcp://127.0.0.1:0");
    host_listen(client, "tcp://127.0.0.1:0");
    open_region(owner, "memory", XFER_READ, test_memory(64), 64);
    come_from(client, owner->uri, &options, NULL);
    look_up(client, open_ep(client, owner->uri), "memory");
}

/* Who has the key is believed: it need not be dialed, and could not be. */
static void test_address_of_a_member(void **state) {
    static const uint8_t key[32] = "an open secret of thirty-two b.";
    xfer_engine_options_t options = host_options(*state);
    options.key = key;
    options.key_length = sizeof key;
    Host *client = host_open_with(*state, &options);
    host_listen(client, "tcp://127.0.0.1:0");
    come_from(client, "tcp://127.0.0.1:1", &options, "memory");
    look_up(client, open_ep(client, "tcp://127.0.0.1:1"), "memory");
    assert_int_equal(host_stats(client).connects, 0);
}

/* Who leaves in peace while the two meet is not lost: the owner may have a connection already. */
static void test_leaves_while_meeting(void **state) {
    Host *server = host_open(*state);
    host_listen(server, preferred("tcp://127.0.0.1:0"));
    for (int round = 0; round < 60; round++) {
        Host *client = host_open(THREAD_MODE);
        assert_status(xfer_notify(open_ep(client, server->uri), NULL, 0, 1, 1, NULL), XFER_OK);
        usleep((useconds_t)(rand() % 400));
        host_end(client);
        turn(0);
        close_shells();
    }
    wait_connections(server, 0);
    const size_t met = count_events(server, XFER_EVENT_PEER_UP, ANY_USER);
    for (size_t i = 0; i < met; i++)
        assert_status(wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).status,
                      XFER_ECLOSED);
}

/* Nor is who leaves while both are sending, with more on its way than the kernel takes at once.
 * What comes for it then would be answered with a reset, which drops a goodbye that has not
 * arrived. */
static void test_leaves_while_moving(void **state) {
    enum { kOps = 8, kLength = 256 << 10 };
    Host *server = host_open(*state);
    host_listen(server, preferred("tcp://127.0.0.1:0"));
    xfer_ref_t ref;
    assert_status(xfer_region_ref(open_region(server, "memory", XFER_READ | XFER_WRITE,
                                              test_memory(kLength), kLength),
                                  &ref),
                  XFER_OK);
    uint8_t *bytes = test_memory(2 * kLength);
    xfer_engine_options_t options = host_options(THREAD_MODE);
    options.lanes = XFER_NONE;
    for (int round = 0; round < 40; round++) {
        Host *client = host_open_with(THREAD_MODE, &options);
        xfer_ep_t *ep = open_ep(client, server->uri);
        assert_status(connect_now(client, ep, 10000), XFER_OK);
        for (int i = 0; i < kOps; i++) {
            assert_status(xfer_get(ep, bytes, &ref, 0, kLength, 1, NULL), XFER_OK);
            assert_status(xfer_put(ep, bytes + kLength, &ref, 0, kLength, 1, NULL), XFER_OK);
        }
        pass_ms((uint32_t)(rand() % 2));
        host_end(client);
        turn(0);
    }
    wait_connections(server, 0);
    for (int round = 0; round < 40; round++)
        assert_status(wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).status,
                      XFER_ECLOSED);
}

/* ---- many ---- */

static void test_storm(void **state) {
    const Mode *mode = *state;
    enum { kClients = 24 };
    Host *server = host_open(mode);
    host_listen(server, "tcp://127.0.0.1:0");
    Host *clients[kClients];
    for (int i = 0; i < kClients; i++) {
        clients[i] = host_open(mode);
        assert_status(xfer_ep_connect(open_ep(clients[i], server->uri), 1, WITHIN(10000)), XFER_OK);
    }
    for (int i = 0; i < kClients; i++) {
        assert_status(wait_event(clients[i], XFER_EVENT_CONNECT, 1, kPatience).status, XFER_OK);
    }
    wait_connections(server, kClients);
    for (int i = 0; i < kClients; i++)
        wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), kClients);
    for (int i = 0; i < kClients; i++)
        host_end(clients[i]);
    wait_connections(server, 0);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_both_at_once),
    EACH_MODE(test_single_flight),
    EACH_MODE(test_key),
    EACH_DISPATCH(test_data_with_key),
    EACH_MODE(test_expected_identity),
    EACH_DISPATCH(test_ref_of_another),
    EACH_DISPATCH(test_ref_of_another_engine),
    EACH_DISPATCH(test_identity_used_twice),
    EACH_DISPATCH(test_smaller_dials),
    EACH_DISPATCH(test_larger_dials_in_the_end),
    EACH_MODE(test_served_by_who_came),
    EACH_DISPATCH(test_address_of_another),
    EACH_DISPATCH(test_address_of_a_member),
    EACH_MODE(test_leaves_while_meeting),
    EACH_DISPATCH(test_leaves_while_moving),
    EACH_MODE(test_storm),
};

TEST_MAIN(tests)
