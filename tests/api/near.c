/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines of one host: they find out by themselves that they are neighbours, and copy without each
 * other; what the kernel does not allow goes another way, and nobody notices. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cage.h"
#include "fixture.h"

enum { kSome = 3 << 20, kMade = 4 << 20 };

/* ---- what an engine says of its paths ---- */

static bool says(Host *host, const char *what) {
    static char text[65536];
    uint64_t needed = 0;
    assert_status(xfer_engine_describe(host->engine, text, sizeof text, &needed), XFER_OK);
    return strstr(text, what) != NULL;
}

static const char kNear[] = "\"control\": \"local\"";

static bool is_near(Host *host) {
    return says(host, kNear);
}

static void wait_says(Host *host, const char *what) {
    const uint64_t end = now_ms() + kPatience;
    while (!says(host, what)) {
        if (now_ms() >= end) fail_msg("it does not say %s", what);
        turn(1);
    }
}

static void wait_near(Host *host) {
    wait_says(host, kNear);
}

/* ---- roles ---- */

static void ignore(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

/* An engine that lends memory which it made; its first line is where it listens. */
typedef struct Maker {
    xfer_engine_t *engine;
    xfer_region_t *region;
    void *memory;
} Maker;

static bool make(Maker *maker) {
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore};
    xfer_region_options_t named = {
        .size = sizeof named, .access = XFER_READ | XFER_WRITE, .name = "memory"};
    char bound[256];
    if (xfer_engine_open(&options, &maker->engine, NULL) != XFER_OK ||
        xfer_region_alloc(maker->engine, &named, kMade, &maker->memory, &maker->region, NULL) !=
            XFER_OK ||
        xfer_engine_listen(maker->engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL) !=
            XFER_OK)
        return false;
    printf("%s\n", bound);
    fflush(stdout);
    return true;
}

/* Serves memory that its engine made, until it is told to close the region, and on until its input
 * ends. Its second line is the ref of a grant of all of it. */
static int serve_made(const char *argument) {
    (void)argument;
    Maker maker = {0};
    if (!make(&maker)) return 3;
    xfer_grant_options_t part = {
        .size = sizeof part, .access = XFER_READ | XFER_WRITE, .length = kMade};
    xfer_ref_t ref;
    if (xfer_region_grant(maker.region, &part, &ref, NULL) != XFER_OK) return 3;
    for (size_t i = 0; i < sizeof ref.bytes; i++)
        printf("%02x", ref.bytes[i]);
    printf("\n");
    fflush(stdout);
    char ignored;
    while (read(STDIN_FILENO, &ignored, 1) > 0)
        xfer_region_close(maker.region);
    return xfer_engine_join(maker.engine, XFER_NONE) == XFER_OK ? 0 : 4;
}

