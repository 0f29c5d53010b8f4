/* SPDX-License-Identifier: Apache-2.0
 *
 * A bound on live connections: more peers than it are served all the same, nobody notices, and what
 * has work under way is left alone. */
#include <string.h>

#include "fixture.h"

enum { kPeers = 12, kBound = 4 };

typedef struct Ring {
    Host *hub; /* it listens too: who can't be dialed back never goes */
    Host *peers[kPeers];
    xfer_ep_t *eps[kPeers];
    xfer_ref_t refs[kPeers];
    uint8_t *memory[kPeers];
} Ring;

static xfer_engine_options_t bounded(const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    options.max_connections = kBound;
    return options;
}

static void ring_open(Ring *ring, const Mode *mode) {
    xfer_engine_options_t options = bounded(mode);
    ring->hub = host_open_with(mode, &options);
    host_listen(ring->hub, "tcp://127.0.0.1:0");
    for (int i = 0; i < kPeers; i++) {
        ring->peers[i] = host_open(mode);
        host_listen(ring->peers[i], "tcp://127.0.0.1:0");
        ring->memory[i] = test_memory(4096);
        open_region(ring->peers[i], "memory", XFER_READ | XFER_WRITE, ring->memory[i], 4096);
        ring->eps[i] = open_ep(ring->hub, ring->peers[i]->uri);
    }
}

static void test_more_peers_than_connections(void **state) {
    Ring ring;
    ring_open(&ring, *state);
    uint8_t *local = test_memory(4096);
    const int rounds = quick() ? 2 : 5;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < kPeers; i++) {
            if (round == 0) ring.refs[i] = look_up(ring.hub, ring.eps[i], "memory");
            fill(local, 4096, (uint64_t)(round * kPeers + i));
            assert_status(put_now(ring.hub, ring.eps[i], local, &ring.refs[i], 0, 4096), XFER_OK);
            assert_memory_equal(ring.memory[i], local, 4096);
            assert_true(host_stats(ring.hub).connections <= kBound);
        }
    }
    assert_int_equal(count_events(ring.hub, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    assert_int_equal(count_events(ring.hub, XFER_EVENT_PEER_UP, ANY_USER), kPeers);
    /* Round and round through more than fit: whichever stay, the others need a connection anew. */
    assert_true(host_stats(ring.hub).connects >= (uint64_t)(rounds * (kPeers - kBound)));
}

/* All at once: those that do not fit wait for those that do. */
static void test_all_at_once(void **state) {
    Ring ring;
    ring_open(&ring, *state);
    for (int i = 0; i < kPeers; i++)
        assert_status(xfer_ep_lookup(ring.eps[i], "memory", (uint64_t)i, NULL, NULL), XFER_OK);
    for (int i = 0; i < kPeers; i++) {
        xfer_event_t event = wait_event(ring.hub, XFER_EVENT_LOOKUP, (uint64_t)i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_true(host_stats(ring.hub).connections <= kBound);
    }
}

/* Lookups that wait for a name keep their connections; the others go around in what is left. */
static void test_work_is_left_alone(void **state) {
    Ring ring;
    ring_open(&ring, *state);
    const xfer_op_options_t wait = {.size = sizeof wait, .flags = XFER_FLAG_WAIT};
    for (int i = 0; i < kBound - 1; i++) {
        assert_status(xfer_ep_lookup(ring.eps[i], "later", (uint64_t)i, &wait, NULL), XFER_OK);
        assert_status(connect_now(ring.hub, ring.eps[i], kPatience), XFER_OK);
    }
    for (int i = kBound; i < kPeers; i++)
        look_up(ring.hub, ring.eps[i], "memory");
    for (int i = 0; i < kBound - 1; i++) {
        xfer_ep_stats_t stats;
        assert_status(xfer_ep_stats(ring.eps[i], &stats, sizeof stats), XFER_OK);
        assert_int_equal(stats.connections, 1);
        open_region(ring.peers[i], "later", XFER_READ, ring.memory[i], 8);
        assert_status(wait_event(ring.hub, XFER_EVENT_LOOKUP, (uint64_t)i, kPatience).status,
                      XFER_OK);
    }
}

/* Peers that come to a full engine are let in when another can go. */
static void test_incoming_makes_room(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = bounded(mode);
    Host *server = host_open_with(mode, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    uint8_t *memory = test_memory(64);
    open_region(server, "memory", XFER_READ, memory, 64);
    for (int i = 0; i < kPeers; i++) {
        Host *client = host_open(mode);
        host_listen(client, "tcp://127.0.0.1:0");
        look_up(client, open_ep(client, server->uri), "memory");
        assert_true(host_stats(server).connections <= kBound);
    }
    assert_int_equal(host_stats(server).accepts >= kPeers, 1);
}

/* A client that nobody can dial holds its connection; who comes late hears that the peer is busy,
 * as the reason why its time ran out. */
static void test_full_of_clients(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = bounded(mode);
    Host *server = host_open_with(mode, &options);
    host_listen(server, "tcp://127.0.0.1:0");
    Host *clients[kBound + 1];
    xfer_ep_t *eps[kBound + 1];
    for (int i = 0; i <= kBound; i++) {
        clients[i] = host_open(mode);
        eps[i] = open_ep(clients[i], server->uri);
        if (i < kBound) assert_status(connect_now(clients[i], eps[i], kPatience), XFER_OK);
    }
    assert_status(xfer_ep_connect(eps[kBound], 1, WITHIN(1000)), XFER_OK);
    xfer_event_t event = wait_event(clients[kBound], XFER_EVENT_CONNECT, 1, kPatience);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_int_equal(event.origin, XFER_ORIGIN_PEER);
    assert_int_equal(event.native_code, XFER_EOVERLOAD);
    /* It waits for a place, and gets the one that becomes free. */
    assert_status(xfer_ep_connect(eps[kBound], 2, NULL), XFER_OK);
    host_end(clients[0]);
    assert_status(wait_event(clients[kBound], XFER_EVENT_CONNECT, 2, kPatience).status, XFER_OK);
    for (int i = 1; i < kBound; i++)
        assert_int_equal(count_events(clients[i], XFER_EVENT_PEER_DOWN, ANY_USER), 0);
}

int main(int argc, char **argv) {
    test_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        EACH_MODE(test_more_peers_than_connections),
        EACH_MODE(test_all_at_once),
        EACH_DISPATCH(test_work_is_left_alone),
        EACH_DISPATCH(test_incoming_makes_room),
        ONE_MODE(test_full_of_clients),
    };
    return run_modes(tests, sizeof tests / sizeof *tests);
}
