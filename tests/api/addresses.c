/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the peer of an endpoint is: lists of addresses, an id alone, this engine itself, and
 * addresses that are added. */
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static xfer_id_t id_of(const Host *host) {
    xfer_id_t id;
    assert_status(xfer_engine_id(host->engine, &id), XFER_OK);
    return id;
}

static xfer_ep_t *open_to(Host *host, const char *uri, const xfer_id_t *peer) {
    xfer_ep_options_t options = {.size = sizeof options, .peer = peer, .user = 77};
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(host->engine, uri, &options, &ep, NULL), XFER_OK);
    return ep;
}

static Host *open_at(const Mode *mode, const char *uri) {
    Host *host = host_open(mode);
    host_listen(host, uri);
    return host;
}

static xfer_status_t probe_now(Host *host, xfer_ep_t *ep, uint32_t ms) {
    static uint64_t word = 1000;
    assert_status(xfer_ep_probe(ep, ++word, WITHIN(ms)), XFER_OK);
    return wait_event(host, XFER_EVENT_PROBE, word, kPatience).status;
}

static void assert_peer(xfer_ep_t *ep, const xfer_id_t *id) {
    xfer_peer_info_t info;
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, id, sizeof *id);
}

/* ---- lists ---- */

static void test_in_turn(void **state) {
    Host *client = host_open(*state), *server = open_at(*state, "tcp://127.0.0.1:0");
    char dead[2][64], list[512];
    xfer_peer_info_t info;
    for (int i = 0; i < 2; i++)
        strcpy(dead[i], own_address());
    snprintf(list, sizeof list, "%s,%s,%s", dead[0], dead[1], server->uri);
    xfer_ep_t *ep = open_to(client, list, NULL), *same = open_to(client, list, NULL);
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_string_equal(info.address, dead[0]);
    assert_status(connect_now(client, ep, kPatience), XFER_OK);
    assert_status(connect_now(client, same, kPatience), XFER_OK);
    assert_int_equal(host_stats(client).connects, 3);
    assert_int_equal(host_stats(client).connections, 1);
}

static void test_malformed(void **state) {
    Host *host = host_open(*state);
    static const struct {
        const char *uri, *part;
    } table[] = {
        {"tcp://127.0.0.1:5,bogus", "2 of 2: address \"bogus\""},
        {"tcp://127.0.0.1:5,,tcp://127.0.0.1:6", "2 of 3: the address is empty"},
        {"tcp://127.0.0.1:5,", "2 of 2: the address is empty"},
        {",", "1 of 2: the address is empty"},
        {"tcp://127.0.0.1:5, tcp://127.0.0.1:6", "2 of 2: "},
        {"tcp://127.0.0.1:5,tcp://*:6", "2 of 2: address \"tcp://*:6\": a peer is at one host"},
        {"tcp://127.0.0.1:5,tcp://127.0.0.1:6-7", "2 of 2: address \"tcp://127.0.0.1:6-7\""},
        {"tcp://:5", "address \"tcp://:5\": a peer is at one host"},
    };
    xfer_ep_t *ep = NULL, *open = open_to(host, "tcp://127.0.0.1:5", NULL);
    xfer_error_t err;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_status(xfer_ep_open(host->engine, table[i].uri, NULL, &ep, &err), XFER_EADDR);
        if (strstr(err.message, table[i].part) == NULL) fail_msg("%s", err.message);
        assert_status(xfer_ep_add_address(open, table[i].uri, &err), XFER_EADDR);
        if (strstr(err.message, table[i].part) == NULL) fail_msg("%s", err.message);
    }
    const xfer_id_t none = {.incarnation = 1};
    xfer_ep_options_t options = {.size = sizeof options};
    assert_status(xfer_ep_open(host->engine, NULL, &options, &ep, &err), XFER_EINVAL);
    assert_non_null(strstr(err.message, "uri is NULL, and xfer_ep_options_t.peer"));
    options.peer = &none;
    assert_status(xfer_ep_open(host->engine, NULL, &options, &ep, &err), XFER_EINVAL);
    assert_non_null(strstr(err.message, "xfer_ep_options_t.peer is all zero"));
}

