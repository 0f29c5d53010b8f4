/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of peers: who is not there, dies, comes, goes, and by which path. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "contract.h"

static void no_listener(void **state) {
    (void)state;
    const char *uri = own_address();
    Host *host = host_open(DOOR);
    xfer_ep_t *ep = open_ep(host, uri);
    assert_status(xfer_ep_connect(ep, 1, WITHIN(kPatience / 2)), XFER_OK);
    const xfer_event_t event = wait_event(host, XFER_EVENT_CONNECT, 1, kPatience);
    assert_status(event.status, XFER_EUNREACHABLE);
    assert_int_equal(event.origin, XFER_ORIGIN_OS);
    assert_int_equal(event.native_code, ECONNREFUSED);
    assert_non_null(event.data);
    char reason[256];
    assert_true(event.data_length < sizeof reason);
    memcpy(reason, event.data, event.data_length);
    reason[event.data_length] = '\0';
    assert_non_null(strstr(reason, strrchr(uri, ':')));
}

static void peer_killed(void **state) {
    (void)state;
    enum { kLength = 24 << 20, kId = 7 };
    Peer peer;
    char uri[256];
    peer_start(&peer, own_address(), kLength, kId);
    Host *host = host_open(DOOR);
    uint8_t *local = test_memory(kLength), *back = test_memory(kLength);
    fill(local, kLength, 1);
    xfer_ep_t *ep = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    /* It does no more from here on, so that the put is under way however late we are. */
    peer_signal(&peer, SIGSTOP);
    assert_status(xfer_put(ep, local, &ref, 0, kLength, 1, NULL), XFER_OK);
    for (uint64_t end = now_ms() + kPatience; host_stats(host).inflight == 0; turn(1))
        assert_true(now_ms() < end);
    strcpy(uri, peer.uri);
    peer_kill(&peer);
    const xfer_event_t event = wait_event(host, XFER_EVENT_PUT, 1, kPatience);
    assert_status(event.status, XFER_EPEERLOST);
    assert_completion(&event);
    wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    wait_event(host, XFER_EVENT_PEER_UP, ANY_USER, kPatience); /* of its first life */

    peer_start(&peer, uri, kLength, kId);
    ref = look_up(host, ep, "memory");
    const xfer_event_t up = wait_event(host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_true((up.flags & XFER_RESTARTED) != 0);
    assert_status(put_now(host, ep, local, &ref, 0, kLength), XFER_OK);
    assert_status(get_now(host, ep, back, &ref, 0, kLength), XFER_OK);
    assert_memory_equal(back, local, kLength);
    host_end(host);
    peer_kill(&peer);
}

static void drain(void **state) {
    (void)state;
    enum { kLength = 4 << 20, kPuts = 16 };
    Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength);
    fill(local, kLength, 2);
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, kLength, i, NULL), XFER_OK);
    assert_status(xfer_engine_drain(pair.client->engine, 7, NULL), XFER_OK);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 1, 100, NULL), XFER_ECLOSED);
    const xfer_event_t drained = wait_event(pair.client, XFER_EVENT_DRAINED, 7, kPatience);
    assert_status(drained.status, XFER_OK);
    assert_ptr_equal(drained.object, pair.client->engine);
    for (uint64_t i = 0; i < kPuts; i++) {
        const xfer_event_t put = wait_event(pair.client, XFER_EVENT_PUT, i, 0);
        assert_status(put.status, XFER_OK);
        assert_true(put.sequence < drained.sequence);
    }
    assert_memory_equal(pair.memory, local, kLength);
    assert_status(wait_event(pair.server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).status,
                  XFER_ECLOSED);
}

static void admit_and_refuse(void **state) {
    (void)state;
    xfer_engine_options_t options = host_options(DOOR);
    options.flags = XFER_ENGINE_ASK;
    Host *server = host_open_with(DOOR, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    Host *guest = host_open(DOOR), *stranger = host_open(DOOR);
    xfer_ep_t *in = open_ep(guest, server->uri), *out = open_ep(stranger, server->uri);

    assert_status(xfer_ep_connect(in, 1, NULL), XFER_OK);
    xfer_ep_t *asks = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_int_equal(count_events(guest, XFER_EVENT_CONNECT, 1), 0);
    assert_status(xfer_ep_admit(asks, XFER_OK), XFER_OK);
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience).ep, asks);
    assert_status(wait_event(guest, XFER_EVENT_CONNECT, 1, kPatience).status, XFER_OK);

    assert_status(xfer_ep_connect(out, 2, NULL), XFER_OK);
    asks = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_status(xfer_ep_admit(asks, XFER_EACCESS), XFER_OK);
    const xfer_event_t refused = wait_event(stranger, XFER_EVENT_CONNECT, 2, kPatience);
    assert_status(refused.status, XFER_EACCESS);
    assert_int_equal(refused.origin, XFER_ORIGIN_PEER);
    const xfer_event_t down = wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_status(down.status, XFER_EACCESS);
    assert_ptr_equal(down.ep, asks);
}

