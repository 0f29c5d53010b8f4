/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner is killed in the middle of our work and comes back at the same address under the same
 * identity, again and again. Its memory is shared with the test, so that what an OK says can be
 * looked up when it is dead. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carried.h"
#include "scene.h"

enum { kId = 11, kOps = 24, kPages = 16, kPage = 4096 };
enum { kSlot = 256 << 10, kPuts = kOps * kSlot, kLength = 2 * kPuts + kPages * kPage };
enum { kGot = 900001 }; /* a pattern: what there is to get */

typedef struct Work {
    uint32_t kind; /* of its event */
    uint64_t length;
    xfer_status_t status;
} Work;

typedef struct Scene {
    Host *host;
    Peer peer;
    Shared memory; /* of the owner that lives */
    xfer_ep_t *ep;
    xfer_ref_t ref;
    xfer_batch_t *batch; /* prepared once: pages behind the slots */
    uint8_t *local;
    uint64_t seed;
    Holdings before;     /* without a connection */
    Work work[kOps + 1]; /* the last is the batch */
    _Atomic uint64_t last_loss;
} Scene;

static void note_loss(Host *host, const xfer_event_t *event) {
    Scene *scene = host->hook_data;
    if (event->kind <= XFER_EVENT_BATCH && event->status == XFER_EPEERLOST)
        scene->last_loss = now_us();
}

static void start_owner(Scene *scene, const char *uri) {
    scene->memory = shared_new(kLength);
    fill(scene->memory.memory + kPuts, kPuts, kGot);
    peer_start_shared(&scene->peer, uri, kLength, kId, scene->memory.fd);
}