/* A list of a later engine, or of one with other transports, has ways that we have not: they are
 * left out while there is another. */
static void test_not_served(void **state) {
    Host *client = host_open(*state), *server = open_at(*state, "tcp://127.0.0.1:0");
    char list[1024];
    xfer_ep_t *ep = NULL;
    xfer_error_t err;
    assert_status(
        xfer_ep_open(client->engine, "pigeon://b,later://c?d=1,quic+tcp://e:1", NULL, &ep, &err),
        XFER_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "1 of 3: "));
    assert_non_null(strstr(err.message, "pigeon"));
    assert_null(ep);
    snprintf(list, sizeof list, "pigeon://b,%s,quic+tcp://e:1", server->uri);
    ep = open_to(client, list, NULL);
    assert_status(connect_now(client, ep, kPatience), XFER_OK);
    assert_int_equal(host_stats(client).connects, 1);
    xfer_ep_t *added = open_to(client, "tcp://127.0.0.1:1", NULL);
    assert_status(xfer_ep_add_address(added, "pigeon://b", &err), XFER_EUNSUPPORTED);
    assert_status(xfer_ep_add_address(added, list, &err), XFER_OK);
    assert_status(xfer_ep_open(client->engine, "pigeon://b,bogus", NULL, &ep, &err), XFER_EADDR);
    assert_non_null(strstr(err.message, "2 of 2: "));
}

/* As many as there may be, at once or one by one; what is there already counts once. */
static void test_bound(void **state) {
    Host *host = host_open(*state);
    char list[65 * 32] = "", uri[32];
    xfer_ep_t *ep = NULL;
    xfer_error_t err;
    for (int i = 1; i <= 64; i++) {
        snprintf(uri, sizeof uri, "%stcp://127.0.0.1:%d", i > 1 ? "," : "", i);
        strcat(list, uri);
    }
    xfer_ep_t *full = open_to(host, list, NULL), *filled = open_to(host, "tcp://127.0.0.1:1", NULL);
    assert_status(xfer_ep_add_address(filled, list, NULL), XFER_OK);
    assert_status(xfer_ep_add_address(filled, list, NULL), XFER_OK);
    assert_status(xfer_ep_add_address(filled, "tcp://127.0.0.1:65", &err), XFER_ETOOBIG);
    assert_status(xfer_ep_add_address(full, "tcp://127.0.0.1:65", &err), XFER_ETOOBIG);
    assert_status(xfer_ep_add_address(full, "tcp://127.0.0.1:64", &err), XFER_OK);
    strcat(list, ",tcp://127.0.0.1:65");
    assert_status(xfer_ep_open(host->engine, list, NULL, &ep, &err), XFER_ETOOBIG);
    assert_non_null(strstr(err.message, "64"));
}

/* Two engines at the addresses of one list: who answers first is the peer, and stays it. A handle
 * for the other address alone is for the other engine. */
static void test_two_engines(void **state) {
    Host *client = host_open(*state);
    Host *first = open_at(*state, own_address()), *other = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t first_id = id_of(first), other_id = id_of(other);
    char list[600], at[256];
    strcpy(at, first->uri);
    snprintf(list, sizeof list, "%s,%s", first->uri, other->uri);
    xfer_ep_t *ep = open_to(client, list, NULL), *beside = open_ep(client, other->uri);
    assert_status(xfer_ep_probe(beside, 1, WITHIN(kPatience)), XFER_OK);
    assert_status(xfer_ep_probe(ep, 2, WITHIN(kPatience)), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_PROBE, 1, kPatience).status, XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_PROBE, 2, kPatience).status, XFER_OK);
    assert_peer(ep, &first_id);
    assert_peer(beside, &other_id);
    host_end(first);
    wait_event(client, XFER_EVENT_PEER_DOWN, 77, kPatience);
    assert_status(probe_now(client, ep, 700), XFER_ETIMEDOUT);
    assert_peer(ep, &first_id);
    assert_int_equal(count_events(client, XFER_EVENT_PEER_UP, 77), 1);
    /* Its successor, where it was. */
    Host *next = open_at(*state, at);
    const xfer_id_t next_id = id_of(next);
    assert_status(probe_now(client, ep, kPatience), XFER_OK);
    assert_peer(ep, &next_id);
    take_event(client, XFER_EVENT_PEER_UP, 77, &(xfer_event_t){0});
    assert_int_equal(wait_event(client, XFER_EVENT_PEER_UP, 77, kPatience).flags, XFER_RESTARTED);
    assert_peer(beside, &other_id);
}

