/* SPDX-License-Identifier: Apache-2.0
 *
 * All that ends a batch on a stream early (xfer/cuda.h), at each place where it may be: it has one
 * event, and its stream goes on, now and in all launches to come. */
#include <string.h>
#include <unistd.h>

#include "on_stream.h"

enum {
    kUser = 7,
    kDrain = 8,
    kQuietMs = 1000
}; /* the last: how long a stream waits for its copies at most */

/* ---- where it is ---- */

typedef enum Place {
    kWaits,   /* for its stream */
    kCopies,  /* its copies do not end */
    kSilent,  /* its peer does not answer */
    kBetween, /* two launches */
    kPlaces
} Place;

static const char *const place_names[] = {"waits", "copies", "silent", "between"};

typedef struct Scene {
    OnStream on;
    Place place;
    bool recorded;
    int hole;
} Scene;

static bool runs(const Scene *scene) {
    return scene->place == kCopies || scene->place == kSilent;
}

static void begin(Scene *scene) {
    if (scene->recorded)
        launch(&scene->on);
    else
        submit_on(&scene->on, kUser, NULL);
}

/* The batch is where it is to end. */
static void set_scene(Scene *scene, const Mode *mode, Place place, bool recorded) {
    OnStream *const on = &scene->on;
    *scene = (Scene){.place = place, .recorded = recorded, .hole = -1};
    on_stream_open(on, mode);
    if (place == kSilent) scene->hole = on_stream_to_nobody(on);
    if (recorded) record(on, kUser, NULL);
    if (recorded && place != kSilent) { /* one that goes well */
        launch(on);
        assert_true(passes(on->stream, kPatience));
        assert_int_equal(on->result->runs, 1);
    }
    const unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync");
    if (place == kWaits) fake_cuda_hold_stream(on->stream, 1);
    if (place == kCopies) fake_cuda_hold_copies(1);
    if (place != kBetween) begin(scene);
    if (place == kCopies) await_copies("cuMemcpyDtoHAsync", copies, 1);
    if (runs(scene)) await_wait(on->stream);
    pass_ms(20);
    assert_no_event(on->pair.client, kUser, 0);
}

/* ---- how it ends ---- */

typedef void (*Ending)(Scene *scene);

static void by_cancel(Scene *scene) {
    assert_status(xfer_batch_cancel(scene->on.batch), XFER_OK);
}

static void by_user(Scene *scene) {
    xfer_engine_t *const engine = scene->on.pair.client->engine;
    assert_status(xfer_cancel(engine, NULL, kUser + 16, UINT64_MAX), XFER_OK); /* of none */
    assert_status(xfer_cancel(engine, scene->on.ep, kUser, UINT64_MAX), XFER_OK);
}

static void by_batch_close(Scene *scene) {
    assert_status(xfer_batch_close(scene->on.batch), XFER_OK);
    scene->on.batch = NULL;
}

static void by_ep_close(Scene *scene) {
    assert_status(xfer_ep_close(scene->on.ep), XFER_OK);
}

static void by_engine_close(Scene *scene) {
    assert_status(xfer_engine_close(scene->on.pair.client->engine), XFER_OK);
}

static void by_drain(Scene *scene) {
    const uint32_t limit = scene->place == kSilent ? 300 : XFER_NONE;
    assert_status(xfer_engine_drain(scene->on.pair.client->engine, kDrain, WITHIN(limit)), XFER_OK);
}

/* ---- what comes of it ---- */

/* The event, and the closed handle behind it. */
static xfer_event_t the_event(Scene *scene, Ending ending) {
    Host *const client = scene->on.pair.client;
    const xfer_event_t event = only_event(client, kUser);
    if (ending == by_ep_close) wait_closed(client, scene->on.ep);
    if (ending == by_engine_close) wait_closed(client, client->engine);
    assert_int_equal(count_events(client, XFER_EVENT_BATCH, kUser), 1);
    return event;
}

