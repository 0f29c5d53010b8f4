/* SPDX-License-Identifier: Apache-2.0
 *
 * What keeps the caller's uv loop alive: an engine until its CLOSED; with XFER_ENGINE_UNREF only
 * one that was closed. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { kKinds = XFER_EVENT_NOTIFIED + 1 };

typedef struct Scene {
    uv_loop_t loop;
    uv_timer_t app;      /* keeps the loop alive while it is started */
    uv_timer_t watchdog; /* unreferenced; ends a uv_run that does not return */
    bool late;
    xfer_engine_t *engine;
    int events[kKinds];
    xfer_status_t status; /* of the last event */
    xfer_ref_t ref;       /* of the last lookup */
} Scene;

static void on_event(const xfer_event_t *event, uint64_t user) {
    Scene *scene = (Scene *)(uintptr_t)user;
    scene->events[event->kind]++;
    scene->status = event->status;
    if (event->kind == XFER_EVENT_LOOKUP && event->data != NULL)
        memcpy(&scene->ref, event->data, sizeof scene->ref);
}

static void on_watchdog(uv_timer_t *timer) {
    Scene *scene = timer->data;
    scene->late = true;
    uv_stop(&scene->loop);
}

static void on_app(uv_timer_t *timer) {
    (void)timer;
}

static xfer_engine_t *open_engine(Scene *scene, uint32_t io_threads, uint32_t flags) {
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_LOOP,
                                     .io_threads = io_threads,
                                     .uv_loop = &scene->loop,
                                     .on_event = on_event,
                                     .user = (uint64_t)(uintptr_t)scene,
                                     .flags = flags};
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    return engine;
}

static Scene *scene_open(const Mode *mode, uint32_t flags) {
    Scene *scene = test_memory(sizeof *scene);
    assert_int_equal(uv_loop_init(&scene->loop), 0);
    uv_timer_init(&scene->loop, &scene->app);
    uv_timer_init(&scene->loop, &scene->watchdog);
    scene->watchdog.data = scene;
    uv_timer_start(&scene->watchdog, on_watchdog, kPatience, 0);
    uv_unref((uv_handle_t *)&scene->watchdog);
    scene->engine = open_engine(scene, mode->io_threads, flags);
    return scene;
}

static void hold(Scene *scene) {
    uv_timer_start(&scene->app, on_app, 1, 1);
}

static void let_go(Scene *scene) {
    uv_timer_stop(&scene->app);
}

/* Whether uv_run returns by itself. */
static bool returns(Scene *scene) {
    return uv_run(&scene->loop, UV_RUN_DEFAULT) == 0 && !scene->late;
}

static void wait_for(Scene *scene, uint32_t kind) {
    while (scene->events[kind] == 0 && !scene->late)
        uv_run(&scene->loop, UV_RUN_ONCE);
    assert_false(scene->late);
}

/* After CLOSED there is nothing of the engine on the loop. */
static void scene_end(Scene *scene) {
    assert_int_equal(scene->events[XFER_EVENT_CLOSED], 1);
    assert_status(xfer_engine_join(scene->engine, XFER_NONE), XFER_OK);
    uv_close((uv_handle_t *)&scene->app, NULL);
    uv_close((uv_handle_t *)&scene->watchdog, NULL);
    assert_true(returns(scene));
    assert_int_equal(uv_loop_close(&scene->loop), 0);
}

/* Without the flag. */
static void test_keeps_alive_until_closed(void **state) {
    Scene *scene = scene_open(*state, 0);
    for (int i = 0; i < 10; i++)
        assert_int_not_equal(uv_run(&scene->loop, UV_RUN_NOWAIT), 0);
    assert_true(uv_loop_alive(&scene->loop));
    assert_status(xfer_engine_close(scene->engine), XFER_OK);
    assert_true(returns(scene));
    scene_end(scene);
}

static void test_returns_with_an_open_engine(void **state) {
    Scene *scene = scene_open(*state, XFER_ENGINE_UNREF);
    assert_false(uv_loop_alive(&scene->loop));
    assert_true(returns(scene));
    char bound[256];
    assert_status(
        xfer_engine_listen(scene->engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL),
        XFER_OK);
    assert_true(returns(scene));
    hold(scene);
    for (int i = 0; i < 10; i++)
        uv_run(&scene->loop, UV_RUN_ONCE);
    let_go(scene);
    assert_true(returns(scene));
    assert_int_equal(scene->events[XFER_EVENT_CLOSED], 0);
    assert_status(xfer_engine_close(scene->engine), XFER_OK);
    assert_true(returns(scene));
    scene_end(scene);
}