/* Nobody is found by an address that is only listed: who is opened for it goes to who answers. */
static void test_listed_is_not_found(void **state) {
    Host *client = host_open(*state), *first = open_at(*state, "tcp://127.0.0.1:0");
    Host *other = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t first_id = id_of(first), other_id = id_of(other);
    char list[600];
    snprintf(list, sizeof list, "%s,%s", first->uri, other->uri);
    xfer_ep_t *ep = open_to(client, list, NULL);
    assert_status(probe_now(client, ep, kPatience), XFER_OK);
    xfer_ep_t *late = open_ep(client, other->uri), *beside = open_ep(client, first->uri);
    assert_status(probe_now(client, late, kPatience), XFER_OK);
    assert_status(probe_now(client, beside, kPatience), XFER_OK);
    assert_peer(late, &other_id);
    assert_peer(beside, &first_id);
    assert_int_equal(host_stats(client).connections, 2);
}

/* Whom nobody has answered yet is not bound to the peer that was at its first address before. */
static void test_list_of_one_that_is_gone(void **state) {
    Host *client = host_open(*state);
    Host *gone = open_at(*state, own_address()), *next = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t next_id = id_of(next);
    char list[600];
    snprintf(list, sizeof list, "%s,%s", gone->uri, next->uri);
    xfer_ep_t *before = open_to(client, gone->uri, NULL);
    assert_status(probe_now(client, before, kPatience), XFER_OK);
    host_end(gone);
    wait_event(client, XFER_EVENT_PEER_DOWN, 77, kPatience);
    xfer_ep_t *ep = open_to(client, list, NULL);
    assert_status(probe_now(client, ep, kPatience), XFER_OK);
    assert_peer(ep, &next_id);
    assert_status(probe_now(client, before, 300), XFER_ETIMEDOUT);
}

/* It answers at an address of the list while a connection that it has made is up: it has been seen
 * there all the same, and its successor there is followed. */