static void await_drained(Host *client) {
    assert_status(wait_event(client, XFER_EVENT_DRAINED, kDrain, kPatience).status, XFER_OK);
}

/* A drain alone ends nothing that runs, and here does not come to its end. */
static void end_of_silence(Scene *scene) {
    Host *const client = scene->on.pair.client;
    assert_status(wait_event(client, XFER_EVENT_DRAINED, kDrain, kPatience).status, XFER_ETIMEDOUT);
    assert_true(fake_cuda_waits(scene->on.stream));
    assert_no_event(client, kUser, 0);
    by_cancel(scene);
}

/* Its copies are held: nothing tells the event before they have ended. A stream does not wait so
 * long, but for a drain, which lets the batch go on. */
static void end_of_copies(Scene *scene, Ending ending, uint64_t start) {
    OnStream *const on = &scene->on;
    if (ending != by_drain) {
        assert_true(passes(on->stream, kPatience));
        assert_true(now_ms() - start + 1 >= kQuietMs);
        if (on->batch) { /* not closed, and with it the result */
            assert_status(on->result->status, XFER_ECANCELED);
            assert_int_equal(on->result->flags, XFER_MAYBE_APPLIED);
        }
    } else {
        pass_ms(50);
        assert_true(fake_cuda_waits(on->stream));
    }
    assert_no_event(on->pair.client, kUser, 0);
    fake_cuda_hold_copies(0);
}

static xfer_status_t expected(const Scene *scene, Ending ending) {
    if (ending != by_drain || scene->place == kSilent) return XFER_ECANCELED;
    return scene->place == kCopies ? XFER_OK : XFER_ECLOSED;
}

static void assert_end(Scene *scene, Ending ending, const xfer_event_t *event) {
    assert_status(event->status, expected(scene, ending));
    if (!runs(scene)) { /* nothing of it was ever sent */
        assert_true((event->flags & XFER_FENCED) != 0);
        assert_int_equal(event->bytes, 0);
    }
}

/* What is launched from now on goes by. */
static void assert_goes_by(Scene *scene, uint64_t ended) {
    OnStream *const on = &scene->on;
    if (!scene->recorded) return;
    for (int i = 0; i < 3; i++)
        launch(on);
    assert_true(passes(on->stream, kPatience));
    assert_int_equal(count_events(on->pair.client, XFER_EVENT_BATCH, kUser), 1);
    if (on->batch) assert_int_equal(on->result->runs, ended);
    fake_cuda_free_exec(on->exec);
    pass_ms(20);
    assert_int_equal(count_events(on->pair.client, XFER_EVENT_BATCH, kUser), 1);
}

static void play(const Mode *mode, Place place, bool recorded, Ending ending) {
    Scene scene;
    set_scene(&scene, mode, place, recorded);
    OnStream *const on = &scene.on;
    memset(on->pair.memory, 0, kBytes);
    const uint64_t start = now_ms();
    ending(&scene);
    if (place == kCopies) end_of_copies(&scene, ending, start);
    if (place == kSilent && ending == by_drain) end_of_silence(&scene);
    const xfer_event_t event = the_event(&scene, ending);
    if (place == kWaits) {
        assert_false(fake_cuda_idle(on->stream, 0));
        fake_cuda_hold_stream(on->stream, 0);
    }
    assert_true(passes(on->stream, kPatience));
    assert_end(&scene, ending, &event);
    const uint64_t ended = (recorded && place != kSilent) + (uint64_t)runs(&scene);
    if (on->batch) {
        assert_int_equal(on->result->runs, ended);
        assert_int_equal(batch_state(on->batch), XFER_BATCH_IDLE);
    }
    assert_goes_by(&scene, ended);
    if (ending == by_drain && place != kSilent) await_drained(on->pair.client);
    const bool usable = place != kSilent && (ending == by_cancel || ending == by_user);
    if (!runs(&scene)) assert_int_equal(on->pair.memory[1], 0);
    if (usable) assert_status(submit_now(on->pair.client, on->batch), XFER_OK);
    host_end(on->pair.client);
    host_end(on->pair.server);
    if (scene.hole >= 0) close(scene.hole);
}

