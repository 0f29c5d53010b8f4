/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer that is stopped, for longer than the heartbeat or not quite, and wakes: it was given up,
 * and does not know. Each operation has one end; what ended well is there; and once the owner was
 * told, nothing of what was lost lands any more. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "scene.h"

enum { kHeartbeat = 200, kOps = 12, kSlot = 1 << 20, kLength = kOps * kSlot };

/* Of the owner, and seen by the test: its memory, and what that was when it was last told. */
typedef struct Board {
    uint8_t memory[kLength], told_memory[kLength];
    _Atomic int ups, told;
} Board;

/* ---- the role: an owner that takes a copy when it is told ---- */

static void take_copy(const xfer_event_t *event, uint64_t user) {
    Board *board = (Board *)(uintptr_t)user;
    if (event->kind == XFER_EVENT_PEER_UP) board->ups++;
    if (event->kind != XFER_EVENT_PEER_DOWN) return;
    memcpy(board->told_memory, board->memory, kLength);
    board->told++;
}

static int own_role(const char *argument) {
    int fd = -1;
    char bound[256], ignored;
    if (sscanf(argument, "%d", &fd) != 1) return 2;
    Board *board = shared_map(fd, sizeof *board);
    xfer_engine_options_t options = {
        .size = sizeof options, .on_event = take_copy, .user = (uint64_t)(uintptr_t)board};
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "memory"};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    if (board == NULL || xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_region_open(engine, &lent, board->memory, kLength, &region, NULL) != XFER_OK ||
        xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    while (read(STDIN_FILENO, &ignored, 1) > 0) {}
    return 0;
}

/* ---- the test ---- */

typedef struct Scene {
    Host *host;
    Peer peer;
    Shared shared;
    Board *board;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint8_t *local;
    uint64_t seed, lengths[kOps];
    _Atomic uint64_t down;  /* when */
    _Atomic int ups, downs; /* of its connections */
} Scene;

static void note(Host *host, const xfer_event_t *event) {
    Scene *scene = host->hook_data;
    if (event->kind == XFER_EVENT_PEER_UP) scene->ups++;
    if (event->kind != XFER_EVENT_PEER_DOWN) return;
    scene->down = now_us();
    scene->downs++;
}

static void open_scene(Scene *scene, const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    char argument[32];
    options.heartbeat_ms = kHeartbeat;
    *scene = (Scene){.shared = shared_new(sizeof(Board)), .local = test_memory(kLength)};
    scene->board = (Board *)scene->shared.memory;
    snprintf(argument, sizeof argument, "%d", scene->shared.fd);
    peer_start_role(&scene->peer, "own", argument);
    peer_read_line(&scene->peer, scene->peer.uri, sizeof scene->peer.uri);
    scene->host = host_open_with(mode, &options);
    scene->host->hook_data = scene;
    scene->host->hook = note;
    scene->ep = open_ep(scene->host, scene->peer.uri);
    scene->ref = look_up(scene->host, scene->ep, "memory");
}

static int check_ends(Scene *scene, uint64_t round) {
    int lost = 0;
    for (uint64_t i = 0; i < kOps; i++) {
        const uint64_t user = round * 100 + i;
        const uint8_t *slot = scene->board->memory + i * kSlot;
        xfer_event_t event = wait_event(scene->host, XFER_EVENT_PUT, user, kPatience);
        assert_completion(&event);
        assert_int_equal(count_events(scene->host, XFER_EVENT_PUT, user), 1);
        if (event.status == XFER_OK) {
            if (!filled(slot, scene->lengths[i], user, 0))
                fail_msg("round %d: put %d ended well and is not there", (int)round, (int)i);
            continue;
        }
        assert_status(event.status, XFER_EPEERLOST);
        lost++;
        scene->lengths[i] = 0;
    }
    return lost;
}

/* One that is told of an end while the next connection comes and goes hears nothing of that: so the
 * owner knows of the connection by which we put, and of all ends before. */
static void settle(Scene *scene) {
    const uint64_t end = now_ms() + kPatience;
    look_up(scene->host, scene->ep, "memory");
    while (scene->board->ups != scene->ups || scene->board->told != scene->downs) {
        if (now_ms() > end)
            fail_msg("%d ups, %d told; here %d and %d", scene->board->ups, scene->board->told,
                     scene->ups, scene->downs);
        turn(5);
    }
}

/* The owner is told of the end of the connection by which they came. */
static void check_lost_stay_lost(Scene *scene, int told_before) {
    const uint64_t end = now_ms() + kPatience;
    while (scene->board->told == told_before) {
        if (now_ms() > end) fail_msg("the owner was never told");
        turn(5);
    }
    pass_ms(30);
    for (uint64_t i = 0; i < kOps; i++)
        if (scene->lengths[i] == 0)
            assert_memory_equal(scene->board->memory + i * kSlot,
                                scene->board->told_memory + i * kSlot, kSlot);
}

static void play_round(Scene *scene, uint64_t round, Times *times) {
    settle(scene);
    const int told = scene->board->told;
    scene->down = 0;
    for (uint64_t i = 0; i < kOps; i++) {
        scene->lengths[i] = 1 + draw(&scene->seed, kSlot);
        fill(scene->local + i * kSlot, scene->lengths[i], round * 100 + i);
        assert_status(xfer_put(scene->ep, scene->local + i * kSlot, &scene->ref, i * kSlot,
                               scene->lengths[i], round * 100 + i, NULL),
                      XFER_OK);
    }
    pass_us(draw(&scene->seed, 3000));
    const uint64_t stopped = now_us();
    peer_signal(&scene->peer, SIGSTOP);
    pass_ms((uint32_t)draw(&scene->seed, 3 * kHeartbeat));
    peer_signal(&scene->peer, SIGCONT);
    if (check_ends(scene, round) > 0) check_lost_stay_lost(scene, told);
    if (scene->down) times_add(times, scene->down - stopped);
}

static void test_owner_stopped(void **state) {
    static Scene scene;
    Times times = {.count = 0};
    open_scene(&scene, *state);
    scene.seed = first_seed("test_owner_stopped");
    for (int round = 0; round < rounds_of(10); round++)
        play_round(&scene, (uint64_t)round, &times);
    if (times.count > 0)
        times_print(&times, "SIGSTOP until the peer is given up", "heartbeat 200 ms, below two");
    shared_drop(&scene.shared);
}

static const struct CMUnitTest tests[] = {EACH_DISPATCH(test_owner_stopped)};

TEST_MAIN_AFTER(tests, peer_role("own", own_role))