static void test_seen_beside_its_own_connection(void **state) {
    xfer_engine_options_t options = host_options(*state);
    memset(options.id, 0x71, sizeof options.id);
    Host *client = open_at(*state, "tcp://127.0.0.1:0");
    Host *server = host_open_with(*state, &options);
    host_listen(server, own_address());
    char dead[64], list[600], at[256];
    strcpy(dead, own_address());
    strcpy(at, server->uri);
    snprintf(list, sizeof list, "%s,%s", at, dead);
    assert_status(connect_now(server, open_ep(server, client->uri), kPatience), XFER_OK);
    wait_event(client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    xfer_ep_t *ep = open_to(client, list, NULL);
    assert_status(probe_now(client, ep, kPatience), XFER_OK);
    assert_int_equal(host_stats(client).connections, 1);
    host_end(server);
    wait_event(client, XFER_EVENT_PEER_DOWN, 77, kPatience);
    const xfer_id_t next_id = id_of(open_at(*state, at));
    assert_status(probe_now(client, ep, kPatience), XFER_OK);
    assert_peer(ep, &next_id);
}

/* With an id the others of a list are attempts that failed; it ends when all of them did so. */
static void test_expected_in_list(void **state) {
    Host *client = host_open(*state);
    Host *a = open_at(*state, "tcp://127.0.0.1:0"), *b = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t b_id = id_of(b), nobody = {.bytes = {1}};
    char list[600];
    snprintf(list, sizeof list, "%s,%s", a->uri, b->uri);
    assert_status(connect_now(client, open_to(client, list, &b_id), kPatience), XFER_OK);
    xfer_ep_t *ep = open_to(client, list, &nobody);
    assert_status(probe_now(client, ep, kPatience), XFER_EIDENTITY);
    assert_status(connect_now(client, ep, kPatience), XFER_EIDENTITY);
    char dead[64];
    strcpy(dead, own_address());
    snprintf(list, sizeof list, "%s,%s", dead, a->uri);
    assert_status(probe_now(client, open_to(client, list, &nobody), 300), XFER_ETIMEDOUT);
}

/* Another handle has named an address where another engine is: that is told to that handle, and
 * counts as tried for the others. */
static void test_expected_beside_another(void **state) {
    Host *client = host_open(*state);
    Host *a = open_at(*state, "tcp://127.0.0.1:0"), *b = open_at(*state, "tcp://127.0.0.1:0"),
         *c = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t nobody = {.bytes = {1}};
    char list[600];
    snprintf(list, sizeof list, "%s,%s", a->uri, b->uri);
    xfer_ep_t *listed = open_to(client, list, &nobody), *single = open_to(client, c->uri, &nobody);
    assert_status(xfer_ep_probe(single, 1, WITHIN(kPatience)), XFER_OK);
    assert_status(probe_now(client, listed, kPatience), XFER_EIDENTITY);
    assert_status(wait_event(client, XFER_EVENT_PROBE, 1, kPatience).status, XFER_EIDENTITY);
    assert_status(probe_now(client, single, kPatience), XFER_EIDENTITY);
}

/* ---- an id alone ---- */

static void test_by_id_alone(void **state) {
    xfer_engine_options_t options = host_options(*state);
    memset(options.id, 0x41, sizeof options.id);
    xfer_id_t id = {.incarnation = 0};
    memset(id.bytes, 0x41, sizeof id.bytes);
    Host *server = open_at(*state, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_to(server, NULL, &id);
    for (uint64_t life = 1; life <= 2; life++) {
        assert_status(xfer_ep_probe(ep, 5, WITHIN(kPatience)), XFER_OK);
        pass_ms(30);
        assert_int_equal(count_events(server, XFER_EVENT_PROBE, 5), life - 1);
        Host *client = host_open_with(*state, &options);
        assert_status(connect_now(client, open_ep(client, server->uri), kPatience), XFER_OK);
        assert_status(wait_event(server, XFER_EVENT_PROBE, 5, kPatience).status, XFER_OK);
        assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, 77, kPatience).ep, ep);
        host_end(client);
        wait_event(server, XFER_EVENT_PEER_DOWN, 77, kPatience);
    }
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 0);
    assert_int_equal(host_stats(server).connects, 0);
}

/* Another handle may say where it is, and be wrong: who has said nothing waits on. */
static void test_waits_beside_a_wrong_address(void **state) {
    Host *client = host_open(*state);
    Host *other = open_at(*state, "tcp://127.0.0.1:0"),
         *third = open_at(*state, "tcp://127.0.0.1:0");
    const xfer_id_t nobody = {.bytes = {1}};
    char list[600];
    snprintf(list, sizeof list, "%s,%s", other->uri, third->uri);
    xfer_ep_t *ep = open_to(client, NULL, &nobody);
    assert_status(xfer_ep_probe(ep, 5, WITHIN(1000)), XFER_OK);
    assert_status(probe_now(client, open_to(client, other->uri, &nobody), kPatience),
                  XFER_EIDENTITY);
    assert_status(probe_now(client, open_to(client, list, &nobody), kPatience), XFER_EIDENTITY);
    assert_status(wait_event(client, XFER_EVENT_PROBE, 5, kPatience).status, XFER_ETIMEDOUT);
}

static void assert_nobody_came(const xfer_event_t *event) {
    assert_status(event->status, XFER_ETIMEDOUT);
    static const char why[] = "no address is known, and no connection from it has come";
    assert_int_equal(event->data_length, strlen(why));
    assert_memory_equal(event->data, why, strlen(why));
}