static void peer_came_and_went(void **state) {
    (void)state;
    static const char words[] = "gone by then";
    xfer_engine_options_t options = host_options(DOOR);
    options.flags = XFER_ENGINE_OWN_PEERS;
    Host *server = host_open_with(DOOR, &options), *client = host_open(DOOR);
    host_listen(server, "tcp://127.0.0.1:0");
    server->paused = true;
    xfer_id_t id;
    assert_status(xfer_engine_id(client->engine, &id), XFER_OK);
    xfer_ep_t *there = open_ep(client, server->uri);
    assert_status(xfer_send(there, words, sizeof words, 5, 1, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_SEND, 1, kPatience).status, XFER_OK);
    host_end(client);
    /* PEER, PEER_UP and PEER_DOWN. */
    for (uint64_t end = now_ms() + kPatience; host_stats(server).events_queued < 3; turn(1))
        assert_true(now_ms() < end);
    server->paused = false;

    char buffer[sizeof words];
    uint32_t ep_state;
    xfer_peer_info_t info;
    xfer_ep_t *ep = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
    assert_ptr_equal(wait_event(server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).ep, ep);
    assert_status(xfer_ep_state(ep, &ep_state), XFER_OK);
    assert_int_equal(ep_state, XFER_EP_IDLE);
    assert_status(xfer_ep_peer(ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, &id, sizeof id);
    assert_status(xfer_recv(server->engine, ep, buffer, sizeof buffer, 5, UINT64_MAX, 2, NULL),
                  XFER_OK);
    const xfer_event_t event = wait_event(server, XFER_EVENT_RECV, 2, kPatience);
    assert_status(event.status, XFER_OK);
    assert_memory_equal(buffer, words, sizeof words);
    assert_memory_equal(event.data, &id, sizeof id);
    assert_status(xfer_ep_close(ep), XFER_OK);
    wait_closed(server, ep);
    host_end(server);
    assert_int_equal(count_events(server, XFER_EVENT_PEER, ANY_USER), 1);
    assert_int_equal(count_events(server, XFER_EVENT_CLOSED, ANY_USER), 2); /* the engine's, too */
}

/* What an engine says of its paths. */
static bool is_near(Host *host) {
    static char text[65536];
    uint64_t needed;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    return strstr(text, "\"control\": \"local\"") != NULL;
}

static void assert_moves(Pair *pair, uint64_t seed) {
    uint8_t *local = test_memory(pair->length);
    fill(local, pair->length, seed);
    assert_status(put_now(pair->client, pair->ep, local, &pair->ref, 0, pair->length), XFER_OK);
    assert_memory_equal(pair->memory, local, pair->length);
}

/* Has both ways by itself. */
static void same_host_path(void **state) {
    (void)state;
    enum { kLength = 3 << 20 };
    if (over_sockets()) {
        print_message("skipped: it has both ways by itself, beside contract_near_peers\n");
        skip();
    }
    Pair pair;
    open_two(&pair, kLength);
    assert_moves(&pair, 1);
    for (uint64_t end = now_ms() + kPatience; !is_near(pair.client) || !is_near(pair.server);
         turn(1))
        assert_true(now_ms() < end);
    assert_moves(&pair, 2);
    const xfer_engine_options_t all = host_options(DOOR);
    xfer_engine_options_t tcp = all;
    tcp.transports = "tcp";
    pair_open_with(&pair, &all, &tcp, DOOR, kLength);
    for (uint64_t seed = 3; seed < 6; seed++)
        assert_moves(&pair, seed);
    assert_false(is_near(pair.client));
    assert_false(is_near(pair.server));
}

static const struct CMUnitTest tests[] = {
    TEST(no_listener),      TEST(peer_killed),        TEST(drain),
    TEST(admit_and_refuse), TEST(peer_came_and_went), TEST(same_host_path),
};

TEST_MAIN(tests)
