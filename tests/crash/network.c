/* SPDX-License-Identifier: Apache-2.0
 *
 * The network fails, and is mended: losses and delay, a black hole, and a cable that carries one
 * way only, or the first connection only. Deadlines hold meanwhile, whatever TCP is waiting for;
 * afterwards the work goes on by itself. */
#include <string.h>

#include "scene.h"
#include "wire.h"

enum {
    kHeartbeat = 300,
    kSlowHeartbeat = 1000,
    kDeadline = 150,
    kOps = 12,
    kSlot = 512 << 10,
    kLength = (kOps + 2) * kSlot
};
enum { kLate = kOps, kWaiting = kOps + 1 }; /* words of the put with a deadline, and of the last */

static const uint8_t key[32] = "an open secret of thirty-two b.";

typedef struct Scene {
    Wire wire;
    Host *server, *client;
    uint8_t *memory, *copy, *local;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint64_t seed;
    uint64_t lengths[kOps + 2];
    _Atomic uint64_t server_told, client_told; /* when: PEER_DOWN */
} Scene;

static Scene scene;

/* What the owner has when it is told; nothing that was lost may come after that. */
static void server_hook(Host *host, const xfer_event_t *event) {
    Scene *scene = host->hook_data;
    if (event->kind != XFER_EVENT_PEER_DOWN) return;
    memcpy(scene->copy, scene->memory, kLength);
    scene->server_told = now_us();
}

static void client_hook(Host *host, const xfer_event_t *event) {
    Scene *scene = host->hook_data;
    if (event->kind == XFER_EVENT_PEER_DOWN) scene->client_told = now_us();
}

static Host *open_at(Scene *scene, int end, HostHook hook, uint32_t heartbeat_ms) {
    xfer_engine_options_t options = host_options(THREAD_MODE);
    options.heartbeat_ms = heartbeat_ms;
    options.connect_ms = 500;
    options.key = key;
    options.key_length = sizeof key;
    wire_stand_at(&scene->wire, end);
    Host *host = host_open_with(THREAD_MODE, &options);
    host->hook_data = scene;
    host->hook = hook;
    return host;
}

static void open_scene(Scene *scene, uint32_t heartbeat_ms) {
    const char *why = wire_open(&scene->wire);
    if (why != NULL) {
        print_message("skip: %s\n", why);
        skip();
    }
    char uri[64];
    scene->memory = test_memory(kLength);
    scene->copy = test_memory(kLength);
    scene->local = test_memory(kLength);
    scene->client = open_at(scene, 0, client_hook, heartbeat_ms);
    scene->server = open_at(scene, 1, server_hook, heartbeat_ms);
    snprintf(uri, sizeof uri, "tcp://%s:0", wire_address(1));
    host_listen(scene->server, uri);
    wire_stand_at(&scene->wire, -1);
    open_region(scene->server, "memory", XFER_READ | XFER_WRITE, scene->memory, kLength);
    scene->ep = open_ep(scene->client, scene->server->uri);
    scene->ref = look_up(scene->client, scene->ep, "memory");
    wait_event(scene->client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    wait_event(scene->server, XFER_EVENT_PEER, ANY_USER, kPatience);
}

static void close_scene(Scene *scene) {
    wire_set(&scene->wire, false, 0, 0);
    host_end(scene->client);
    host_end(scene->server);
}

/* Also after a failure, so that the next scene has a wire of its own. */
static int teardown(void **state) {
    const int failed = fixture_teardown(state);
    wire_close(&scene.wire);
    return failed;
}

/* Slot i, from its beginning. */
static void put(Scene *scene, uint64_t round, uint64_t i, uint64_t length, uint32_t timeout_ms) {
    xfer_op_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms};
    uint8_t *local = scene->local + i * kSlot;
    scene->lengths[i] = length;
    fill(local, length, round * 100 + i);
    assert_status(
        xfer_put(scene->ep, local, &scene->ref, i * kSlot, length, round * 100 + i, &options),
        XFER_OK);
}

/* Its one event: well and there, or lost and, since the owner was told, for ever as it is. */
static xfer_status_t end_of(Scene *scene, uint64_t round, uint64_t i) {
    const uint64_t user = round * 100 + i;
    xfer_event_t event = wait_event(scene->client, XFER_EVENT_PUT, user, kPatience);
    assert_completion(&event);
    if (event.status == XFER_OK && !filled(scene->memory + i * kSlot, scene->lengths[i], user, 0))
        fail_msg("round %d: put %d ended well and is not there", (int)round, (int)i);
    return event.status;
}