/* Serves memory, and forks when its first byte has changed; its last line is the child. */
static int serve_and_fork(const char *argument) {
    (void)argument;
    Maker maker = {0};
    if (!make(&maker)) return 3;
    while (__atomic_load_n((uint8_t *)maker.memory, __ATOMIC_RELAXED) == 0)
        usleep(1000);
    const pid_t child = fork();
    if (child == 0) {
        alarm(2 * kPatience / 1000);
        for (;;)
            pause();
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    for (;;)
        pause();
}

/* Serves as another user does. */
static int serve_as_nobody(const char *argument) {
    (void)argument;
    if (setgid(65534) != 0 || setuid(65534) != 0) return 5;
    return serve_made("");
}

static void made_peer(Peer *peer, const char *role) {
    peer_start_role(peer, role, "-");
    peer_read_line(peer, peer->uri, sizeof peer->uri);
}

/* One that lends memory: what it made as a region, or any. */
static void start_peer(Peer *peer, bool made) {
    if (made)
        made_peer(peer, "made");
    else
        peer_start(peer, "tcp://127.0.0.1:0", kMade, 0);
}

/* XFER_TEST_CAGED: the kernel lets this process, and its peers, at nobody's memory. */
static bool caged(void) {
    return getenv("XFER_TEST_CAGED") != NULL;
}

/* ---- */

static void assert_moves(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref, uint64_t seed) {
    uint8_t *out = test_memory(kSome), *back = test_memory(kSome);
    fill(out, kSome, seed);
    assert_status(put_now(host, ep, out, ref, 100, kSome), XFER_OK);
    assert_status(get_now(host, ep, back, ref, 100, kSome), XFER_OK);
    assert_true(filled(back, kSome, seed, 0));
}

static void test_found_by_themselves(void **state) {
    Pair pair;
    pair_open(&pair, *state, kMade);
    assert_moves(pair.client, pair.ep, &pair.ref, 1);
    wait_near(pair.client);
    wait_near(pair.server);
    assert_true(says(pair.client, "\"small\": \"local\""));
    assert_true(says(pair.client, "\"bulk\": \"local\""));
    /* None was opened to carry what the near one does. */
    assert_false(says(pair.client, "\"lane\": \"data 1\""));
    assert_moves(pair.client, pair.ep, &pair.ref, 2);
    assert_true(filled(pair.memory + 100, kSome, 2, 0));
}

/* What lacks when they first look for each other is there a moment later. */
static void test_found_later(void **state) {
    enum { kMost = 512 };
    Pair pair;
    pair_open(&pair, *state, kMade);
    struct rlimit before, few = {kMost, 0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int taken[kMost], count = 0;
    while ((taken[count] = dup(STDOUT_FILENO)) >= 0)
        count++;
    assert_moves(pair.client, pair.ep, &pair.ref, 1);
    const bool near = is_near(pair.client);
    while (count > 0)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(near);
    for (uint64_t end = now_ms() + kPatience; !is_near(pair.client) && now_ms() < end; pass_ms(5))
        assert_moves(pair.client, pair.ep, &pair.ref, 2);
    wait_near(pair.client);
    wait_near(pair.server);
    assert_moves(pair.client, pair.ep, &pair.ref, 3);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
}

static void test_another_process(void **state) {
    for (int made = 0; made < 2; made++) {
        Peer peer;
        start_peer(&peer, made);
        Host *host = host_open(*state);
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        for (uint64_t seed = 1; seed < 6; seed++)
            assert_moves(host, ep, &ref, seed);
        wait_near(host);
        assert_moves(host, ep, &ref, 9);
        host_end(host);
        peer_kill(&peer);
    }
}

static void test_only_where_wanted(void **state) {
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.transports = "tcp";
    for (int who = 0; who < 2; who++) {
        xfer_engine_options_t all = host_options(mode);
        Pair pair;
        pair_open_with(&pair, who ? &all : &options, who ? &options : &all, mode, kMade);
        assert_moves(pair.client, pair.ep, &pair.ref, 1);
        pass_ms(20);
        assert_false(is_near(pair.client));
        assert_false(is_near(pair.server));
        assert_true(
            says(pair.client, who ? "XFER_TRANSPORTS" : "the peer offers no shared memory"));
        host_end(pair.client);
        host_end(pair.server);
    }
}

/* Until the peer has shown the region. */
static void warm(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref) {
    uint8_t *some = test_memory(64);
    assert_status(get_now(host, ep, some, ref, 0, 64), XFER_OK);
    wait_near(host);
    for (int i = 0; i < 3; i++) {
        assert_status(get_now(host, ep, some, ref, 0, 64), XFER_OK);
        pass_ms(10);
    }
}

static void test_the_owner_need_not_run(void **state) {
    for (int made = caged(); made < 2; made++) {
        Peer peer;
        start_peer(&peer, made);
        Host *host = host_open(*state);
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        warm(host, ep, &ref);
        peer_signal(&peer, SIGSTOP);
        assert_moves(host, ep, &ref, 3);
        peer_signal(&peer, SIGCONT);
        assert_moves(host, ep, &ref, 4);
        host_end(host);
        peer_kill(&peer);
    }
}

static void test_another_user(void **state) {
    if (geteuid() != 0) {
        print_message("skip: only root can run a process of another user\n");
        skip();
    }
    Peer peer;
    made_peer(&peer, "nobody");
    Host *host = host_open(*state);
    xfer_ep_t *ep = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    assert_moves(host, ep, &ref, 1);
    wait_says(host, "another user");
    assert_false(is_near(host));
    assert_moves(host, ep, &ref, 2);
    wait_says(host, "\"small\": \"first\"");
    wait_says(host, "\"bulk\": \"data 1\"");
}

/* ---- the end of what is reached ---- */

static void assert_untouched_after(Pair *pair, const xfer_ref_t *ref, const void *object,
                                   xfer_status_t refused) {
    uint8_t *local = test_memory(kSome);
    fill(local, kSome, 9);
    for (uint64_t i = 0; i < 16; i++)
        assert_status(xfer_put(pair->ep, local, ref, 0, kSome, 100 + i, NULL), XFER_OK);
    if (object == pair->region)
        assert_status(xfer_region_close(pair->region), XFER_OK);
    else
        assert_status(xfer_region_revoke(pair->region, ref), XFER_OK);
    if (object)
        wait_closed(pair->server, object);
    else
        wait_event(pair->server, XFER_EVENT_REVOKED, ANY_USER, kPatience);
    fill(pair->memory, kMade, 5);
    for (uint64_t i = 0; i < 16; i++) {
        const xfer_event_t event = wait_event(pair->client, XFER_EVENT_PUT, 100 + i, kPatience);
        if (event.status != XFER_OK) assert_status(event.status, refused);
    }
    for (int i = 0; i < 3; i++)
        assert_status(put_now(pair->client, pair->ep, local, ref, 0, kSome), refused);
    assert_true(filled(pair->memory, kMade, 5, 0));
}

static void test_closed_is_left_alone(void **state) {
    Pair pair;
    pair_open(&pair, *state, kMade);
    warm(pair.client, pair.ep, &pair.ref);
    assert_untouched_after(&pair, &pair.ref, pair.region, XFER_ESTALE);
}

static void test_revoked_is_left_alone(void **state) {
    Pair pair;
    pair_open(&pair, *state, kMade);
    xfer_grant_options_t options = {
        .size = sizeof options, .offset = 0, .length = kMade, .access = XFER_READ | XFER_WRITE};
    for (int i = 0; i < 3; i++) {
        xfer_ref_t ref;
        assert_status(xfer_region_grant(pair.region, &options, &ref, NULL), XFER_OK);
        warm(pair.client, pair.ep, &ref);
        assert_untouched_after(&pair, &ref, NULL, XFER_EREVOKED);
    }
}

/* ---- death ---- */

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static int in_dev_shm(void) {
    DIR *folder = opendir("/dev/shm");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder) closedir(folder);
    return count;
}

/* Of a killed peer nothing is left that a child of its fork could hold: not its sockets, by which
 * others would see it live, nor its port. */
static void test_forked_children_hide_nothing(void **state) {
    for (int near = 0; near < 2; near++) {
        xfer_engine_options_t options = host_options(*state);
        options.heartbeat_ms = 600000; /* that would tell, too */
        if (!near) options.transports = "tcp";
        Host *host = host_open_with(*state, &options);
        Peer peer;
        made_peer(&peer, "forker");
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        if (near) warm(host, ep, &ref);
        const uint8_t go = 1;
        char line[32];
        assert_status(put_now(host, ep, &go, &ref, 0, 1), XFER_OK);
        peer_read_line(&peer, line, sizeof line);
        const pid_t child = atoi(line);
        assert_true(child > 0);
        peer_kill(&peer);
        wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        /* Only another test's connection may have that number for a while. */
        const uint64_t end = now_ms() + kPatience;
        char uri[256];
        while (xfer_engine_listen(host->engine, peer.uri, NULL, uri, sizeof uri, NULL) != XFER_OK) {
            assert_true(now_ms() < end);
            turn(1);
        }
        assert_int_equal(kill(child, SIGKILL), 0); /* it lived until now */
        host_end(host);
    }
}

static void test_killed_neighbours_leave_nothing(void **state) {
    Host *host = host_open(*state);
    uint8_t *local = test_memory(kSome);
    const int shm = in_dev_shm();
    int files = 0;
    for (int round = 0; round < 12; round++) {
        Peer peer;
        made_peer(&peer, "made");
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref = look_up(host, ep, "memory");
        if (round % 2) warm(host, ep, &ref);
        for (uint64_t i = 0; i < 8; i++)
            assert_status(xfer_put(ep, local, &ref, 0, kSome, i, NULL), XFER_OK);
        for (int i = 0; i < round; i++)
            turn(0);
        peer_kill(&peer);
        for (uint64_t i = 0; i < 8; i++) {
            if (i == 0) wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
            xfer_event_t event;
            if (!take_event(host, XFER_EVENT_PUT, i, &event)) {
                assert_status(xfer_cancel(host->engine, ep, i, UINT64_MAX),
                              XFER_OK); /* it waits for another */
                event = wait_event(host, XFER_EVENT_PUT, i, kPatience);
            }
            assert_completion(&event);
        }
        assert_status(xfer_ep_close(ep), XFER_OK);
        wait_closed(host, ep);
        const uint64_t end = now_ms() + kPatience;
        if (round == 1) files = open_files();
        while (round > 1 && open_files() > files) {
            assert_true(now_ms() < end);
            turn(1);
        }
    }
    assert_int_equal(in_dev_shm(), shm);
}

/* Memory of a neighbour's engine that is mapped here. */
static int mapped_regions(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/memfd:xfer") != NULL;
    fclose(maps);
    return count;
}

static void wait_mapped_regions(int wanted) {
    const uint64_t end = now_ms() + kPatience;
    while (mapped_regions() != wanted) {
        if (now_ms() >= end) fail_msg("%d regions are mapped, not %d", mapped_regions(), wanted);
        turn(1);
    }
}

/* Also where the peer has only ever seen a part of it. */
static void test_memory_that_ended_is_not_kept(void **state) {
    for (int of_grant = 0; of_grant < 2; of_grant++) {
        Peer peer;
        made_peer(&peer, "made");
        char hex[256];
        peer_read_line(&peer, hex, sizeof hex);
        Host *host = host_open(*state);
        xfer_ep_t *ep = open_ep(host, peer.uri);
        xfer_ref_t ref;
        if (of_grant)
            for (size_t i = 0; i < sizeof ref.bytes; i++)
                assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &ref.bytes[i]), 1);
        else
            ref = look_up(host, ep, "memory");
        warm(host, ep, &ref);
        wait_mapped_regions(1);
        assert_int_equal(write(peer.in, "x", 1), 1);
        wait_mapped_regions(0);
        uint8_t *local = test_memory(64);
        assert_status(put_now(host, ep, local, &ref, 0, 64),
                      of_grant ? XFER_EREVOKED : XFER_ESTALE);
        host_end(host);
        assert_int_equal(close(peer.in), 0);
        peer.in = -1;
        assert_int_equal(peer_wait(&peer), 0);
    }
}