static void test_nobody_comes(void **state) {
    Pair pair;
    xfer_engine_options_t server = host_options(*state), client = server;
    client.stall_ms = 1500; /* the pair opens within it */
    pair_open_with(&pair, &server, &client, *state, 64);
    const xfer_id_t nobody = {.bytes = {1}};
    xfer_ep_t *ep = open_to(pair.client, NULL, &nobody);
    uint8_t data[8] = {0};
    assert_status(xfer_ep_probe(ep, 1, WITHIN(30)), XFER_OK);
    assert_status(xfer_ep_connect(ep, 2, NULL), XFER_OK);
    assert_status(xfer_send(ep, data, 8, 1, 3, NULL), XFER_OK);
    assert_status(xfer_notify(ep, NULL, 0, 1, 4, WITHIN(30)), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_PROBE, 1, kPatience);
    assert_nobody_came(&event);
    event = wait_event(pair.client, XFER_EVENT_CONNECT, 2, kPatience);
    assert_nobody_came(&event);
    event = wait_event(pair.client, XFER_EVENT_SEND, 3, kPatience);
    assert_nobody_came(&event);
    event = wait_event(pair.client, XFER_EVENT_NOTIFIED, 4, kPatience);
    assert_nobody_came(&event);
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(pair.client, ep);
}

/* ---- this engine ---- */

static void test_self(void **state) {
    Host *host = host_open(*state);
    const xfer_id_t id = id_of(host);
    uint8_t *memory = test_memory(4096), *local = test_memory(4096);
    open_region(host, "memory", XFER_READ | XFER_WRITE, memory, 4096);
    xfer_ep_t *eps[] = {open_to(host, NULL, &id), open_to(host, "tcp://192.0.2.1:1", &id)};
    for (uint64_t i = 0; i < 2; i++) {
        xfer_ref_t ref = look_up(host, eps[i], "memory");
        fill(local, 4096, i);
        assert_status(put_now(host, eps[i], local, &ref, 0, 4096), XFER_OK);
        assert_true(filled(memory, 4096, i, 0));
        assert_peer(eps[i], &id);
    }
    assert_int_equal(host_stats(host).accepts, 0);
    assert_int_equal(host_stats(host).connections, 1);
    /* Who comes by a listener's address joins, and ends nothing. */
    host_listen(host, "tcp://127.0.0.1:0");
    assert_status(probe_now(host, open_ep(host, host->uri), kPatience), XFER_OK);
    assert_status(probe_now(host, eps[0], kPatience), XFER_OK);
    assert_int_equal(host_stats(host).connection_ends, 0);
    for (int i = 0; i < 2; i++) {
        assert_status(xfer_ep_close(eps[i]), XFER_OK);
        wait_closed(host, eps[i]);
    }
}

static void test_self_without_loopback(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.transports = "tcp";
    Host *host = host_open_with(*state, &options);
    const xfer_id_t id = id_of(host);
    xfer_ep_options_t to_self = {.size = sizeof to_self, .peer = &id};
    xfer_ep_t *ep = NULL;
    xfer_error_t err;
    assert_status(xfer_ep_open(host->engine, NULL, &to_self, &ep, &err), XFER_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "loopback"));
}

/* ---- added ---- */

/* What waits is served there at once, whatever the attempts before were about. */
static void test_added_while_waiting(void **state) {
    Host *client = host_open(*state);
    char uris[2][64];
    int fd = black_hole(uris[0], sizeof uris[0]);
    strcpy(uris[1], own_address());
    for (uint64_t i = 0; i < 2; i++) {
        Host *server = host_open(*state);
        xfer_ep_t *ep = open_ep(client, uris[i]);
        assert_status(xfer_ep_probe(ep, i, WITHIN(kPatience)), XFER_OK);
        pass_ms(i == 0 ? 50 : 1500); /* an attempt is under way; the next one waits */
        host_listen(server, "tcp://127.0.0.1:0");
        const uint64_t start = now_ms();
        assert_status(xfer_ep_add_address(ep, server->uri, NULL), XFER_OK);
        assert_status(wait_event(client, XFER_EVENT_PROBE, i, kPatience).status, XFER_OK);
        assert_in_range(now_ms() - start, 0, 3000); /* connect_ms is 5,000 */
        assert_status(xfer_ep_add_address(ep, uris[1 - i], NULL), XFER_OK); /* no matter */
        assert_status(probe_now(client, ep, kPatience), XFER_OK);
        assert_int_equal(host_stats(client).connections, i + 1);
    }
    close(fd);
}