static void test_bad_line(void **state) {
    (void)state;
    open_scene(&scene, 2000); /* what TCP sends again twice is no silence yet */
    wire_set(&scene.wire, false, 4000, 15);
    for (uint64_t i = 0; i < kOps; i++)
        put(&scene, 0, i, kSlot / 8, 0);
    for (uint64_t i = 0; i < kOps; i++)
        assert_status(end_of(&scene, 0, i), XFER_OK);
    uint8_t *back = test_memory(kOps * kSlot);
    for (uint64_t i = 0; i < kOps; i++)
        assert_status(get_now(scene.client, scene.ep, back, &scene.ref, i * kSlot, kSlot / 8),
                      XFER_OK);
    assert_int_equal(host_stats(scene.client).connection_ends, 0);
    close_scene(&scene);
}

/* ---- cut, one way or both, and healed ---- */

typedef struct Cut {
    bool ways[2];
    const char *silence; /* what is to be said of how long it took until it was noticed */
} Cut;

static void cut_cable(Scene *scene, const Cut *cut) {
    for (int way = 0; way < 2; way++)
        scene->wire.ways[way].cut = cut->ways[way];
}

static void wait_told(_Atomic uint64_t *told) {
    const uint64_t end = now_ms() + kPatience;
    while (*told == 0) {
        if (now_ms() > end) fail_msg("one end never learnt that the network was cut");
        turn(5);
    }
}

static void play_round(Scene *scene, const Cut *cut, uint64_t round, Times *silence,
                       Times *deadline, Times *healing) {
    scene->server_told = scene->client_told = 0;
    for (uint64_t i = 0; i < kOps; i++)
        put(scene, round, i, 1 + draw(&scene->seed, kSlot), 0);
    pass_us(draw(&scene->seed, 20000));
    cut_cable(scene, cut);
    const uint64_t began = now_us();
    /* Behind what can't leave: it ends in time all the same. */
    put(scene, round, kLate, kSlot, kDeadline);
    assert_status(end_of(scene, round, kLate), XFER_ETIMEDOUT);
    const uint64_t took = now_us() - began;
    assert_true(took + 1000 >= kDeadline * 1000);
    times_add(deadline, took - kDeadline * 1000);
    wait_told(&scene->client_told);
    times_add(silence, scene->client_told - began);
    put(scene, round, kWaiting, 4096, 0); /* for the next connection */
    wait_told(&scene->server_told);
    assert_int_equal(count_events(scene->client, XFER_EVENT_PUT, round * 100 + kWaiting), 0);
    cut_cable(scene, &(Cut){.silence = ""});
    const uint64_t healed = now_us();
    assert_status(end_of(scene, round, kWaiting), XFER_OK);
    times_add(healing, now_us() - healed);
    for (uint64_t i = 0; i < kOps; i++) {
        const xfer_status_t status = end_of(scene, round, i);
        if (status == XFER_OK) continue;
        assert_status(status, XFER_EPEERLOST);
        assert_memory_equal(scene->memory + i * kSlot, scene->copy + i * kSlot, kSlot);
    }
    xfer_event_t up = wait_event(scene->client, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RECONNECTED | XFER_RESTARTED), XFER_RECONNECTED);
    assert_int_equal(host_stats(scene->client).connections, 1);
}

static void test_cut_and_healed(void **state) {
    Times silence = {.count = 0}, deadline = {.count = 0}, healing = {.count = 0};
    open_scene(&scene, kHeartbeat);
    scene.seed = first_seed("test_cut_and_healed");
    wire_set(&scene.wire, false, 1000, 0);
    for (int round = 0; round < rounds_of(4); round++)
        play_round(&scene, *state, (uint64_t)round, &silence, &deadline, &healing);
    times_print(&silence, "network cut until the initiator is told",
                ((const Cut *)*state)->silence);
    times_print(&deadline, "past the deadline, in a black hole",
                "below the 100 ms for the owner's word");
    times_print(&healing, "network healed until a waiting put is there", "no target");
    close_scene(&scene);
}

/* ---- one route of several breaks ---- */

typedef struct Route {
    bool gets, ways[2]; /* what is moved, and which way it breaks */
} Route;

static void lose(Scene *scene, const Route *route, uint32_t kept) {
    for (int way = 0; way < 2; way++)
        scene->wire.ways[way].carried_flows = route->ways[way] ? kept : 0;
}