/* More than caches hold, which is copied past them. */
static void test_large(void **state) {
    const uint64_t length = (48 << 20) + 77;
    Pair pair;
    pair_open(&pair, *state, length + kSome);
    uint8_t *out = test_memory(length), *back = test_memory(length);
    fill(out, length, 5);
    assert_moves(pair.client, pair.ep, &pair.ref, 1);
    wait_near(pair.client);
    assert_status(put_now(pair.client, pair.ep, out, &pair.ref, 33, length), XFER_OK);
    assert_true(filled(pair.memory + 33, length, 5, 0));
    assert_status(get_now(pair.client, pair.ep, back, &pair.ref, 33, length), XFER_OK);
    assert_true(filled(back, length, 5, 0));
}

/* Neighbours that have nothing to do say nothing; that one is stopped is found out when somebody
 * waits for it, and also if that was not for long. */
static void test_at_rest(void **state) {
    enum { kBeat = 600 }; /* a peer that runs answers within it, on a busy machine too */
    const Mode *mode = *state;
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = kBeat;
    Peer peer;
    made_peer(&peer, "made");
    Host *host = host_open_with(mode, &options);
    xfer_ep_t *ep = open_ep(host, peer.uri);
    xfer_ref_t ref = look_up(host, ep, "memory");
    assert_moves(host, ep, &ref, 1);
    wait_near(host);
    assert_moves(host, ep, &ref, 2);
    /* What is asked and not answered yet when the peer stops is missed, and rightly: so the last
     * answer is waited for, where threads of the engine's own show that nothing is left to do. */
    const bool driven = mode->dispatch != XFER_DISPATCH_THREAD && mode->io_threads == XFER_NONE;
    const uint64_t end = now_ms() + kPatience;
    for (bool rests = driven; !rests;) {
        const uint64_t before = host_stats(host).wakeups;
        assert_true(now_ms() < end);
        usleep(3 * kBeat * 1000);
        rests = host_stats(host).wakeups == before;
    }
    if (driven) pass_ms(3 * kBeat);
    peer_signal(&peer, SIGSTOP);
    pass_ms(3 * kBeat);
    assert_int_equal(count_events(host, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
    const xfer_op_options_t brief = {.size = sizeof brief, .timeout_ms = kBeat / 10};
    assert_status(xfer_send(ep, &ref, sizeof ref, 7, 1, &brief), XFER_OK);
    assert_status(wait_event(host, XFER_EVENT_SEND, 1, kPatience).status, XFER_ETIMEDOUT);
    wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    peer_signal(&peer, SIGCONT);
    assert_moves(host, ep, &ref, 3);
    wait_near(host);
    pass_ms(3 * kBeat);
    peer_signal(&peer, SIGSTOP); /* a receive waits, too */
    uint64_t word;
    assert_status(xfer_recv(host->engine, ep, &word, sizeof word, 7, UINT64_MAX, 2, NULL), XFER_OK);
    wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_status(xfer_cancel(host->engine, ep, 2, UINT64_MAX), XFER_OK);
    assert_status(wait_event(host, XFER_EVENT_RECV, 2, kPatience).status, XFER_ECANCELED);
    host_end(host);
    peer_kill(&peer);
}

/* ---- the owner's end ---- */

enum { kPool = 16 << 20 };

/* The role: puts into all of "pool" for ever. */
static int pour(const char *uri) {
    static uint8_t local[kPool];
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = XFER_NONE};
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_ref_t ref;
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, uri, NULL, &ep, NULL) != XFER_OK ||
        xfer_ep_lookup(ep, "pool", 1, NULL, NULL) != XFER_OK)
        return 3;
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        if (count == 0 || event.user != 1) continue;
        if (event.status != XFER_OK) return 5;
        if (event.kind == XFER_EVENT_LOOKUP) memcpy(&ref, event.data, sizeof ref);
        if (xfer_put(ep, local, &ref, 0, sizeof local, 1, NULL) != XFER_OK) return 6;
    }
}

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

