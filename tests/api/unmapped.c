/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that its owner unmaps while it is lent: what needs it fails, and tells why; all else on
 * the same connection goes on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

enum { kSmall = 64, kLong = 1 << 20, kPart = 256 * 1024, kLength = 4 << 20 };

/* Where nothing else of the process comes to lie once it is unmapped: above its program, below its
 * libraries, and where no sanitizer has memory of its own. NULL: there is none. */
static void *map_apart(uint64_t length) {
    static uintptr_t next = 0x567000000000;
    void *at =
        mmap((void *)next, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    next += length;
    return at == MAP_FAILED ? NULL : at;
}

/* An address where there is nothing. */
static void *missing_memory(uint64_t length) {
    void *at = map_apart(length);
    assert_non_null(at);
    assert_int_equal(munmap(at, length), 0);
    return at;
}

/* ---- the owner, in a process of its own ---- */

static void ignore(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static void say(uint32_t level, const char *text, uint64_t user) {
    (void)user;
    if (level > XFER_LOG_WARN) return;
    printf("log %s\n", text);
    fflush(stdout);
}

static void *lend(xfer_engine_t *engine, const char *name) {
    xfer_region_options_t options = {
        .size = sizeof options, .access = XFER_READ | XFER_WRITE, .name = name};
    xfer_region_t *region;
    void *memory = map_apart(kLength);
    if (!memory || xfer_region_open(engine, &options, memory, kLength, &region, NULL) != XFER_OK)
        _exit(3);
    memset(memory, 7, kLength);
    return memory;
}

/* Lends "gone" and "stays"; at each line of its input it unmaps what the line says of "gone": all
 * of it, or its second half. */
static int own(const char *argument) {
    (void)argument;
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore, .on_log = say};
    xfer_engine_t *engine;
    char bound[256], word;
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK) return 3;
    uint8_t *gone = lend(engine, "gone");
    lend(engine, "stays");
    if (xfer_engine_listen(engine, preferred("tcp://127.0.0.1:0"), NULL, bound, sizeof bound,
                           NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    while (read(STDIN_FILENO, &word, 1) > 0) {
        if (word == 'h') munmap(gone + kLength / 2, kLength / 2);
        if (word == 'a') munmap(gone, kLength);
        /* Another character: only what was logged so far is asked for. */
        printf("unmapped\n");
        fflush(stdout);
    }
    return xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 4;
}

typedef struct Scene {
    Peer peer;
    Host *host;
    xfer_ep_t *ep;
    xfer_ref_t gone, stays;
    uint8_t *local;
    int logged; /* what the owner said of memory that is gone */
} Scene;

static void scene_open(Scene *scene, void **state) {
    scene->logged = 0;
    peer_start_role(&scene->peer, "own", "-");
    peer_read_line(&scene->peer, scene->peer.uri, sizeof scene->peer.uri);
    scene->host = host_open(*state);
    scene->ep = open_ep(scene->host, scene->peer.uri);
    scene->gone = look_up(scene->host, scene->ep, "gone");
    scene->stays = look_up(scene->host, scene->ep, "stays");
    scene->local = test_memory(kLength);
}

static void unmap(Scene *scene, char what) {
    char line[512];
    assert_int_equal(write(scene->peer.in, &what, 1), 1);
    for (;;) {
        peer_read_line(&scene->peer, line, sizeof line);
        if (strcmp(line, "unmapped") == 0) return;
        assert_non_null(strstr(line, "region \"gone\""));
        assert_non_null(strstr(line, "is not mapped any more"));
        scene->logged++;
    }
}

static void end(Scene *scene) {
    assert_int_equal(count_events(scene->host, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    peer_kill(&scene->peer);
}

static void goes_on(Scene *scene) {
    fill(scene->local, kLong, 5);
    assert_status(put_now(scene->host, scene->ep, scene->local, &scene->stays, 0, kLong), XFER_OK);
    memset(scene->local, 0, kLong);
    assert_status(get_now(scene->host, scene->ep, scene->local, &scene->stays, 0, kLong), XFER_OK);
    assert_true(filled(scene->local, kLong, 5, 0));
}

/* The owner has said so. */
static void assert_refused(Scene *scene, uint32_t type, uint64_t user) {
    const xfer_event_t event = wait_event(scene->host, type, user, kPatience);
    assert_completion(&event);
    assert_status(event.status, XFER_EIO);
    assert_int_equal(event.origin, XFER_ORIGIN_PEER);
    assert_true(event.flags & XFER_FENCED);
}

/* A peer's put and get of every size are refused, and the log says once which memory it is. */
static void test_region(void **state) {
    Scene scene;
    scene_open(&scene, state);
    unmap(&scene, 'a');
    for (uint64_t length = kSmall; length <= kLength; length *= 8) {
        uint64_t user = length;
        assert_status(xfer_put(scene.ep, scene.local, &scene.gone, 0, length, user, NULL), XFER_OK);
        assert_status(xfer_get(scene.ep, scene.local, &scene.gone, 0, length, user, NULL), XFER_OK);
        assert_refused(&scene, XFER_EVENT_PUT, user);
        assert_refused(&scene, XFER_EVENT_GET, user);
        goes_on(&scene);
    }
    unmap(&scene, '-');
    assert_int_equal(scene.logged, 1);
    end(&scene);
}

/* While other puts of the connection are under way: none of them fails with those. */
static void test_in_a_stream(void **state) {
    enum { kPuts = 64 };
    Scene scene;
    scene_open(&scene, state);
    for (uint64_t user = 1; user <= kPuts; user++) {
        const xfer_ref_t *ref = user > kPuts / 2 && user % 2 ? &scene.gone : &scene.stays;
        assert_status(xfer_put(scene.ep, scene.local, ref, kLength - kLong, kLong, user, NULL),
                      XFER_OK);
        if (user == kPuts / 2) unmap(&scene, 'h');
    }
    for (uint64_t user = 1; user <= kPuts; user++) {
        if (user > kPuts / 2 && user % 2) {
            assert_refused(&scene, XFER_EVENT_PUT, user);
            continue;
        }
        const xfer_event_t event = wait_event(scene.host, XFER_EVENT_PUT, user, kPatience);
        assert_status(event.status, XFER_OK);
    }
    goes_on(&scene);
    end(&scene);
}

/* The other half of a region is no more to be had than the one that is gone: it is one region. */
static void test_half(void **state) {
    Scene scene;
    scene_open(&scene, state);
    unmap(&scene, 'h');
    assert_status(xfer_get(scene.ep, scene.local, &scene.gone, 0, kSmall, 1, NULL), XFER_OK);
    assert_refused(&scene, XFER_EVENT_GET, 1);
    goes_on(&scene);
    end(&scene);
}

/* ---- at the initiator ---- */

static void assert_ours(Scene *scene, uint32_t type, uint64_t user) {
    const xfer_event_t event = wait_event(scene->host, type, user, kPatience);
    assert_completion(&event);
    assert_status(event.status, XFER_EIO);
    assert_int_equal(event.origin, XFER_ORIGIN_OS);
    assert_int_equal(event.native_code, EFAULT);
}

static void test_local(void **state) {
    Scene scene;
    scene_open(&scene, state);
    for (uint64_t length = kPart; length <= kLength; length *= 2) {
        uint8_t *missing = missing_memory(length);
        assert_status(xfer_put(scene.ep, missing, &scene.gone, 0, length, length, NULL), XFER_OK);
        assert_ours(&scene, XFER_EVENT_PUT, length);
        assert_status(xfer_get(scene.ep, missing, &scene.gone, 0, length, length, NULL), XFER_OK);
        assert_ours(&scene, XFER_EVENT_GET, length);
        goes_on(&scene);
    }
    end(&scene);
}

static bool says(Host *host, const char *what) {
    static char text[65536];
    uint64_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    return strstr(text, what) != NULL;
}

/* Whatever its size, where the kernel copies it. */
static void test_local_small(void **state) {
    Scene scene;
    scene_open(&scene, state);
    const uint64_t end_ms = now_ms() + kPatience;
    while (!over_sockets() && !says(scene.host, "\"kernel\"")) {
        assert_true(now_ms() < end_ms);
        assert_status(put_now(scene.host, scene.ep, scene.local, &scene.gone, 0, kSmall), XFER_OK);
    }
    assert_status(xfer_put(scene.ep, missing_memory(kPart), &scene.gone, 0, kSmall, 1, NULL),
                  XFER_OK);
    assert_ours(&scene, XFER_EVENT_PUT, 1);
    goes_on(&scene);
    end(&scene);
}

/* One of several pieces. */
static void test_local_piece(void **state) {
    Scene scene;
    scene_open(&scene, state);
    uint8_t *missing = missing_memory(kPart);
    for (uint32_t op = XFER_OP_PUT; op <= XFER_OP_GET; op++) {
        xfer_batch_t *batch;
        assert_status(xfer_batch_open(scene.ep, NULL, &batch, NULL), XFER_OK);
        const xfer_span_t spans[] = {
            {(uintptr_t)scene.local, 0, kPart / 4},
            {(uintptr_t)missing, kPart, kPart / 2},
            {(uintptr_t)scene.local + kPart, 2 * kPart, kPart / 4},
        };
        assert_status(xfer_batch_add_spans(batch, op, &scene.gone, spans, sizeof spans[0], 3, NULL),
                      XFER_OK);
        assert_status(xfer_batch_submit(batch, op, NULL), XFER_OK);
        assert_ours(&scene, XFER_EVENT_BATCH, op);
        assert_status(xfer_batch_close(batch), XFER_OK);
        goes_on(&scene);
    }
    end(&scene);
}

/* What was sent instead is not what the owner is told of. */
static void test_local_notified(void **state) {
    Scene scene;
    scene_open(&scene, state);
    for (uint64_t length = kPart; length <= kLength; length *= 4) {
        xfer_batch_t *batch;
        const xfer_submit_options_t options = {
            .size = sizeof options, .flags = XFER_SUBMIT_NOTIFY, .notify_key = 1};
        uint8_t *missing = missing_memory(length);
        assert_status(xfer_batch_open(scene.ep, NULL, &batch, NULL), XFER_OK);
        assert_status(xfer_batch_put(batch, missing, &scene.gone, 0, length), XFER_OK);
        assert_status(xfer_batch_submit(batch, length, &options), XFER_OK);
        const xfer_event_t event = wait_event(scene.host, XFER_EVENT_BATCH, length, kPatience);
        assert_status(event.status, XFER_EIO);
        assert_int_equal(event.flags, XFER_FENCED); /* nobody was told that it is well */
        assert_status(xfer_batch_close(batch), XFER_OK);
        goes_on(&scene);
    }
    end(&scene);
}

/* A message's, which its receiver asks for. */
static void test_local_message(void **state) {
    Host *sender = host_open(*state), *receiver = host_open(*state);
    host_listen(receiver, preferred("tcp://127.0.0.1:0"));
    xfer_ep_t *ep = open_ep(sender, receiver->uri);
    uint8_t *into = test_memory(kLength), *from = test_memory(kLength);
    fill(from, kLength, 3);
    for (uint64_t length = kPart; length <= kLength; length *= 2) {
        const void *gone = missing_memory(length);
        for (uint64_t i = 0; i < 2; i++) {
            const void *data = i == 0 ? gone : from;
            const uint64_t user = length + i;
            assert_status(xfer_recv(receiver->engine, NULL, into, length, 1, ANY_USER, user, NULL),
                          XFER_OK);
            assert_status(xfer_send(ep, data, length, 1, user, NULL), XFER_OK);
            const xfer_event_t sent = wait_event(sender, XFER_EVENT_SEND, user, kPatience);
            const xfer_event_t received = wait_event(receiver, XFER_EVENT_RECV, user, kPatience);
            assert_status(received.status, i == 0 ? XFER_EIO : XFER_OK);
            assert_status(sent.status, i == 0 ? XFER_EIO : XFER_OK);
            if (i == 1) continue;
            assert_int_equal(received.origin, XFER_ORIGIN_PEER);
            assert_int_equal(sent.origin, XFER_ORIGIN_OS);
            assert_int_equal(sent.native_code, EFAULT);
        }
        assert_true(filled(into, length, 3, 0));
    }
    host_end(sender);
    host_end(receiver);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_region),    EACH_DISPATCH(test_in_a_stream),   ONE_MODE(test_half),
    EACH_DISPATCH(test_local),     EACH_DISPATCH(test_local_small),   ONE_MODE(test_local_piece),
    ONE_MODE(test_local_notified), EACH_DISPATCH(test_local_message),
};

TEST_MAIN_AFTER(tests, peer_role("own", own))