/* One that is about to succeed is let through: it has half a second. */
static void test_added_at_once(void **state) {
    Host *client = host_open(*state), *server = open_at(*state, "tcp://127.0.0.1:0");
    char dead[64];
    strcpy(dead, own_address());
    xfer_ep_t *ep = open_ep(client, server->uri);
    assert_status(xfer_ep_probe(ep, 1, WITHIN(kPatience)), XFER_OK);
    assert_status(xfer_ep_add_address(ep, dead, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_PROBE, 1, kPatience).status, XFER_OK);
    assert_int_equal(host_stats(client).connections, 1);
}

/* The peer is back elsewhere: as itself, or as another engine, which only a handle without an id
 * follows. */
static void test_restarted_elsewhere(void **state) {
    xfer_engine_options_t options = host_options(*state);
    memset(options.id, 0x51, sizeof options.id);
    Host *client = host_open(*state), *server = host_open_with(*state, &options);
    host_listen(server, own_address());
    xfer_id_t id = id_of(server);
    xfer_ep_t *any = open_ep(client, server->uri), *one = open_to(client, server->uri, &id);
    assert_status(probe_now(client, any, kPatience), XFER_OK);
    assert_status(probe_now(client, one, kPatience), XFER_OK);
    host_end(server);
    server = host_open_with(*state, &options);
    host_listen(server, own_address());
    id = id_of(server);
    assert_status(xfer_ep_add_address(one, server->uri, NULL), XFER_OK);
    assert_status(probe_now(client, one, kPatience), XFER_OK);
    assert_status(probe_now(client, any, kPatience), XFER_OK);
    assert_peer(any, &id);
    host_end(server);
    server = open_at(*state, own_address());
    id = id_of(server);
    assert_status(xfer_ep_add_address(any, server->uri, NULL), XFER_OK);
    assert_status(probe_now(client, any, kPatience), XFER_OK);
    assert_peer(any, &id);
    assert_status(xfer_ep_add_address(one, server->uri, NULL), XFER_OK);
    assert_status(probe_now(client, one, 500), XFER_ETIMEDOUT);
    assert_status(xfer_ep_close(one), XFER_OK);
    wait_closed(client, one);
}

/* A peer that came to us, and whose address we learn by other means. */
static void test_added_to_inbound(void **state) {
    xfer_engine_options_t options = host_options(*state);
    memset(options.id, 0x61, sizeof options.id);
    Host *server = open_at(*state, "tcp://127.0.0.1:0");
    Host *client = host_open_with(*state, &options);
    assert_status(probe_now(client, open_ep(client, server->uri), kPatience), XFER_OK);
    xfer_ep_t *ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_keep(ep, 77), XFER_OK);
    host_end(client);
    wait_event(server, XFER_EVENT_PEER_DOWN, 77, kPatience);
    client = host_open_with(*state, &options);
    host_listen(client, "tcp://127.0.0.1:0");
    assert_status(xfer_ep_probe(ep, 5, WITHIN(kPatience)), XFER_OK);
    assert_status(xfer_ep_add_address(ep, client->uri, NULL), XFER_OK);
    assert_status(wait_event(server, XFER_EVENT_PROBE, 5, kPatience).status, XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(server, ep);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_in_turn),
    ONE_MODE(test_malformed),
    EACH_DISPATCH(test_not_served),
    ONE_MODE(test_bound),
    EACH_MODE(test_two_engines),
    EACH_MODE(test_listed_is_not_found),
    EACH_MODE(test_list_of_one_that_is_gone),
    EACH_MODE(test_seen_beside_its_own_connection),
    EACH_MODE(test_expected_in_list),
    EACH_MODE(test_expected_beside_another),
    EACH_MODE(test_by_id_alone),
    EACH_MODE(test_waits_beside_a_wrong_address),
    EACH_MODE(test_nobody_comes),
    EACH_MODE(test_self),
    ONE_MODE(test_self_without_loopback),
    EACH_MODE(test_added_while_waiting),
    EACH_MODE(test_added_at_once),
    EACH_MODE(test_restarted_elsewhere),
    EACH_MODE(test_added_to_inbound),
};

TEST_MAIN(tests)
