/* SPDX-License-Identifier: Apache-2.0
 *
 * How PEER_DOWN tells the ends of a connection apart: a goodbye, silence, a reset, and a peer that
 * was killed. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

enum { kLength = 4096, kHeartbeat = 1500 };

/* ---- the role: it listens at the URI, and at the end of its input it resets its sockets ---- */

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static int reset(const char *uri) {
    static uint8_t memory[kLength];
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore_event, .id = {9}};
    xfer_region_options_t named = {.size = sizeof named, .access = XFER_READ, .name = "memory"};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    char bound[256], ignored;
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_region_open(engine, &named, memory, kLength, &region, NULL) != XFER_OK ||
        xfer_engine_listen(engine, uri, NULL, bound, sizeof bound, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    while (read(STDIN_FILENO, &ignored, 1) > 0) {}
    const struct linger hard = {.l_onoff = 1};
    for (int fd = 3; fd < 1024; fd++)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard); /* those that are sockets */
    _exit(0);
}

/* ---- the ends ---- */

typedef struct Told {
    xfer_status_t status;
    uint32_t origin;
    int32_t native;
    const char *words; /* in the last error of describe */
} Told;

typedef struct End {
    const char *name;
    bool resets, sockets_only;
    void (*make)(Peer *peer);
    Told told[3]; /* any of these; what is read first is the kernel's choice */
} End;

static void say_goodbye(Peer *peer) {
    assert_int_equal(peer_wait(peer), 0);
}
static void stop(Peer *peer) {
    peer_signal(peer, SIGSTOP);
}

static const char reset_words[] = "reset by peer", no_goodbye[] = "without a goodbye";

static const End ends[] = {
    {"goodbye", false, false, say_goodbye, {{XFER_ECLOSED, XFER_ORIGIN_PEER, XFER_ECLOSED, ""}}},
    {"stopped",
     false,
     false,
     stop,
     {{XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT, "no answer to heartbeats"}}},
    {"reset",
     true,
     true,
     say_goodbye, /* which it does not: its input ends */
     {{XFER_EPEERLOST, XFER_ORIGIN_OS, ECONNRESET, reset_words}}},
    {"killed",
     false,
     false,
     peer_kill,
     {{XFER_EPEERLOST, XFER_ORIGIN_NONE, 0, no_goodbye},
      {XFER_EPEERLOST, XFER_ORIGIN_OS, ECONNRESET, reset_words}}},
};

/* The last error stands there before the event is told. */
static void assert_last_error(Host *host, const End *end, const char *words) {
    static char text[1 << 16];
    size_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    const char *last = strstr(text, "\"last_error\"");
    const char *close = last == NULL ? NULL : strchr(last, '}');
    const char *found = last == NULL ? NULL : strstr(last, words);
    if (found == NULL || close == NULL || found > close)
        fail_msg("%s: no \"%s\" in %.400s", end->name, words, last == NULL ? text : last);
}

static const Told *told_as(const End *end, const xfer_event_t *down) {
    for (size_t i = 0; i < sizeof end->told / sizeof end->told[0]; i++) {
        const Told *told = &end->told[i];
        if (told->words != NULL && down->status == told->status && down->origin == told->origin &&
            down->native_code == told->native)
            return told;
    }
    fail_msg("%s: %s, origin %u, native %d", end->name, xfer_status_name(down->status),
             down->origin, down->native_code);
    return NULL;
}

static void test_each_end(void **state) {
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const End *end = &ends[i];
        if (end->sockets_only && !over_sockets()) continue;
        Peer peer;
        if (end->resets) {
            peer_start_role(&peer, "reset", "tcp://127.0.0.1:0");
            peer_read_line(&peer, peer.uri, sizeof peer.uri);
        } else {
            peer_start(&peer, preferred("tcp://127.0.0.1:0"), kLength, 9);
        }
        xfer_engine_options_t options = host_options(*state);
        options.heartbeat_ms = kHeartbeat;
        Host *host = host_open_with(*state, &options);
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        uint8_t *memory = test_memory(64);
        assert_status(get_now(host, ep, memory, &ref, 0, 64), XFER_OK);
        end->make(&peer);
        /* A local peer at rest is not asked whether it is there. */
        if (peer.out >= 0) assert_status(xfer_ep_lookup(ep, "memory", 2, NULL, NULL), XFER_OK);
        xfer_event_t down = wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        assert_last_error(host, end, told_as(end, &down)->words);
        if (peer.out >= 0) peer_kill(&peer);
        host_end(host);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_each_end),
};

TEST_MAIN_AFTER(tests, peer_role("reset", reset))