/* `kept`: in the middle of them all other connections are lost; 0: none is. */
static void move_all(Scene *scene, uint64_t round, const Route *route, uint32_t kept) {
    if (route->gets) memset(scene->local, 0xa5, kLength);
    for (uint64_t i = 0; i < kOps; i++) {
        if (i == kOps / 2) lose(scene, route, kept);
        if (!route->gets) put(scene, round, i, kSlot, 0);
        if (route->gets)
            assert_status(xfer_get(scene->ep, scene->local + i * kSlot, &scene->ref, i * kSlot,
                                   kSlot, round * 100 + i, NULL),
                          XFER_OK);
    }
}

/* How many of them were lost, and which. */
static uint64_t ends_of(Scene *scene, uint64_t round, const Route *route, bool *failed) {
    uint64_t lost = 0;
    for (uint64_t i = 0; i < kOps; i++) {
        const uint64_t user = round * 100 + i;
        const xfer_event_t event = wait_event(
            scene->client, route->gets ? XFER_EVENT_GET : XFER_EVENT_PUT, user, kPatience);
        assert_completion(&event);
        failed[i] = event.status != XFER_OK;
        if (failed[i])
            assert_status(event.status, XFER_EPEERLOST);
        else
            assert_memory_equal(scene->local + i * kSlot, scene->memory + i * kSlot, kSlot);
        lost += failed[i];
    }
    return lost;
}

/* By the first connections, of which one is that of the frames, heartbeats are answered. */
static void test_lost_route(void **state) {
    const Route *route = *state;
    bool failed[kOps];
    uint64_t round = 0;
    Times ends = {.count = 0};
    open_scene(&scene, kSlowHeartbeat);
    const uint32_t kept = scene.wire.flow_count;
    fill(scene.memory, kLength, 77);
    for (; round < 2 || scene.wire.flow_count == kept; round++) { /* with lanes of data */
        assert_true(round < 20);
        move_all(&scene, round, route, 0);
        assert_int_equal(ends_of(&scene, round, route, failed), 0);
    }
    pass_us(500000); /* they are joined */
    assert_int_equal(host_stats(scene.client).connection_ends, 0);
    move_all(&scene, round, route, kept);
    const uint64_t began = now_us();
    assert_true(ends_of(&scene, round, route, failed) > 0);
    const uint64_t took = now_us() - began;
    assert_true(took < 10 * kSlowHeartbeat * 1000);
    times_add(&ends, took);
    uint8_t *const there = route->gets ? scene.local : scene.memory;
    memcpy(scene.copy, there, kLength);
    assert_true(host_stats(scene.client).lane_falls > 0);
    put(&scene, ++round, kWaiting, 64, 0); /* by the lane that is left */
    assert_status(end_of(&scene, round, kWaiting), XFER_OK);
    lose(&scene, route, 0);
    pass_us(500000); /* what TCP sends again comes, to whom it is of no use */
    for (uint64_t i = 0; i < kOps; i++)
        if (failed[i]) assert_memory_equal(there + i * kSlot, scene.copy + i * kSlot, kSlot);
    move_all(&scene, ++round, route, 0);
    assert_int_equal(ends_of(&scene, round, route, failed), 0);
    assert_int_equal(host_stats(scene.client).connection_ends, 0);
    times_print(&ends, "a route of data lanes is lost until what goes by it has ended",
                "heartbeat 1 s, no target");
    close_scene(&scene);
}

static Cut both = {{true, true}, "heartbeat 300 ms, below two"};
/* The owner is heard until it gives up, and its last words are stuck behind what TCP sends again.
 */
static Cut to_owner = {{true, false}, "heartbeat 300 ms, no target"};
static Cut from_owner = {{false, true}, "heartbeat 300 ms, below two"};
#define CUT_TEST(cut, name) \
    { "test_cut_and_healed [" name "]", test_cut_and_healed, fixture_setup, teardown, &(cut) }

static Route puts_both = {false, {true, true}};
static Route puts_there = {false, {true, false}};
static Route gets_back = {true, {false, true}};
#define ROUTE_TEST(route, name) \
    { "test_lost_route [" name "]", test_lost_route, fixture_setup, teardown, &(route) }

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_bad_line, fixture_setup, teardown),
    CUT_TEST(both, "both ways"),
    CUT_TEST(to_owner, "to the owner"),
    CUT_TEST(from_owner, "from the owner"),
    ROUTE_TEST(puts_both, "puts, both ways"),
    ROUTE_TEST(puts_there, "puts, to the owner"),
    ROUTE_TEST(gets_back, "gets, from the owner"),
};

TEST_MAIN(tests)