static void prepare_batch(Scene *scene) {
    uint64_t pages[kPages];
    for (uint64_t i = 0; i < kPages; i++)
        pages[i] = i;
    xfer_page_base_t base = {(uint64_t)(uintptr_t)(scene->local + 2 * kPuts), &scene->ref,
                             2 * kPuts};
    xfer_pages_t table = {.size = sizeof table,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = kPage,
                          .count = kPages,
                          .local_pages = pages,
                          .remote_pages = pages,
                          .bases = &base,
                          .base_count = 1};
    assert_status(xfer_batch_open(scene->ep, NULL, &scene->batch, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(scene->batch, XFER_OP_PUT, &table, NULL), XFER_OK);
}

/* Not by wait_way, whose flush would tell of what has failed before. */
static void wait_carried(Scene *scene) {
    const char *way = wanted_way();
    const uint64_t end = now_ms() + kPatience;
    uint8_t *byte = test_memory(1);
    while (way != NULL && carried_by(scene->host->engine, way) == 0) {
        assert_true(now_ms() < end);
        assert_status(get_now(scene->host, scene->ep, byte, &scene->ref, 0, 1), XFER_OK);
    }
}

static void open_scene(Scene *scene, const Mode *mode) {
    *scene = (Scene){.local = test_memory(kLength), .host = host_open(mode)};
    const char *uri = own_address();
    scene->before = holdings();
    start_owner(scene, uri);
    scene->host->hook_data = scene;
    scene->host->hook = note_loss;
    scene->ep = open_ep(scene->host, scene->peer.uri);
    scene->ref = look_up(scene->host, scene->ep, "memory");
    wait_carried(scene);
    prepare_batch(scene);
    wait_event(scene->host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
}

static void submit_work(Scene *scene, uint64_t round) {
    for (uint64_t i = 0; i < kOps; i++) {
        Work *work = &scene->work[i];
        uint8_t *local = scene->local + i * kSlot;
        const uint64_t user = round * 100 + i;
        *work = (Work){.kind = draw(&scene->seed, 3) ? XFER_EVENT_PUT : XFER_EVENT_GET,
                       .length = 1 + draw(&scene->seed, kSlot)};
        fill(local, work->length, user);
        const uint64_t offset = i * kSlot;
        assert_status(
            work->kind == XFER_EVENT_PUT
                ? xfer_put(scene->ep, local, &scene->ref, offset, work->length, user, NULL)
                : xfer_get(scene->ep, local, &scene->ref, kPuts + offset, work->length, user, NULL),
            XFER_OK);
    }
    scene->work[kOps] = (Work){.kind = XFER_EVENT_BATCH, .length = kPages * kPage};
    fill(scene->local + 2 * kPuts, kPages * kPage, round * 100 + kOps);
    assert_status(xfer_batch_submit(scene->batch, round * 100 + kOps, NULL), XFER_OK);
}

/* All have ended, once, and what ended well is there: in `dead`, the memory of the owner that was
 * killed. */
static void check_work(Scene *scene, uint64_t round, const Shared *dead) {
    for (uint64_t i = 0; i <= kOps; i++) {
        const Work *work = &scene->work[i];
        const uint64_t user = round * 100 + i;
        xfer_event_t event = wait_event(scene->host, work->kind, user, kPatience);
        assert_completion(&event);
        assert_int_equal(count_events(scene->host, work->kind, user), 1);
        const uint8_t *applied = dead->memory + (i == kOps ? 2 * kPuts : i * kSlot);
        const bool got = work->kind == XFER_EVENT_GET;
        if (event.status != XFER_OK) {
            assert_true(event.status == XFER_EPEERLOST || event.status == XFER_ESTALE);
        } else if (got ? !filled(scene->local + i * kSlot, work->length, kGot, i * kSlot)
                       : !filled(applied, work->length, user, 0)) {
            fail_msg("round %d: operation %d ended well and is not there", (int)round, (int)i);
        }
    }
}

/* Nothing of the old work came here; what is asked for anew does. The batch is the old one. */
static void check_new_owner(Scene *scene, uint64_t round) {
    const xfer_ref_t old = scene->ref;
    const uint64_t user = round * 100 + 99;
    scene->ref = look_up(scene->host, scene->ep, "memory");
    wait_event(scene->host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    xfer_event_t up = wait_event(scene->host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    assert_int_equal(up.flags & (XFER_RESTARTED | XFER_RECONNECTED), XFER_RESTARTED);
    assert_memory_not_equal(&old, &scene->ref, sizeof old);
    assert_status(put_now(scene->host, scene->ep, scene->local, &old, 0, 64), XFER_ESTALE);
    assert_status(submit_now(scene->host, scene->batch), XFER_ESTALE);
    assert_true(all_zero(scene->memory.memory, kPuts));
    assert_true(all_zero(scene->memory.memory + 2 * kPuts, kPages * kPage));
    assert_status(xfer_batch_rebind(scene->batch, &old, &scene->ref, NULL), XFER_OK);
    fill(scene->local + 2 * kPuts, kPages * kPage, user);
    assert_status(submit_now(scene->host, scene->batch), XFER_OK);
    assert_true(filled(scene->memory.memory + 2 * kPuts, kPages * kPage, user, 0));
    wait_carried(scene);
}

static void play_round(Scene *scene, uint64_t round, Times *times) {
    char uri[256];
    strcpy(uri, scene->peer.uri);
    submit_work(scene, round);
    pass_us(draw(&scene->seed, 5000));
    Shared dead = scene->memory;
    const bool late =
        draw(&scene->seed, 2); /* the successor comes when all that was sent has ended */
    scene->last_loss = 0;
    const uint64_t killed = now_us();
    peer_kill(&scene->peer);
    if (late) pass_us(draw(&scene->seed, 20000));
    start_owner(scene, uri);
    check_work(scene, round, &dead);
    if (scene->last_loss) times_add(times, scene->last_loss - killed);
    check_new_owner(scene, round);
    shared_drop(&dead);
}

static void test_killed(void **state) {
    const int rounds = rounds_of(34);
    static Scene scene;
    Times times = {.count = 0};
    open_scene(&scene, *state);
    scene.seed = first_seed("test_killed");
    for (int round = 0; round < rounds; round++) {
        play_round(&scene, (uint64_t)round, &times);
        /* The first connection opens the adapters, which its engine keeps. */
        if (round == 0 && wanted_way() != NULL) scene.before = holdings();
    }
    assert_int_equal(count_events(scene.host, XFER_EVENT_PEER_DOWN, ANY_USER), rounds);
    assert_int_equal(count_events(scene.host, XFER_EVENT_PEER_UP, ANY_USER), rounds + 1);
    assert_int_equal(host_stats(scene.host).connections, 1);
    if (times.count > 0)
        times_print(&times, "kill -9 of the owner until what was sent has ended", "below 100 ms");
    peer_kill(&scene.peer);
    shared_drop(&scene.memory);
    assert_holdings(scene.before);
}

/* ---- what the survivor has itself stays as it was ---- */

static void test_survivor_keeps_all(void **state) {
    Scene scene;
    open_scene(&scene, *state);
    uint8_t *memory = test_memory(kPage);
    xfer_region_t *region = open_region(scene.host, "ours", XFER_READ | XFER_WRITE, memory, kPage);
    xfer_region_info_t info[2];
    xfer_ref_t ref[2];
    char uri[256];
    for (int i = 0; i < 2; i++) {
        assert_status(xfer_region_info(region, &info[i], sizeof info[i]), XFER_OK);
        assert_status(xfer_region_ref(region, &ref[i]), XFER_OK);
        if (i == 1) break;
        strcpy(uri, scene.peer.uri);
        peer_kill(&scene.peer);
        shared_drop(&scene.memory);
        start_owner(&scene, uri);
        check_new_owner(&scene, 0);
    }
    assert_memory_equal(&info[0], &info[1], sizeof info[0]);
    assert_memory_equal(&ref[0], &ref[1], sizeof ref[0]);
    shared_drop(&scene.memory);
}

/* ---- the same pid and the same port: only the incarnation tells them apart ---- */

/* The first process of a pid namespace of its own. False where that is not allowed. */
static bool start_as_pid_1(Scene *scene, const char *uri) {
    const int home = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    assert_true(home >= 0);
    const bool allowed = unshare(CLONE_NEWPID) == 0;
    if (allowed) {
        start_owner(scene, uri);
        assert_int_equal(setns(home, CLONE_NEWPID), 0);
    }
    close(home);
    return allowed;
}

static int pid_in_own_namespace(pid_t pid) {
    char path[64], line[256];
    int last = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "NSpid:", 6) != 0) continue;
        last = atoi(strrchr(line, '\t'));
    }
    fclose(file);
    return last;
}

static void test_same_pid(void **state) {
    static Scene scene;
    scene = (Scene){.local = test_memory(kLength)};
    if (!start_as_pid_1(&scene, own_address())) {
        print_message("skip: a pid namespace is not allowed here\n");
        skip();
    }
    scene.host = host_open(*state);
    scene.ep = open_ep(scene.host, scene.peer.uri);
    scene.ref = look_up(scene.host, scene.ep, "memory");
    prepare_batch(&scene);
    wait_event(scene.host, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    scene.seed = first_seed("test_same_pid");
    for (uint64_t round = 0; round < 3; round++) {
        Shared dead = scene.memory;
        char uri[256];
        strcpy(uri, scene.peer.uri);
        assert_int_equal(pid_in_own_namespace(scene.peer.pid), 1);
        submit_work(&scene, round);
        pass_us(draw(&scene.seed, 5000));
        peer_kill(&scene.peer);
        assert_true(start_as_pid_1(&scene, uri));
        assert_string_equal(scene.peer.uri, uri);
        check_work(&scene, round, &dead);
        check_new_owner(&scene, round);
        shared_drop(&dead);
    }
    shared_drop(&scene.memory);
}

/* ---- the first operation of all ---- */

static void test_cold_operation(void **state) {
    Scene scene;
    Times times = {.count = 0};
    open_scene(&scene, *state);
    for (int i = 0; i < rounds_of(64); i++) {
        Host *fresh = host_open(*state);
        const uint64_t began = now_us();
        xfer_ep_t *ep = open_ep(fresh, scene.peer.uri);
        assert_status(put_now(fresh, ep, scene.local, &scene.ref, 0, 64), XFER_OK);
        times_add(&times, now_us() - began);
        host_end(fresh);
        assert_status(xfer_ep_close(ep), XFER_ECLOSED);
    }
    times_print(&times, "cold first operation, same host", "median below 1 ms");
    shared_drop(&scene.memory);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_killed),
    EACH_DISPATCH(test_survivor_keeps_all),
    EACH_DISPATCH(test_same_pid),
    MODE_TEST(test_cold_operation, 6, "poll/none"),
};

TEST_MAIN(tests)