/* With a connection, its timers and descriptors; and it works whenever the loop runs. */
static void test_works_while_others_hold_the_loop(void **state) {
    Host *server = host_open(THREAD_MODE);
    host_listen(server, "tcp://127.0.0.1:0");
    uint8_t *memory = test_memory(4096);
    uint8_t *local = test_memory(4096);
    open_region(server, "memory", XFER_READ | XFER_WRITE, memory, 4096);
    Scene *scene = scene_open(*state, XFER_ENGINE_UNREF);
    xfer_ep_t *ep;
    assert_status(xfer_ep_open(scene->engine, server->uri, NULL, &ep, NULL), XFER_OK);
    assert_status(xfer_ep_lookup(ep, "memory", 1, NULL, NULL), XFER_OK);
    assert_true(returns(scene)); /* with work under way, too */
    hold(scene);
    wait_for(scene, XFER_EVENT_LOOKUP);
    let_go(scene);
    assert_true(returns(scene));
    for (uint64_t round = 0; round < 5; round++) {
        fill(local, 4096, round);
        scene->events[XFER_EVENT_PUT] = 0;
        assert_status(xfer_put(ep, local, &scene->ref, 0, 4096, 2, NULL), XFER_OK);
        hold(scene);
        wait_for(scene, XFER_EVENT_PUT);
        assert_status(scene->status, XFER_OK);
        assert_true(filled(memory, 4096, round, 0));
        let_go(scene);
        assert_true(returns(scene));
    }
    assert_status(xfer_ep_close(ep), XFER_OK);
    hold(scene);
    wait_for(scene, XFER_EVENT_CLOSED);
    let_go(scene);
    scene->events[XFER_EVENT_CLOSED] = 0;
    assert_status(xfer_engine_close(scene->engine), XFER_OK);
    assert_true(returns(scene));
    scene_end(scene);
}

/* ---- the end ---- */

static void close_and_let_go(uv_timer_t *timer) {
    Scene *scene = timer->data;
    xfer_engine_close(scene->engine);
    uv_timer_stop(timer);
}

/* The application lets its loop go right after it has closed the engine. */
static void test_closed_comes_after_the_last_handle(void **state) {
    Scene *scene = scene_open(*state, XFER_ENGINE_UNREF);
    scene->app.data = scene;
    uv_timer_start(&scene->app, close_and_let_go, 1, 1);
    assert_true(returns(scene));
    scene_end(scene);
}

static void *close_elsewhere(void *engine) {
    xfer_engine_close(engine);
    return NULL;
}

static void test_closed_by_another_thread(void **state) {
    Scene *scene = scene_open(*state, XFER_ENGINE_UNREF);
    hold(scene);
    uv_run(&scene->loop, UV_RUN_ONCE);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_elsewhere, scene->engine), 0);
    pthread_join(thread, NULL);
    uv_run(&scene->loop, UV_RUN_ONCE); /* in which the engine hears of it */
    let_go(scene);
    assert_true(returns(scene));
    scene_end(scene);
}

/* Another engine on the same loop is none of its affair. */
static void test_beside_one_that_keeps_alive(void **state) {
    const Mode *mode = *state;
    Scene *scene = scene_open(mode, XFER_ENGINE_UNREF);
    xfer_engine_t *other = open_engine(scene, mode->io_threads, 0);
    assert_true(uv_loop_alive(&scene->loop));
    assert_int_not_equal(uv_run(&scene->loop, UV_RUN_NOWAIT), 0);
    assert_status(xfer_engine_close(other), XFER_OK);
    assert_true(returns(scene)); /* with its CLOSED */
    assert_int_equal(scene->events[XFER_EVENT_CLOSED], 1);
    assert_status(xfer_engine_join(other, XFER_NONE), XFER_OK);
    scene->events[XFER_EVENT_CLOSED] = 0;
    assert_false(uv_loop_alive(&scene->loop));
    assert_status(xfer_engine_close(scene->engine), XFER_OK);
    assert_true(returns(scene));
    scene_end(scene);
}

#define EACH_LOOP(test) MODE_TEST(test, 3, "loop/none"), MODE_TEST(test, 4, "loop/1")

static const struct CMUnitTest tests[] = {
    EACH_LOOP(test_keeps_alive_until_closed),
    EACH_LOOP(test_returns_with_an_open_engine),
    EACH_LOOP(test_works_while_others_hold_the_loop),
    EACH_LOOP(test_closed_comes_after_the_last_handle),
    EACH_LOOP(test_closed_by_another_thread),
    EACH_LOOP(test_beside_one_that_keeps_alive),
};

TEST_MAIN(tests)