/* A local peer that is stopped in the middle of a copy keeps the owner's memory in use: a join says
 * so at its limit, and is over when that peer is gone. */
static void test_join_beside_a_stopped_copy(void **state) {
    (void)state;
    bool stuck = false;
    const uint64_t end = now_ms() + 2 * kPatience;
    while (!stuck) {
        assert_true(now_ms() < end);
        xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore_event};
        xfer_region_options_t lent = {
            .size = sizeof lent, .access = XFER_READ | XFER_WRITE, .name = "pool"};
        xfer_engine_t *engine = NULL;
        xfer_region_t *region = NULL;
        void *address = NULL;
        char uri[256];
        assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
        assert_status(xfer_region_alloc(engine, &lent, kPool, &address, &region, NULL), XFER_OK);
        assert_status(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL),
                      XFER_OK);
        Peer peer;
        peer_start_role(&peer, "pour", uri);
        /* It copies by itself: nothing is served, and bytes change. */
        const volatile uint8_t *last = (uint8_t *)address + kPool - 1;
        *(volatile uint8_t *)last = 1;
        while (*last == 1 && now_ms() < end)
            usleep(1000);
        usleep(20000 + (useconds_t)(now_ms() % 7) * 1000);
        peer_signal(&peer, SIGSTOP);
        xfer_status_t status = xfer_engine_join(engine, 300);
        stuck = status == XFER_ETIMEDOUT;
        if (stuck) assert_status(xfer_engine_join(engine, 0), XFER_ETIMEDOUT);
        peer_kill(&peer);
        if (stuck) status = xfer_engine_join(engine, kPatience);
        assert_status(status, XFER_OK);
        assert_status(xfer_region_close(region), XFER_ECLOSED);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(test_join_beside_a_stopped_copy),
    EACH_MODE(test_found_by_themselves),
    EACH_MODE(test_found_later),
    EACH_DISPATCH(test_another_process),
    EACH_MODE(test_only_where_wanted),
    EACH_MODE(test_the_owner_need_not_run),
    ONE_MODE(test_another_user),
    EACH_MODE(test_closed_is_left_alone),
    EACH_MODE(test_revoked_is_left_alone),
    EACH_DISPATCH(test_large),
    EACH_DISPATCH(test_forked_children_hide_nothing),
    EACH_DISPATCH(test_killed_neighbours_leave_nothing),
    EACH_MODE(test_memory_that_ended_is_not_kept),
    EACH_DISPATCH(test_at_rest),
    MODE_TEST(test_at_rest, 4, "loop/1"),
    MODE_TEST(test_at_rest, 8, "poll/2"),
};

static void roles(void) {
    peer_role("made", serve_made);
    peer_role("forker", serve_and_fork);
    peer_role("nobody", serve_as_nobody);
    peer_role("pour", pour);
    if (caged() && !cage()) exit(6);
}

TEST_MAIN_AFTER(tests, roles())