static void play_all(const Mode *mode, Ending ending, const char *name) {
    for (Place place = kWaits; place < kPlaces; place++) {
        for (int recorded = place == kBetween; recorded < 2; recorded++) {
            print_message("  %s: %s%s\n", name, place_names[place], recorded ? ", recorded" : "");
            play(mode, place, recorded, ending);
        }
    }
}

static void test_cancel(void **state) {
    play_all(*state, by_cancel, "cancel");
}

static void test_cancel_by_user(void **state) {
    play_all(*state, by_user, "cancel by user");
}

static void test_batch_close(void **state) {
    play_all(*state, by_batch_close, "batch close");
}

static void test_ep_close(void **state) {
    play_all(*state, by_ep_close, "endpoint close");
}

static void test_engine_close(void **state) {
    play_all(*state, by_engine_close, "engine close");
}

static void test_drain(void **state) {
    play_all(*state, by_drain, "drain");
}

/* Its run is the last, as the engine drains, and is canceled all the same. */
static void test_cancel_of_the_last_run(void **state) {
    Scene scene;
    set_scene(&scene, *state, kSilent, true);
    Host *const client = scene.on.pair.client;
    assert_status(xfer_engine_drain(client->engine, kDrain, WITHIN(XFER_NONE)), XFER_OK);
    assert_no_event(client, kUser, 50);
    assert_true(fake_cuda_waits(scene.on.stream));
    by_cancel(&scene);
    assert_status(only_event(client, kUser).status, XFER_ECANCELED);
    assert_true(passes(scene.on.stream, kPatience));
    assert_int_equal(scene.on.result->runs, 1);
    await_drained(client);
    fake_cuda_free_exec(scene.on.exec);
    close(scene.hole);
}

/* Ends and arrivals at the same moment, as they come. */
static void test_races(void **state) {
    OnStream on;
    on_stream_open(&on, *state);
    const int rounds = quick() ? 40 : 200;
    int canceled = 0;
    for (int i = 0; i < rounds; i++) {
        const bool recorded = i % 2;
        const uint64_t user = 100 + (uint64_t)i;
        fake_cuda_hold_stream(on.stream, 1);
        if (recorded) {
            fake_cuda_hold_stream(on.stream, 0);
            record(&on, user, NULL);
            launch(&on);
            launch(&on);
        } else {
            submit_on(&on, user, NULL);
            fake_cuda_hold_stream(on.stream, 0);
        }
        if (i % 3) usleep((useconds_t)(i % 7) * 30);
        if (i % 5 == 0) turn(0);
        const xfer_status_t asked = xfer_batch_cancel(on.batch);
        assert_true(asked == XFER_OK || (!recorded && asked == XFER_EINVAL)); /* it had ended */
        const xfer_event_t event = only_event(on.pair.client, user);
        assert_true(event.status == XFER_OK || event.status == XFER_ECANCELED);
        canceled += event.status == XFER_ECANCELED;
        assert_true(passes(on.stream, kPatience));
        if (!recorded) continue;
        launch(&on);
        assert_true(passes(on.stream, kPatience));
        fake_cuda_free_exec(on.exec);
    }
    assert_true(canceled > 0);
    assert_int_equal(count_events(on.pair.client, XFER_EVENT_BATCH, ANY_USER), rounds);
    assert_status(submit_now(on.pair.client, on.batch), XFER_OK);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_cancel),
    EACH_WAY(test_cancel_by_user),
    EACH_WAY(test_batch_close),
    EACH_WAY(test_ep_close),
    EACH_WAY(test_engine_close),
    EACH_WAY(test_drain),
    EACH_WAY(test_cancel_of_the_last_run),
    EACH_WAY(test_races),
};

TEST_MAIN(tests)
